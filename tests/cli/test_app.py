"""The command line as a whole: help, errors in one line, the installed script."""

import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from cli.commands import COMMANDS, SMALL, run, succeed
from driftbandit import __version__
from driftbandit.cli import app
from driftbandit.cli.shared import friendly_errors
from driftbandit.policies.registry import REGISTRY

SCRIPT = str(Path(sys.executable).with_name("driftbandit"))


def test_version():
    assert succeed("--version").stdout == f"{__version__}\n"


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_shows_an_example(command, flag):
    text = " ".join(succeed(command, flag).stdout.split())
    assert f"Example: driftbandit {command}" in text


def test_help_lists_all_commands():
    text = succeed("--help").stdout
    for command in COMMANDS:
        assert command in text
    shown = [command for command in app.registered_commands if not command.hidden]
    assert {command.name or command.callback.__name__ for command in shown} == set(COMMANDS)
    assert "replay" not in re.findall(r"(?m)^│ (\w+)", text), "the old name of rerun works, but is not shown"


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_have_options_that_exist(command):
    text = " ".join(succeed(command, "--help").stdout.split())
    example = re.search(rf"Example: driftbandit {command}(.*?)[╭│]", text).group(1)
    options = text[text.index("╭") :]
    for option in re.findall(r"--[a-z-]+", example):
        assert option in options, option


def test_the_old_name_of_rerun_still_works():
    assert succeed("replay", "--help").stdout.count("Make every decision of an exported log") == 1
    assert run("replay", "missing.ndjson").stderr == run("rerun", "missing.ndjson").stderr


def test_heavy_imports_wait_inside_the_commands():
    heavy = ("numba", "scipy", "matplotlib", "pyarrow", "msgspec", "uvicorn", "platformdirs")
    code = f"import sys, driftbandit.cli; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_of_bench_names_the_extra():
    text = " ".join(succeed("bench", "--help").stdout.split())
    assert "pip install 'driftbandit[bench]'" in text


ADVISE = ["advise", "--noise", "0.1", "--shift", "0.9"]

BAD = [
    (["compare", "--dim", "0"], "dim: "),
    (["compare", "--arms", "-5"], "arms: "),
    (["compare", "--pool", "2000"], "pool: "),
    (["compare", "--noise", "-0.1"], "noise: "),
    (["compare", "--noise", "nan"], "noise: "),
    (["compare", "--shift", "inf"], "shift: "),
    (["compare", "--share", "1.5"], "share: "),
    (["compare", "--preset", "rotation", "--share", "0.5"], "share: "),
    (["compare", "--period", "0"], "period: "),
    (["compare", "--horizon", "0"], "horizon: "),
    (["compare", "--preset", "table9"], "preset: "),
    (["compare", "--preset", "text", "--policies", "random", "--seeds", "1"], "shift: no theta in 204,800 draws"),
    (["compare", "--policies", "linucb,nobody"], "policies: unknown 'nobody'; expected one of"),
    (["compare", "--policies", "linucb,dlinuc"], "policies: unknown 'dlinuc' (did you mean 'dlinucb'?)"),
    (["compare", "--preset", "rotatoin"], "preset: unknown 'rotatoin' (did you mean 'rotation-v1'?)"),
    (["compare", "--policies", ""], "expected at least one policy"),
    (["compare", "--policies", "random", *SMALL, "--out", "taken"], "taken"),
    ([*ADVISE, "--share", "0"], "share: "),
    ([*ADVISE, "--period", "0"], "period: "),
    ([*ADVISE, "--delta", "0.7"], "delta: "),
    ([*ADVISE, "--spawn-delta", "0.5"], "spawn_delta: "),
    ([*ADVISE, "--window", "0"], "window: "),
    (["advise", "--noise", "-1", "--shift", "0.9"], "noise: "),
    ([*ADVISE, "--out", "taken"], "taken"),
    (["advise", "--clicks", "--rate", "0"], "rate: "),
    (["advise", "--clicks", "--rate", "nan"], "rate: "),
    (["advise", "--clicks", "--rate", "1"], "rate: "),
    (["advise", "--clicks", "--lift", "1"], "lift: "),
    (["advise", "--clicks", "--lift", "1000"], "lift: 1000 leaves no click rate below 1"),
    (["advise", "--clicks", "--rate", "0.5", "--lift", "2"], "lift: 2 times a rate of 0.5 is not below 1"),
    (["advise", "--clicks", "--rate", "0.02", "--dim", "0"], "dim: "),
    (["advise", "--clicks", "--period", "0"], "period: "),
    (["advise", "--clicks", "--delta", "2"], "delta: "),
    (["advise", "--clicks", "--out", "taken"], "taken"),
    (["policies", "--out", "taken"], "taken"),
    (["bench", "--sizes", "big"], "--sizes: "),
    (["bench", "--sizes", "3"], "--sizes: "),
    (["bench", "--sizes", "3x"], "--sizes: "),
    (["bench", "--sizes", "3x4x5"], "--sizes: "),
    (["bench", "--sizes", "0x4"], "--sizes: "),
    (["bench", "--sizes", "3x-4"], "--sizes: "),
    (["bench", "--sizes", ""], "--sizes: "),
]


@pytest.mark.parametrize("extra", [[], ["--json"]])
@pytest.mark.parametrize(("args", "words"), BAD)
def test_errors_are_one_line(args, words, extra):
    Path("taken").write_text("a file where a folder should go")
    result = run(*args, *extra)
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit), "caught, not thrown at the user"
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert words in lines[0]


@pytest.mark.parametrize(
    "args",
    [
        ["compare", "--seeds", "0"],
        ["compare", "--seed", "-1"],
        ["compare", "--processes", "0"],
        ["compare", "--dim", "ten"],
        ["compare", "--colour", "red"],
        ["paper", "table9"],
        ["paper"],
        ["advise"],
        ["advise", "--noise", "0.1"],
        ["advise", "--shift", "0.9"],
        ["advise", "--clicks", "--noise", "0.1"],
        ["advise", "--clicks", "--window", "100"],
        [*ADVISE, "--lift", "2"],
        [*ADVISE, "--rate", "0.02"],
        ["advise", "--clicks", "--rate", "2%"],
        ["bench", "--rounds", "0"],
        ["policies", "--seed", "-1"],
        ["nothing"],
    ],
)
def test_wrong_usage_is_explained(args, tmp_path):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_script_runs():
    done = subprocess.run([SCRIPT, "policies", "--json"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(json.loads(done.stdout)) == list(REGISTRY)


def test_the_script_fails_in_one_line():
    args = [SCRIPT, "compare", "--policies", "nobody"]
    done = subprocess.run(args, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: policies: unknown 'nobody'; ")


@pytest.mark.parametrize("how", [[], ["--json"]])
def test_a_reader_that_has_read_enough_is_told_nothing(how):
    process = subprocess.Popen([SCRIPT, "policies", *how], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=60) == 1


@pytest.mark.parametrize(
    ("resumes", "said"), [(True, "stopped; the same command continues where it was\n"), (False, "stopped\n")]
)
def test_ctrl_c_promises_no_more_than_the_command_does(capsys, resumes, said):
    with pytest.raises(typer.Exit) as ended, friendly_errors(resumes=resumes):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("stdout", ["as it is", "closed", "none"])
def test_another_broken_pipe_is_an_error(monkeypatch, capsys, stdout):
    closed = io.StringIO()
    closed.close()
    with monkeypatch.context() as patch:
        if stdout != "as it is":
            patch.setattr(sys, "stdout", None if stdout == "none" else closed)
        with pytest.raises(typer.Exit) as ended, friendly_errors():
            raise BrokenPipeError(errno.EPIPE, "the other side is gone")
    assert ended.value.exit_code == 2
    assert capsys.readouterr().err == "error: [Errno 32] the other side is gone\n"


def test_ctrl_c_stops_and_the_same_command_continues(tmp_path):
    out = tmp_path / "out"
    seeds = 400
    args = ["compare", "--policies", "linucb", "--horizon", "10000", "--processes", "2", "--out", str(out)]
    process = subprocess.Popen(
        [SCRIPT, *args, "--seeds", str(seeds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # it may be ignored in a background job
    )
    try:
        while len(list(out.rglob("*.parquet"))) < 2:
            assert process.poll() is None, "it must not end before it is stopped"
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the command and its workers
        stdout, stderr = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 130, f"{len(list(out.rglob('*.parquet')))} runs were played: {stderr}"
    assert stdout == ""
    assert "the same command continues where it was" in stderr
    assert "Traceback" not in stderr
    # What was under way may end, and a worker or two may have had the next run in hand; the rest must not be played.
    assert len(list(out.rglob("*.parquet"))) <= seeds // 2
