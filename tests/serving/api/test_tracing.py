"""Traces: one span per request, below its client's, with spans for what its commands waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from driftbandit.cli import app as command
from driftbandit.serving.server import build_app

from ..live import free_port, live

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs driftbandit[trace]")

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from driftbandit.serving.api.tracing import Tracing

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Traced:
    """A client of a service that is traced."""

    def __init__(self, http: httpx.Client, exporter: InMemorySpanExporter) -> None:
        self.http, self._exporter = http, exporter

    def ask(self, method: str, path: str, **options: Any) -> tuple[httpx.Response, Any, dict[str, Any]]:
        """The answer, its span, and the spans below it by name."""
        self._exporter.clear()
        answer = self.http.request(method, path, **options)
        deadline = time.monotonic() + 10  # the span ends after the answer is sent
        while not (found := [s for s in self._exporter.get_finished_spans() if s.kind is SpanKind.SERVER]):
            assert time.monotonic() < deadline, "no span of the request"
            time.sleep(0.01)
        (request,) = found
        below = [span for span in self._exporter.get_finished_spans() if span is not request]
        for span in below:
            assert span.parent.span_id == request.context.span_id
            assert span.context.trace_id == request.context.trace_id
        return answer, request, {span.name: span for span in below}

    def silent(self, path: str, **options: Any) -> httpx.Response:
        """The answer to a request that must not be recorded."""
        self._exporter.clear()
        answer = self.http.get(path, **options)
        self.ask("GET", "/healthz")  # so that a span of the first request would be there by now
        (only,) = self._exporter.get_finished_spans()
        assert only.attributes["http.route"] == "/healthz"
        return answer


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    exporter = InMemorySpanExporter()
    address = f"sqlite:{tmp_path_factory.mktemp('traced') / 'a.db'}"
    app = build_app(address, secure=False, tracing=Tracing(SimpleSpanProcessor(exporter)))
    with live(app) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert http.put("/v1/loops/x", json={"policy": "ucb1"}).status_code == 201
        yield Traced(http, exporter)


def test_a_request_and_its_command(traced: Traced) -> None:
    answer, span, below = traced.ask("POST", "/v1/loops/x/decisions", json={"arms": ["a", "b"]})
    assert answer.status_code == 201
    assert span.name == "POST /v1/loops/{loop}/decisions"
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/loops/{loop}/decisions",
        "http.response.status_code": 201,
        "url.scheme": "http",
        "client.address": "127.0.0.1",
    }
    assert span.parent is None
    assert f"{span.context.trace_id:032x}" == answer.headers["x-request-id"]
    assert span.resource.attributes["service.name"] == "driftbandit"
    wait, work, commit = (below[name] for name in ("wait", "carry out", "commit"))
    assert span.start_time <= wait.start_time <= wait.end_time == work.start_time
    assert work.start_time <= work.end_time == commit.start_time <= commit.end_time <= span.end_time
    assert len(below) == 3


def test_below_the_span_of_the_client(traced: Traced) -> None:
    answer, span, _ = traced.ask("GET", "/v1/loops", headers={"traceparent": f"00-{TRACE}-{PARENT}-01"})
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert answer.headers["x-request-id"] == TRACE
    assert span.parent.is_remote


def test_a_client_that_is_not_recorded_leaves_no_span(traced: Traced) -> None:
    answer = traced.silent("/v1/loops", headers={"traceparent": f"00-{TRACE}-{PARENT}-00"})
    assert answer.status_code == 200
    assert answer.headers["x-request-id"] == TRACE


def test_refusals(traced: Traced) -> None:
    _, span, below = traced.ask("GET", "/v1/loops/secret%20name", headers={"traceparent": "nonsense"})
    assert (span.name, span.attributes["http.response.status_code"]) == ("GET /v1/loops/{loop}", 404)
    assert span.status.status_code is StatusCode.UNSET
    assert "secret" not in str([each.to_json() for each in (span, *below.values())])
    _, span, below = traced.ask("HEAD", "/nowhere")
    assert (span.name, span.attributes["http.request.method"]) == ("HEAD", "HEAD")
    assert "http.route" not in span.attributes
    assert not below
    _, span, _ = traced.ask("PROPFIND", "/healthz")
    assert (span.name, span.attributes["http.request.method"]) == ("HTTP", "_OTHER")


def test_an_error_of_the_service(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("driftbandit.serving.api.views.loop_counts", broken)
    monkeypatch.setattr("driftbandit.serving.api.metrics.render", broken)
    _, span, _ = traced.ask("GET", "/metrics")
    assert span.attributes["http.response.status_code"] == 500
    assert (span.attributes["error.type"], span.status.status_code) == ("500", StatusCode.ERROR)


def test_the_share_of_requests_that_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    exporter = InMemorySpanExporter()
    app = build_app(f"sqlite:{tmp_path / 'a.db'}", secure=False, tracing=Tracing(SimpleSpanProcessor(exporter)))
    with live(app) as url, httpx.Client(base_url=url) as http:
        exporter.clear()
        for _ in range(100):
            http.get("/healthz")
    assert 20 < len(exporter.get_finished_spans()) < 80  # six standard deviations


class Collector:
    """A server that takes traces as OTLP over HTTP."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str, bytes]] = []
        taken = self.taken

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                taken.append((self.path, self.headers["content-type"], body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *given: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def test_the_command_sends_traces(tmp_path: Path) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    collector, port = Collector(), free_port()
    threading.Thread(target=collector.server.serve_forever, daemon=True).start()
    program = [sys.executable, "-c", "from driftbandit.cli import app; app()", "serve", "--insecure-local", "--trace"]
    program += ["--port", str(port), "--store", f"sqlite:{tmp_path / 'a.db'}"]
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_SERVICE_NAME": "shop"}
    variables["OTEL_BSP_SCHEDULE_DELAY"] = "3600000"  # so that only the end of the process sends them
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=os.environ | variables) as process:
        assert process.stderr is not None
        assert "serving" in process.stderr.readline()
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        assert httpx.get(f"http://127.0.0.1:{port}/v1/loops", headers=headers).status_code == 200
        process.send_signal(signal.SIGTERM)
        _, complained = process.communicate(timeout=60)
    collector.server.shutdown()
    collector.server.server_close()
    assert complained == ""
    ((path, kind, body),) = collector.taken
    assert (path, kind) == ("/v1/traces", "application/x-protobuf")
    (sent,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert {pair.key: pair.value.string_value for pair in sent.resource.attributes}["service.name"] == "shop"
    spans = {span.name: span for span in sent.scope_spans[0].spans}
    assert spans["GET /v1/loops"].parent_span_id.hex() == PARENT
    assert spans["commit"].trace_id.hex() == TRACE


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "driftbandit.serving.api.tracing")
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, ["serve", "--insecure-local", "--trace"])
    assert done.exit_code == 2
    assert "error: --trace needs more packages: pip install" in done.output
    assert "[trace]" in done.output
    assert not list(tmp_path.iterdir())


def test_nothing_is_imported_unless_asked_for() -> None:
    program = "import sys, driftbandit.serving.server; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
