"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from driftbandit.serving.api.app import App
from driftbandit.serving.engine.clock import Clock
from driftbandit.serving.engine.thread import Runner

MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class _Collector:
    def __init__(self, app: App, runner: Runner, streams: int, clock: Clock | None) -> None:
        self._app, self._runner, self._streams, self._clock = app, runner, streams, clock

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
        engine = runner.engine
        if engine is not None:
            yield CounterMetricFamily(
                "driftbandit_command_failures", "Commands that failed unexpectedly", value=engine.failed_commands
            )
        yield GaugeMetricFamily("driftbandit_loading", "Shards of loops that are being read", value=runner.loading)
        yield GaugeMetricFamily("driftbandit_waiting", "Commands that wait", value=runner.waiting)
        yield GaugeMetricFamily("driftbandit_ready", "Whether decisions are taken", value=float(runner.ready))
        yield GaugeMetricFamily("driftbandit_streams", "Open streams", value=self._streams)
        if runner.engine is not None:
            about = "Whether a snapshot or models that memory has no room for are being written"
            yield GaugeMetricFamily("driftbandit_saving", about, value=float(runner.engine.busy))
            about = "Bytes that models and open decisions take"
            yield GaugeMetricFamily("driftbandit_memory_bytes", about, value=runner.engine.memory)
            about = "Seconds by which the time of some loop is ahead of the clock, at most"
            yield GaugeMetricFamily("driftbandit_loop_ahead_seconds", about, value=runner.engine.ahead())
        if self._clock is not None:
            about = "Seconds by which the machine's clock was set ahead since the start"
            yield GaugeMetricFamily("driftbandit_clock_off_seconds", about, value=self._clock.off)
            yield CounterMetricFamily("driftbandit_clock_steps", "Times the clock was set", value=self._clock.steps)


def render(app: App, runner: Runner, streams: int, clock: Clock | None) -> bytes:
    """All metrics as text."""
    registry = CollectorRegistry()
    registry.register(_Collector(app, runner, streams, clock))
    return generate_latest(registry)
