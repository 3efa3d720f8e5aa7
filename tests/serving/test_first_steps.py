"""The first section of docs/service.md, typed as it stands: every command works and answers what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from driftbandit.serving.server import build_app

from .live import live

PAGE = Path(__file__).parents[2] / "docs" / "service.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """Commands of the section and what the page says that they print."""
    section = PAGE.read_text(encoding="utf-8").split("in five minutes\n")[1].split("\n## ")[0]
    found = []
    for block in BLOCK.findall(section):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *rest = entry.splitlines()
            more = list(takewhile(lambda line: line.startswith("    "), rest))  # a command may go on in the next line
            found.append(("\n".join([first, *more]), "\n".join(rest[len(more) :])))
    return found


def matches(said: str, printed: str) -> bool:
    """Whether that was printed; `...` stands for anything."""
    pattern = ".*?".join(map(re.escape, said.split("...")))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_do_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "driftbandit").write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "from driftbandit.cli import app; app()" "$@"\n'
    )
    (tmp_path / "driftbandit").chmod(0o755)
    typed = 0
    with live(build_app(f"sqlite:{tmp_path / 'driftbandit.db'}", secure=False)) as url:
        for command, said in steps():
            if command.startswith(("python3 -m venv", ". .venv", "pip install", "driftbandit serve", "curl -H")):
                continue  # what the test has done in other ways, or needs the key just made
            done = subprocess.run(
                ["bash", "-c", command.replace("localhost:8080", url.removeprefix("http://"))],
                cwd=tmp_path,
                env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
            if said and "keys create" not in command:  # whose answer differs each time
                assert matches(said, done.stdout), (command, said, done.stdout)
            typed += 1
    assert typed == 10
