"""Sections of docs/service.md, typed as they stand: every command works and answers what the page says."""

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


def steps(title: str) -> list[tuple[str, str]]:
    """Commands of a section and what the page says that they print."""
    section = PAGE.read_text(encoding="utf-8").split(f"{title}\n", 1)[1].split("\n## ")[0]
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
@pytest.mark.parametrize(("title", "count"), [("in five minutes", 10), ("## Named features", 10)])
def test_the_commands_do_what_the_page_says(tmp_path: Path, title: str, count: int) -> None:
    program = '-c "from driftbandit.cli import app; app()"'
    for command, arguments in {"driftbandit": program, "python3": ""}.items():
        (tmp_path / command).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (tmp_path / command).chmod(0o755)
    typed = 0
    with live(build_app(f"sqlite:{tmp_path / 'driftbandit.db'}", secure=False)) as url:
        for command, said in steps(title):
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
    assert typed == count
