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


class Postgres:
    """A server that tests can stop and start."""

    def __init__(self, where: Path, folder: Path, user: str | None) -> None:
        self.address = f"postgresql://tester@/postgres?host={folder}"
        self._where, self._folder, self._user = where, folder, user
        self._data = str(folder / "data")
        self._run("initdb", "-U", "tester", "--auth=trust", "-E", "UTF8", "--no-sync")

    def _run(self, program: str, *options: str) -> None:
        done = subprocess.run(
            [str(self._where / program), "-D", self._data, *options],
            user=self._user,
            cwd=self._folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode()[-500:]} {done.stdout.decode()[-500:]}")

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self._folder}'"
        options += " -c shared_buffers=32MB -c max_connections=50"
        self._run("pg_ctl", "-w", "-o", options, "-l", str(self._folder / "log"), "start")

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-m", how, "stop")


@contextmanager
def server() -> Iterator[Postgres]:
    """Yield a fresh server that runs; raises RuntimeError with the reason where that is impossible."""
    where = binaries()
    if where is None:
        raise RuntimeError("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    user = unprivileged()
    if user is None and os.geteuid() == 0:
        raise RuntimeError("PostgreSQL refuses to run as root, and there is no unprivileged user")
    folder = Path(tempfile.mkdtemp(prefix="driftbandit-pg-", dir="/tmp"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        postgres = Postgres(where, folder, user)
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
