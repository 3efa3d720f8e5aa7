"""The files in deploy/, as far as they can be checked without a machine to deploy to."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from driftbandit.cli import app

DEPLOY = Path(__file__).parents[2] / "deploy"


def commands() -> dict[str, list[str]]:
    """The commands that the files start."""
    unit = re.search(r"^ExecStart=(.*)$", (DEPLOY / "driftbandit.service").read_text(), re.MULTILINE)
    image = re.search(r"^ENTRYPOINT (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert unit is not None
    assert image is not None
    return {"unit": shlex.split(unit[1]), "image": json.loads(image[1])}


@pytest.mark.parametrize("which", ["unit", "image"])
def test_the_command_is_understood(which: str) -> None:
    program, name, *options = commands()[which]
    assert Path(program).name == "driftbandit"
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    context = command.make_context(name, options)  # which parses, and runs nothing
    assert context.params["store"].startswith("sqlite:/")
    assert not context.params["insecure_local"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "driftbandit.service"
    text = (DEPLOY / "driftbandit.service").read_text()
    unit.write_text(text.replace(commands()["unit"][0], "/bin/true"))  # it wants the program to be there
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)
