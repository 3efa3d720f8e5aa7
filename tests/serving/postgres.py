"""A PostgreSQL server of the tests' own, in a temporary folder, run by an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return None if initdb is None else Path(initdb).resolve().parent


def unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


@contextmanager
def server() -> Iterator[str]:
    """Yield the address of a fresh server; raises RuntimeError with the reason where that is impossible."""
    where = binaries()
    if where is None:
        raise RuntimeError("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    user = unprivileged()
    if user is None and os.geteuid() == 0:
        raise RuntimeError("PostgreSQL refuses to run as root, and there is no unprivileged user")
    folder = Path(tempfile.mkdtemp(prefix="driftbandit-pg-", dir="/tmp"))
    if user is not None:
        shutil.chown(folder, user)

    def run(*command: str) -> None:
        done = subprocess.run(
            command,
            user=user,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr.decode()[-500:]} {done.stdout.decode()[-500:]}")

    data = str(folder / "data")
    try:
        run(str(where / "initdb"), "-D", data, "-U", "tester", "--auth=trust", "-E", "UTF8", "--no-sync")
        options = (
            f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c shared_buffers=32MB -c max_connections=50"
        )
        run(str(where / "pg_ctl"), "-D", data, "-w", "-o", options, "-l", str(folder / "log"), "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            run(str(where / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
