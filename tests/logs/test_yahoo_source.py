"""The Yahoo! log is read like any other."""

import numpy as np

from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import write_synthetic
from driftbandit.logs import read_log


def test_day_files_give_the_events_of_their_own_reader(tmp_path):
    write_synthetic(tmp_path, 500, seed=1)
    want, _ = read_yahoo(tmp_path)
    log = read_log(tmp_path, batch_rows=150)
    assert log.check().events == 500
    at = 0
    for batch, events in zip(log, log.events(), strict=True):
        for event in range(len(events)):
            rows = want.candidates(at)
            part = slice(events.offsets[event], events.offsets[event + 1])
            assert [int(log.arms.ids[row]) for row in events.arms[part]] == want.articles[rows].tolist()
            np.testing.assert_array_equal(events.pool(event), want.features[rows])
            assert events.propensities[event] == 1 / len(rows)
            at += 1
        past = slice(at - len(events), at)
        np.testing.assert_array_equal(events.shown, want.shown[past])
        np.testing.assert_array_equal(events.rewards, want.rewards[past])
        np.testing.assert_array_equal(events.times, want.times[past])
        np.testing.assert_array_equal(np.array(batch.contexts["user"]), want.users[past])
    assert at == 500


def test_blemishes_of_day_files_are_in_the_report(tmp_path):
    write_synthetic(tmp_path, 20, seed=1)
    file = min(tmp_path.glob("ydata*"))
    lines = file.read_text().splitlines(keepends=True)
    lines[3] = "nonsense\n"
    (tmp_path / "day").write_text("".join(lines))
    report = read_log(tmp_path / "day", format="r6a").check()
    assert report.lines == len(lines)
    assert sum(report.skipped.values()) == 1
    assert list(report.examples.values()) == [[(str(tmp_path / "day"), 4)]]
