"""Logs of a real service, in all three of its formats."""

import json

import numpy as np
import pytest

from driftbandit.logs import read_log, write_dsjson

pytest.importorskip("apsw", reason="needs driftbandit[serve]")

from serving.test_commands import log_of

from driftbandit.serving.log.export import Join, from_row

DEFAULT = -0.25


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """A log of 120 decisions with rewards, rewards that never came, and decisions still open, in a file per format."""
    folder = tmp_path_factory.mktemp("service")
    for kind, body in log_of(folder, 120, default_reward=DEFAULT).items():
        (folder / f"news.{kind}").write_bytes(body)
    return folder


def truth(folder):
    """Decisions by id, from the service's own events."""
    join, closed = Join(), []
    for line in (folder / "news.ndjson").read_text().splitlines():
        row = json.loads(line)
        closed += join.add(row["seq"], from_row(row))
    closed += join.rest()
    return {
        pooled.event.id: (
            pooled.event.time / 1000,
            pooled.event.scope,
            list(pooled.arms),
            pooled.event.arm,
            pooled.event.propensity,
            reward,
            pooled.features,
        )
        for _, pooled, reward in closed
    }


def read(log):
    made = {}
    for batch in log:
        for at, ident in enumerate(batch.ids.to_pylist()):
            part = slice(batch.offsets[at], batch.offsets[at + 1])
            pool = [log.arms.ids[row] for row in batch.members[part]]
            made[ident] = (
                batch.times[at],
                log.scopes[batch.scopes[at]],
                pool,
                pool[batch.shown[at]],
                batch.propensities[at],
                batch.rewards[at],
                batch.features[part].tolist(),
            )
    return made


@pytest.mark.parametrize("kind", ["ndjson", "parquet", "dsjson"])
def test_an_export_gives_the_same_decisions_propensities_rewards_and_features(exports, kind):
    want = truth(exports)
    still_open = {ident for ident, one in want.items() if one[5] is None}
    rewards = {one[5] for one in want.values()}
    assert still_open
    assert {0.0, 1.0, DEFAULT} <= rewards
    log = read_log(exports / f"news.{kind}", batch_rows=50)
    assert read(log) == {ident: one for ident, one in want.items() if ident not in still_open}
    assert log.report.skipped == {"reward missing": len(still_open)}
    assert log.report.lines == 120
    assert sum(len(events) for events in log.events()) == 120 - len(still_open)


@pytest.mark.parametrize("kind", ["ndjson", "parquet"])
def test_decisions_come_in_the_order_in_which_they_were_made(exports, kind):
    times = np.concatenate([batch.times for batch in read_log(exports / f"news.{kind}")])
    assert (np.diff(times) >= 0).all()


def test_dsjson_written_by_us_gives_the_same_again(exports, tmp_path):
    log = read_log(exports / "news.dsjson")
    write_dsjson(log, tmp_path / "again.dsjson")
    assert read(read_log(tmp_path / "again.dsjson")) == read(log)


def test_an_export_says_how_late_its_rewards_came(exports):
    rows = [json.loads(line) for line in (exports / "news.ndjson").read_text().splitlines()]
    asked = {row["id"]: row["time"] for row in rows if row["kind"] == "decision"}
    want = {row["id"]: (row["time"] - asked[row["id"]]) / 1000 for row in rows if row["kind"] == "reward"}
    assert want
    batches = list(read_log(exports / "news.ndjson"))
    delays = {ident: delay for one in batches for ident, delay in zip(one.ids.to_pylist(), one.delays, strict=True)}
    assert {ident: delay for ident, delay in delays.items() if np.isfinite(delay)} == pytest.approx(want)


def test_events_that_are_none_are_counted(exports, tmp_path):
    lines = (exports / "news.ndjson").read_text().splitlines()
    lines[3:3] = ['{"seq": 1, "loop": "x", "shard": 0, "kind": "party"}', '{"kind": "reward"}', "[]"]
    (tmp_path / "log.ndjson").write_text("\n".join(lines))
    report = read_log(tmp_path / "log.ndjson").check()
    assert report.skipped["not an event of the service"] == 2
    assert report.skipped["not a JSON object"] == 1
    assert [line for _, line in report.examples["not an event of the service"]] == [4, 5]
