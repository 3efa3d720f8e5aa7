"""Starting the service: stores by their address, the application, uvicorn."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from driftbandit.serving.api.app import App
from driftbandit.serving.api.handlers import make_app
from driftbandit.serving.api.logs import Format, configure
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
from driftbandit.serving.stores.base import Store, VersionConflict, without_password

if TYPE_CHECKING:
    from driftbandit.serving.api.tracing import Tracing

logger = logging.getLogger("driftbandit")

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
        raise ValueError(f"store: expected sqlite:PATH or postgresql://..., got {without_password(address)!r}")


def default_memory() -> int:
    """Bytes that models and open decisions may take unless told otherwise: half of what the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def build_app(
    store: str,
    *,
    secure: bool = True,
    host: str = "127.0.0.1",
    advertise: str | None = None,
    snapshot_every: int = 100_000,
    memory: int | None = None,
    rate: float | None = None,
    keep: int | None = None,
    keep_bytes: int | None = None,
    archive: str | os.PathLike[str] | None = None,
    begin: Callable[[Store], object] = lambda store: None,
    tracing: Tracing | None = None,
) -> App:
    """The application for a store's address: the API, and the page on top of it.

    Without `secure`, browsers may call it by a loopback name or by `host` only.

    `keep` is how many milliseconds events stay in the store, and `keep_bytes` how many bytes they may have; older ones
    go to `archive`, a folder or ``s3://BUCKET/PREFIX``, or are dropped.

    `begin` is called with the store once it is open, before anything else is done with it. `tracing` makes spans of
    requests.
    """
    retention = None
    if keep is not None or keep_bytes is not None:
        retention = Retention(keep, None if archive is None else ParquetArchive(archive), keep_bytes)
    rehearsals, clock = Rehearsals(), Clock()

    def make_engine(opened: Store, wake: Callable[[], None], say: Callable[[str], None]) -> Engine:
        for row in opened.loops():
            config = settings(row)
            say(
                f"compiling {config.policy}{'' if config.dim is None else f', dim {config.dim}'}, for loop {row.name!r}"
            )
            rehearsals.run(config)
        say("taking shards of loops")
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

    def open_writer() -> Store:
        opened = open_store(store, advertise=advertise)
        try:
            begin(opened)
        except BaseException:
            opened.close()
            raise
        return opened

    service = Service(
        open_writer,
        make_engine,
        lambda: open_store(store, writer=False),
        rehearse=rehearsals.run,
        secure=secure,
        clock=clock,
        observer=tracing,
    )
    app = make_app(service, rate=rate, hosts=None if secure else LOOPBACK | {host.lower()})
    app.add_routes(Page(service).routes())
    app.tracing = tracing
    return app


def check_tls(certificate: Path, key: Path) -> None:
    """Raise ValueError if these files are not a certificate and its private key."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--tls-cert, --tls-key: expected a certificate and its private key without a password, both PEM, "
            f"got {certificate} and {key}: {error}"
        ) from error


def check_port(host: str, port: int) -> None:
    """Raise ValueError if nobody can listen there: the port is taken, say, or the address is not this machine's.

    Of several addresses of a name, some may be of a kind that the machine lacks, such as IPv6.
    """
    lacking: list[OSError] = []
    try:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in places:
            try:
                with socket.socket(family, kind, protocol) as listening:
                    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    listening.bind(address)
            except OSError as error:
                if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                    raise
                lacking.append(error)
        if len(lacking) == len(places):
            raise lacking[0]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"--host, --port: cannot listen on {host}:{port}: {reason}") from error


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


def serve(app: App, host: str, port: int, started: Callable[[], object] = lambda: None, **options: Any) -> None:
    """Answer requests until told to stop; `started` is called once requests can be answered.

    `options` are those of `make_server`.
    """
    server = make_server(app, host, port, started, **options)
    server.run()
    if not server.began:
        raise SystemExit(3)  # as uvicorn's own command does; its log says why


def make_server(
    app: App,
    host: str,
    port: int,
    started: Callable[[], object] = lambda: None,
    *,
    max_connections: int = 1000,
    request_timeout: float = 10.0,
    tls: tuple[Path, Path] | None = None,
    log_format: Format | None = None,
    access_log: bool = False,
) -> Any:
    """A uvicorn server that says when requests can be answered, and closes open event streams when it is told to stop.

    It listens as soon as the store is open; until the application has begun, requests are answered with status 503.

    Parameters
    ----------
    app, host, port :
        What to serve, and where.
    started : callable
        Called once requests can be answered.
    max_connections : int
        How many connections may be open at once.
    request_timeout : float
        Seconds in which a request must have arrived.
    tls : pair of paths, optional
        Files of the certificate and of its private key.
    log_format : 'text' or 'json', optional
        How to log; by default as uvicorn does.
    access_log : bool
        With a `log_format`: whether to log every answer.
    """
    import uvicorn  # noqa: PLC0415 - slow to import

    from driftbandit.serving.api.connections import Door, allow_files, connections_of  # noqa: PLC0415 - needs uvicorn

    app.door = door = Door(max_connections, request_timeout)
    allow_files(door)
    if tls is not None:
        check_tls(*tls)
    if log_format is not None:
        configure(log_format, answers=access_log)

    class Server(uvicorn.Server):
        began = True
        """False if the application could not begin."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            self.began = self.started
            if self.started:
                self._beginning = asyncio.create_task(self._begin())

        async def _begin(self) -> None:
            try:
                if app.begun is not None:
                    await app.begun()
            except Exception as error:
                logger.error("the service cannot start: %s", error)
                self.began, self.should_exit = False, True
                return
            gc.collect()
            gc.freeze()  # modules, routes and compiled code stay, so no collection needs to look at them again
            gc.set_threshold(*_COLLECTIONS)
            started()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            self._beginning.cancel()
            app.stop()
            await super().shutdown(sockets)
            if app.tracing is not None:
                await app.tracing.close()

    return Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            access_log=False,
            log_config=uvicorn.config.LOGGING_CONFIG if log_format is None else None,
            log_level="warning",
            lifespan="on",
            server_header=False,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=5,
            http=connections_of(door),
            ws="none",
            ssl_certfile=None if tls is None else tls[0],
            ssl_keyfile=None if tls is None else tls[1],
        )
    )
