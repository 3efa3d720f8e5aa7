"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from driftbandit.serving.api.app import App
from driftbandit.serving.engine.thread import Runner

MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class _Collector:
    def __init__(self, app: App, runner: Runner, streams: int) -> None:
        self._app, self._runner, self._streams = app, runner, streams

    def collect(self) -> Iterator[Metric]:
        """The metrics that Prometheus collects."""
        requests = CounterMetricFamily(
            "driftbandit_requests", "Answers by route and status", labels=["route", "status"]
        )
        totals: dict[str, int] = {}
        for (route, status), count in sorted(self._app.answered.items()):
            requests.add_metric([route, str(status)], count)
            totals[route] = totals.get(route, 0) + count
        yield requests
        seconds = SummaryMetricFamily("driftbandit_request_seconds", "Time to answer", labels=["route"])
        for route, count in totals.items():
            seconds.add_metric([route], count, self._app.seconds.get(route, 0.0))
        yield seconds
        runner = self._runner
        yield CounterMetricFamily("driftbandit_events", "Events made durable", value=runner.events)
        yield CounterMetricFamily("driftbandit_commits", "Commits", value=runner.commits)
        yield CounterMetricFamily("driftbandit_commit_seconds", "Time spent in commits", value=runner.commit_seconds)
        yield CounterMetricFamily("driftbandit_failures", "Commits that failed", value=runner.failures)
        yield GaugeMetricFamily("driftbandit_waiting", "Commands that wait", value=runner.waiting)
        yield GaugeMetricFamily("driftbandit_ready", "Whether decisions are taken", value=float(runner.ready))
        yield from _connections(self._app)
        yield GaugeMetricFamily("driftbandit_streams", "Open streams", value=self._streams)


def _connections(app: App) -> Iterator[Metric]:
    door = app.door
    if door is not None:
        yield GaugeMetricFamily("driftbandit_connections", "Open connections", value=door.open)
        closed = CounterMetricFamily(
            "driftbandit_connections_closed", "Connections that a limit ended, by the limit", labels=["why"]
        )
        for why in ("head", "slow", "crowded", "full"):
            closed.add_metric([why], door.closed[why])
        yield closed


def render(app: App, runner: Runner, streams: int) -> bytes:
    """All metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Collector(app, runner, streams))
    return generate_latest(registry)
