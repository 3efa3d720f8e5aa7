"""The commands of the decision service: `driftbandit serve`, `demo`, `warm` and `rerun`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from driftbandit.cli.shared import AsJson, friendly_errors
from driftbandit.extras import pip_install

if TYPE_CHECKING:
    from driftbandit.serving.api.tracing import Tracing
    from driftbandit.serving.stores.base import Store

StoreOption = Annotated[str, typer.Option("--store", help="sqlite:PATH or postgresql://...")]
NewStoreOption = Annotated[
    str, typer.Option("--store", help="sqlite:PATH or postgresql://...; made where it is missing.")
]
DEFAULT_STORE = "sqlite:driftbandit.db"


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)] = 8080,
    store: NewStoreOption = DEFAULT_STORE,
    insecure_local: Annotated[
        bool, typer.Option("--insecure-local", help="Ask for no keys; on a loopback address only.")
    ] = False,
    advertise: Annotated[
        str | None, typer.Option(help="URL of this process for others that share a PostgreSQL store.")
    ] = None,
    snapshot_every: Annotated[int, typer.Option(help="Events of all loops between snapshots.", min=1)] = 100_000,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory for models and open decisions, such as 2GiB. Default: half of the machine's."),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second that a key may make.", min=0.1)] = None,
    max_connections: Annotated[int, typer.Option(help="Connections that may be open at once.", min=1)] = 1000,
    request_timeout: Annotated[
        float, typer.Option(help="Seconds in which a request must have arrived.", min=0.1)
    ] = 10.0,
    tls_cert: Annotated[
        Path | None, typer.Option(help="With --tls-key: certificate (PEM) for HTTPS, followed by its chain.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="With --tls-cert: its private key (PEM).")] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every answer.")] = False,
    log_format: Annotated[Literal["text", "json"], typer.Option(help="How to log.")] = "text",
    trace: Annotated[
        bool, typer.Option("--trace", help="Send OpenTelemetry traces, as the OTEL_* variables say.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="How long events stay in the store, such as 90d or 12h, or how large they may be, such as 20GB, or "
            "both, with the option twice. Default: all stay for ever."
        ),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            help="With --keep: folder or s3://BUCKET/PREFIX for older events, as Parquet; without it they are dropped."
        ),
    ] = None,
    loop: Annotated[str | None, typer.Option(help="With --model: name of a loop to make, if there is none.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="With --loop: file with which the loop begins, such as `learn` writes.")
    ] = None,
) -> None:
    r"""Serve decisions over HTTP, durably.

    Needs pip install 'driftbandit\[serve]'. Keys come from `driftbandit keys create`; see docs/service.md.

    Example: driftbandit serve --store sqlite:driftbandit.db --insecure-local
    """
    with friendly_errors():
        need_serve()
        from driftbandit.serving.log.places import check_place
        from driftbandit.serving.loop.model import loop_of
        from driftbandit.serving.server import LOOPBACK, begin_loop, build_app, check_address, check_port
        from driftbandit.serving.server import serve as run
        from driftbandit.serving.stores.base import without_password

        if insecure_local and host not in LOOPBACK:
            raise ValueError(f"--insecure-local: only on a loopback address, got --host {host}")
        if archive is not None and not keep:
            raise ValueError("--archive: expected --keep too, which says what is old")
        if archive is not None:
            check_place("--archive", archive)
        if (loop is None) != (model is None):
            raise ValueError("--loop, --model: expected both or neither")
        tls = None
        if tls_cert is not None and tls_key is not None:
            tls = tls_cert, tls_key
        elif tls_cert is not None or tls_key is not None:
            raise ValueError("--tls-cert, --tls-key: expected both or neither")
        check_address(store)
        check_port(host, port)
        shown = without_password(store)
        if model is not None:
            loop_of(model.read_bytes())  # a file that cannot be used is refused before anything begins

        def begin(opened: Store) -> None:
            if loop is not None and model is not None and begin_loop(opened, loop, model):
                typer.echo(f"loop {loop} begins with {model}", err=True)

        application = build_app(
            store,
            secure=not insecure_local,
            host=host,
            advertise=advertise,
            snapshot_every=snapshot_every,
            memory=None if memory is None else bytes_of("--memory", memory),
            rate=rate,
            **kept("--keep", keep or []),
            archive=archive,
            begin=begin,
            tracing=_tracing() if trace else None,
        )
        scheme = "http" if tls is None else "https"
        run(
            *(application, host, port),
            lambda: typer.echo(f"serving {shown} on {scheme}://{host}:{port}", err=True),
            max_connections=max_connections,
            request_timeout=request_timeout,
            tls=tls,
            log_format=log_format,
            access_log=access_log,
        )


def _tracing() -> Tracing:
    """Makes spans of requests; raises ValueError if the packages for that are not installed."""
    try:
        from driftbandit.serving.api.tracing import Tracing
    except ImportError as error:
        raise ValueError(f"--trace needs more packages: {pip_install('trace')} ({error})") from error
    return Tracing()


def bytes_of(name: str, text: str) -> int:
    """A size as a person writes it.

    >>> bytes_of("--memory", "1.5GiB"), bytes_of("--memory", "300 MB")
    (1610612736, 300000000)
    >>> bytes_of("--memory", "plenty")
    Traceback (most recent call last):
    ValueError: --memory: expected a size such as 512MB or 2GiB, got 'plenty'
    """
    units = {"": 1, "B": 1, **{f"{unit}B": 1000**power for power, unit in enumerate("KMGT", 1)}}
    units |= {f"{unit}IB": 1024**power for power, unit in enumerate("KMGT", 1)}
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in units:
        raise ValueError(f"{name}: expected a size such as 512MB or 2GiB, got {text!r}")
    return int(float(found[1]) * units[found[2].upper()])


def kept(name: str, given: list[str]) -> dict[str, int]:
    """How long events are kept and how large they may be, as `build_app` wants it.

    >>> kept("--keep", ["90d", "20GB"])
    {'keep': 7776000000, 'keep_bytes': 20000000000}
    >>> kept("--keep", ["90d", "12h"])
    Traceback (most recent call last):
    ValueError: --keep: expected one length of time and one size at most, got 90d and 12h
    """
    found: dict[str, int] = {}
    for text in given:
        sized = text.strip().upper().endswith("B")
        found |= {"keep_bytes": bytes_of(name, text)} if sized else {"keep": milliseconds_of(name, text)}
    if len(found) < len(given):
        raise ValueError(f"{name}: expected one length of time and one size at most, got {' and '.join(given)}")
    if found.get("keep_bytes") == 0:
        raise ValueError(f"{name}: expected a size above 0")
    return found


def milliseconds_of(name: str, text: str) -> int:
    """A length of time as a person writes it.

    >>> milliseconds_of("--keep", "90d"), milliseconds_of("--keep", "1.5 h")
    (7776000000, 5400000)
    >>> milliseconds_of("--keep", "long")
    Traceback (most recent call last):
    ValueError: --keep: expected a length of time such as 90d, 12h or 30m, got 'long'
    """
    units = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
    found = re.fullmatch(r"\s*(\d{1,5}(?:\.\d+)?)\s*([smhdw])\s*", text, re.ASCII)
    if found is None or not float(found[1]):
        raise ValueError(f"{name}: expected a length of time such as 90d, 12h or 30m, got {text!r}")
    return int(float(found[1]) * units[found[2]])


def demo(
    port: Annotated[int, typer.Option(help="Port to listen on; another one if it is taken.", min=1, max=65535)] = 8080,
    period: Annotated[float, typer.Option(help="Seconds between shifts of taste.", min=1)] = 60.0,
    rate: Annotated[float, typer.Option(help="Decisions per second of each loop.", min=0.1, max=1000)] = 20.0,
    seed: Annotated[int, typer.Option(help="Seed of the audience.", min=0)] = 0,
) -> None:
    r"""Watch changes being detected: the service and its page, with a simulated audience whose taste shifts.

    Keeps nothing: the store is temporary. Ctrl-C ends it. Needs pip install 'driftbandit\[serve]'.

    Example: driftbandit demo --period 30
    """
    with friendly_errors():
        need_serve()
        from driftbandit.serving.demo import run_demo

        run_demo(port, period=period, rate=rate, seed=seed, say=typer.echo)


def warm(
    dim: Annotated[int, typer.Option(help="Number of features of an arm.", min=1, max=2000)] = 25,
) -> None:
    r"""Compile all policies ahead, so that the first start and the first loop of a policy do not wait for it.

    Numba keeps the compiled code in NUMBA_CACHE_DIR, by default beside the package. Needs pip install
    'driftbandit\[serve]'.

    Example: driftbandit warm --dim 64
    """
    with friendly_errors():
        need_serve()
        from driftbandit.serving.engine.warmup import warm as compile_all

        for policy in compile_all(dim):
            typer.echo(f"compiled {policy}")


def rerun(
    log: Annotated[
        list[str],
        typer.Argument(
            help="A log exported as ndjson or Parquet, from its beginning; first its archive, if it has one."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Make every decision of an exported log of the service again: does each come out the same?

    Exit status 1 if one does not.

    Example: driftbandit rerun archive/1 log.ndjson
    """
    with friendly_errors():
        need_serve()
        from dataclasses import asdict

        from driftbandit.serving.log.rerun import read_exports, rerun_log

        found = rerun_log(read_exports(log))
        if as_json:
            json.dump(asdict(found), sys.stdout, indent=2)
            sys.stdout.write("\n")
        else:
            typer.echo(
                f"loop {found.loop}: {found.events:,} events, {found.learned:,} rewards learned, "
                f"{found.changes} changes"
            )
            typer.echo(f"{found.identical:,} of {found.decisions:,} decisions came out the same")
            if found.erased:
                typer.echo(
                    f"{found.erased:,} events were erased, so {found.unchecked:,} decisions could not be made again"
                )
            typer.echo(f"final state {found.digest}")
            if found.differing:
                typer.echo(f"first that did not: {', '.join(found.differing)}", err=True)
        if found.identical != found.decisions:
            raise typer.Exit(1)


def need_serve() -> None:
    """Raise ValueError if the packages of the service are not installed."""
    try:
        import_module("msgspec")
        import_module("uvicorn")
    except ImportError as error:
        raise ValueError(f"the service needs more packages: {pip_install('serve')} ({error})") from error


@contextmanager
def opened_store(address: str, *, create: bool = False) -> Iterator[Store]:
    """A store for reading and for keys; without `create` a missing store is an error, since it may be misspelt."""
    need_serve()
    from driftbandit.serving.server import open_store
    from driftbandit.serving.stores.base import StoreError

    try:
        opened = open_store(address, writer=False, create=create)
        try:
            yield opened
        finally:
            opened.close()
    except StoreError as error:
        raise ValueError(str(error)) from error
