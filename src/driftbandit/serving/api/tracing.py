"""OpenTelemetry traces: a span for every request, and for what its commands waited for. Needs driftbandit[trace]."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from driftbandit.serving.api.http import Message, header
from driftbandit.serving.api.logs import request_id
from driftbandit.serving.api.routes import Route
from driftbandit.serving.engine.futures import Turn

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
_OTHER = "_OTHER"  # what the conventions call a method that they do not know
_LAST_WORDS_S = 3.0
"""How long a stop waits until the last spans are sent."""


class _Ids(RandomIdGenerator):
    """The trace of a request without `traceparent` has the request's id."""

    def generate_trace_id(self) -> int:
        return int(request_id.get() or "0", 16) or super().generate_trace_id()


class Tracing:
    """Makes spans of requests and of their commands.

    Whether a request is recorded, `traceparent` says; for requests without it, OTEL_TRACES_SAMPLER does.

    Parameters
    ----------
    processor : SpanProcessor, optional
        What becomes of the spans. By default they are sent as OTLP over HTTP, as the OTEL_* variables say.
    """

    def __init__(self, processor: SpanProcessor | None = None) -> None:
        resource = Resource.create({"service.name": "driftbandit"}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, id_generator=_Ids(), shutdown_on_exit=False)
        self._provider.add_span_processor(processor or BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("driftbandit")
        self._propagator = TraceContextTextMapPropagator()
        self._asked: dict[asyncio.Future[Any], tuple[Context, int]] = {}

    @contextmanager
    def request(self, scope: Message) -> Iterator[Callable[[Route | None, int], None]]:
        """The span of a request; yields a function that is to be told the route and the status of the answer.

        The span does not have the path, since ids of decisions and names of scopes are in paths.
        """
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        attributes = {"http.request.method": method, "url.scheme": scope.get("scheme", "http")}
        if scope.get("client"):
            attributes["client.address"] = scope["client"][0]
        name = "HTTP" if method == _OTHER else method
        parent = self._parent(scope)
        with self._tracer.start_as_current_span(name, parent, SpanKind.SERVER, attributes) as span:
            yield lambda route, status: _note(span, name, route, status)

    def _parent(self, scope: Message) -> Context:
        names = ("traceparent", "tracestate")
        found = {name: header(scope["headers"], name.encode()) for name in names}
        carrier = {name: value.decode("latin-1") for name, value in found.items() if value is not None}
        return self._propagator.extract(carrier, Context())

    # Commands, as the engine's thread tells of them -------------------------------------------------------------------

    def submitted(self, future: asyncio.Future[Any], time: int) -> None:
        """Remember when the present request gave a command."""
        span = get_current_span()
        if span.is_recording():
            self._asked[future] = set_span_in_context(span, Context()), time

    def delivered(self, futures: list[asyncio.Future[Any]], turn: Turn | None) -> None:
        """Make the spans of commands: how long each waited, was carried out along with others, and was committed."""
        for future in futures:
            context, begin = self._asked.pop(future, (None, 0))
            if context is None or turn is None:
                continue
            for name, end in zip(("wait", "carry out", "commit"), turn, strict=True):
                self._tracer.start_span(name, context, start_time=begin).end(end)
                begin = end

    async def close(self) -> None:
        """Send what is left; gives up after some seconds if nobody takes it."""
        sender = threading.Thread(target=self._provider.shutdown, daemon=True)
        sender.start()
        await asyncio.to_thread(sender.join, _LAST_WORDS_S)


def _note(span: Span, name: str, route: Route | None, status: int) -> None:
    """Note in a span what its request was answered with."""
    if route is not None:
        span.update_name(f"{name} {route.path}")
        span.set_attribute("http.route", route.path)
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_attribute("error.type", str(status))
        span.set_status(Status(StatusCode.ERROR))
