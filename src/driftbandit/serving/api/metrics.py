"""Metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from driftbandit.serving.api.app import BUCKETS, App
from driftbandit.serving.api.service import Service

MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
MOST_LOOPS = 100
"""How many loops have metrics of their own: the first by name."""

_LOOP_COUNTS = {
    "decisions": "Decisions of a loop, on the shards that this process serves",
    "rewards": "Rewards that came in time",
    "late": "Rewards that came too late",
    "learned": "Rewards learned",
    "changes": "Changes detected",
    "open": "Decisions whose windows are open",
    "scopes_in_memory": "Scopes in memory",
}


class _Collector:
    def __init__(self, app: App, service: Service, loops: Mapping[str, Mapping[str, int]]) -> None:
        self._app, self._service, self._loops = app, service, loops

    def collect(self) -> Iterator[Metric]:
        """The metrics that Prometheus collects."""
        requests = CounterMetricFamily(
            "driftbandit_requests", "Answers by route and status", labels=["route", "status"]
        )
        for (route, status), count in sorted(self._app.answered.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        seconds = HistogramMetricFamily("driftbandit_request_seconds", "Time to answer", labels=["route"])
        ends = [*map(str, BUCKETS), "+Inf"]
        for route, timing in sorted(self._app.timings.items()):
            seconds.add_metric([route], list(zip(ends, accumulate(timing.counts), strict=True)), timing.total)
        yield seconds
        yield from _loops(self._loops)
        runner, clock = self._service.runner, self._service.clock
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
        yield from _connections(self._app)
        yield GaugeMetricFamily("driftbandit_streams", "Open streams", value=self._service.streams)
        yield GaugeMetricFamily("driftbandit_exports", "Exports of logs under way", value=self._service.exports)
        engine = runner.engine
        if engine is not None:
            about = "Whether a snapshot or models that memory has no room for are being written"
            yield GaugeMetricFamily("driftbandit_saving", about, value=float(engine.busy))
            about = "Bytes that models and open decisions take"
            yield GaugeMetricFamily("driftbandit_memory_bytes", about, value=engine.memory)
            about = "Seconds by which the time of some loop is ahead of the clock, at most"
            yield GaugeMetricFamily("driftbandit_loop_ahead_seconds", about, value=engine.ahead())
            about = "Seconds by which the time of some loop is behind the clock, at most: too many windows are due"
            yield GaugeMetricFamily("driftbandit_loop_behind_seconds", about, value=engine.behind())
        if clock is not None:
            about = "Seconds by which the machine's clock was set ahead since the start"
            yield GaugeMetricFamily("driftbandit_clock_off_seconds", about, value=clock.off)
            yield CounterMetricFamily("driftbandit_clock_steps", "Times the clock was set", value=clock.steps)


def _connections(app: App) -> Iterator[Metric]:
    door = app.door
    if door is not None:
        yield GaugeMetricFamily("driftbandit_connections", "Open connections", value=door.open)
        closed = CounterMetricFamily(
            "driftbandit_connections_closed", "Connections that a limit ended, by the limit", labels=["why"]
        )
        for why in ("head", "slow", "crowded", "full", "stalled"):
            closed.add_metric([why], door.closed[why])
        yield closed


def _loops(loops: Mapping[str, Mapping[str, int]]) -> Iterator[Metric]:
    """Counts of loops; all beyond `MOST_LOOPS` are one, so that the number of series is bounded."""
    for field, help_text in _LOOP_COUNTS.items():
        family = GaugeMetricFamily(f"driftbandit_loop_{field}", help_text, labels=["loop"])
        rest = 0
        for place, (name, totals) in enumerate(loops.items()):
            if place < MOST_LOOPS:
                family.add_metric([name], totals[field])
            else:
                rest += totals[field]
        if len(loops) > MOST_LOOPS:
            family.add_metric(["(all others)"], rest)
        yield family


def render(app: App, service: Service, loops: Mapping[str, Mapping[str, int]]) -> bytes:
    """All metrics as text; `loops` are the counts of each loop."""
    registry = CollectorRegistry()
    registry.register(_Collector(app, service, loops))
    return generate_latest(registry)
