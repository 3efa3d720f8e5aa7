"""Makes service processes quickly: forks them from a process that has imported, and compiled, what they need.

Run as a script. Each line of its input is an order in JSON, each line of its output the answer.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import psycopg  # noqa: F401 - what a PostgreSQL store needs
import uvicorn.loops.auto
import uvicorn.protocols.http.auto  # noqa: F401

import driftbandit.serving.stores.postgresql
import driftbandit.serving.stores.sqlite  # noqa: F401
from driftbandit.cli.service import milliseconds_of
from driftbandit.serving.engine.warmup import rehearse
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.server import build_app, serve


def start(store: str, port: int, log: str, options: dict[str, Any]) -> int:
    """Fork a process that does what `driftbandit serve --insecure-local` does; returns its id."""
    child = os.fork()
    if child:
        return child
    try:
        with open(log, "ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        if "keep" in options:
            options |= {"keep": milliseconds_of("keep", options["keep"]), "archive": Path(options["archive"])}
        serve(build_app(store, secure=False, **options), "127.0.0.1", port)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def main() -> None:
    rehearse(LoopConfig(policy=os.environ.get("DRIFTBANDIT_POLICY", "dlinucb"), dim=3))
    for line in sys.stdin:
        order = json.loads(line)
        answer = os.waitpid(order["ended"], os.WNOHANG)[0] if "ended" in order else start(**order)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
