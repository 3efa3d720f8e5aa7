"""Starting the service: stores by their address, the application, uvicorn."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from driftbandit.serving.api.app import App
from driftbandit.serving.api.handlers import make_app
from driftbandit.serving.api.service import Service
from driftbandit.serving.engine.clock import Clock, wall
from driftbandit.serving.engine.engine import Engine
from driftbandit.serving.engine.messages import check_name
from driftbandit.serving.engine.retention import Retention
from driftbandit.serving.engine.storage import configured, settings
from driftbandit.serving.engine.warmup import Rehearsals
from driftbandit.serving.log.archive import ParquetArchive
from driftbandit.serving.loop.events import Configured, encode
from driftbandit.serving.loop.model import loop_of
from driftbandit.serving.page.handlers import Page
from driftbandit.serving.stores.base import Store, VersionConflict

_COLLECTIONS = (10_000, 20, 20)
"""When Python looks for cyclic garbage: seldom, since requests leave next to none."""
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def open_store(address: str, *, writer: bool = True, advertise: str | None = None, create: bool = True) -> Store:
    """Open ``sqlite:PATH`` or ``postgresql://...``; with `create`, a missing one is made."""
    check_address(address)
    if address.startswith("sqlite:"):
        from driftbandit.serving.stores.sqlite import SQLiteStore  # noqa: PLC0415 - needs apsw

        return SQLiteStore(Path(address.removeprefix("sqlite:")), writer=writer, create=create)
    from driftbandit.serving.stores.postgresql import PostgreSQLStore  # noqa: PLC0415 - needs psycopg

    return PostgreSQLStore(address, writer=writer, advertise=advertise, create=create)


def check_address(address: str) -> None:
    """Raise ValueError if this is no address of a store."""
    scheme, _, rest = address.partition(":")
    if scheme not in ("sqlite", "postgresql", "postgres") or not rest:
        raise ValueError(f"store: expected sqlite:PATH or postgresql://..., got {address!r}")


def default_memory() -> int:
    """Bytes that models and open decisions may take unless told otherwise: half of what the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def build_app(
    store: str,
    *,
    secure: bool = True,
    advertise: str | None = None,
    snapshot_every: int = 100_000,
    memory: int | None = None,
    rate: float | None = None,
    keep: int | None = None,
    archive: Path | None = None,
) -> App:
    """The application for a store's address: the API, and the page on top of it.

    `keep` is how many milliseconds events stay in the store; older ones go to the folder `archive`, or are dropped.
    """
    retention = None if keep is None else Retention(keep, None if archive is None else ParquetArchive(archive))
    rehearsals, clock = Rehearsals(), Clock()

    def make_engine(opened: Store, wake: Callable[[], None]) -> Engine:
        for row in opened.loops():
            rehearsals.run(settings(row))
        return Engine(
            opened,
            clock,
            snapshot_every=snapshot_every,
            memory=memory or default_memory(),
            ready=rehearsals.ready,
            background=True,
            wake=wake,
            retention=retention,
        )

    service = Service(
        lambda: open_store(store, advertise=advertise),
        make_engine,
        lambda: open_store(store, writer=False),
        rehearse=rehearsals.run,
        secure=secure,
        clock=clock,
    )
    app = make_app(service, rate=rate)
    app.add_routes(Page(service).routes())
    return app


def begin_loop(store: Store, name: str, model: Path) -> bool:
    """Make a loop whose models begin with a policy's file; False if it is there already and began with that file.

    Policy, settings and encoder are the file's, and so is the catalogue if the file has items. All other settings have
    their defaults.

    Raises
    ------
    ValueError
        If the file cannot be used, or the loop exists and began otherwise.
    """
    check_name("loop", name)
    config, state, arms = loop_of(model.read_bytes())
    event = Configured(wall(), 0, msgspec.json.encode(config), state)
    try:
        row, is_new = store.put_loop(name, 0, encode(event)), True
    except VersionConflict as error:
        row, is_new = next(row for row in store.loops() if row.name == name), False
        if configured(row).model != state or settings(row).model_key != config.model_key:
            raise ValueError(
                f"loop {name!r} exists and did not begin with {model}; choose another name, or serve without a model"
            ) from error
    if arms is not None and row.arms is None:  # also if an earlier attempt was cut short
        store.put_arms(row.number, encode(arms))
    return is_new


def serve(app: App, host: str, port: int, started: Callable[[], object] = lambda: None) -> None:
    """Answer requests until told to stop; `started` is called once requests can be answered."""
    server = make_server(app, host, port, started)
    server.run()
    if not server.started:
        raise SystemExit(3)  # as uvicorn's own command does; its log says why


def make_server(app: App, host: str, port: int, started: Callable[[], object] = lambda: None) -> Any:
    """A uvicorn server that says when it has started, and closes open event streams when it is told to stop."""
    import uvicorn  # noqa: PLC0415 - slow to import

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            gc.collect()
            gc.freeze()  # modules, routes and compiled code stay, so no collection needs to look at them again
            gc.set_threshold(*_COLLECTIONS)
            if self.started:
                started()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.stop()
            await super().shutdown(sockets)

    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            access_log=False,
            log_level="warning",
            lifespan="on",
            server_header=False,
            timeout_graceful_shutdown=5,
        )
    )
