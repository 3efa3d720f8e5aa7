"""How tests run commands: in this process, in an empty folder."""

import json
from pathlib import Path

from typer.testing import CliRunner

from driftbandit.cli import app

COMMANDS = [
    *(
        "audit",
        "evaluate",
        "learn",
        "compare",
        "arena",
        "paper",
        "data",
        "advise",
        "policies",
        "bench",
        "serve",
        "demo",
    ),
    "rerun",
    "warm",
]
SMALL = ["--seeds", "2", "--horizon", "300", "--period", "100", "--arms", "50", "--dim", "4", "--processes", "1"]
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def succeed(*args):
    result = run(*args)
    assert result.exit_code == 0, result.output
    assert "Traceback" not in result.output
    return result


def as_json(*args):
    """What --json prints: one valid document without NaN, and nothing else anywhere."""
    result = succeed(*args, "--json")
    assert result.stderr == ""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(result.stdout, parse_constant=refuse)


def written(result):
    """The files that a command says it wrote, which must be there."""
    files = [Path(line.removeprefix("wrote ")) for line in result.stdout.splitlines() if line.startswith("wrote ")]
    assert files
    for path in files:
        assert path.stat().st_size > 0
        if path.suffix == ".png":
            assert path.read_bytes().startswith(SIGNATURE)
        if path.suffix == ".json":
            json.loads(path.read_text())
        if path.suffix == ".html":
            assert "</html>" in path.read_text(encoding="utf-8")
    return files
