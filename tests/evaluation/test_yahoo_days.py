"""Day files read on several cores: the same log and the same report as in one go."""

import gzip

import numpy as np
import pytest

from driftbandit.environments.joining import ChangedArticleError, joined
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_synthetic import BLEMISHES, write_synthetic
from driftbandit.evaluation import yahoo_days
from driftbandit.evaluation.yahoo_days import read_days
from driftbandit.kernels import r6a


def assert_same(found, expected):
    (log, report), (other, its_report) = found, expected
    for name in Log._TYPES:
        np.testing.assert_array_equal(getattr(log, name), getattr(other, name), strict=True)
    assert log.uniform is other.uniform is True
    assert report == its_report


def only_one_day(files):
    (day,) = files
    return read_yahoo([day])


@pytest.mark.parametrize("processes", [1, 2])
def test_the_same_log_and_report_as_in_one_go(tmp_path, monkeypatch, processes):
    blemishes = dict.fromkeys(set(BLEMISHES) - {r6a.KINDS[r6a.CHANGED]}, 0.01)
    write_synthetic(tmp_path, 3000, days=4, seed=3, compress=True, blemishes=blemishes, lifetime=(20.0, 60.0))
    expected = read_yahoo(tmp_path)
    monkeypatch.setattr(yahoo_days, "read_yahoo", only_one_day)
    found = read_days(tmp_path, processes=processes)
    assert len(found[1].skipped) > 5
    assert_same(found, expected)


def test_an_article_that_changes_overnight_is_counted_all_the_same(tmp_path):
    write_synthetic(tmp_path, 400, days=2, seed=1, compress=True, lifetime=(40.0, 60.0))
    second = sorted(tmp_path.glob("*.gz"))[1]
    lines = gzip.decompress(second.read_bytes())
    article = lines.split(b" ", 2)[1]
    start = lines.index(b" |" + article) + 2 + len(article)
    old = lines[start : lines.index(b" 3:", start)]
    second.write_bytes(gzip.compress(lines.replace(article + old, article + b" 2:0.123456")))
    found = read_days(tmp_path, processes=1)
    assert sum(found[1].noted.values()) > 10
    assert_same(found, read_yahoo(tmp_path))


def test_logs_that_disagree_cannot_be_joined():
    given = {"articles": [1], "pool_offsets": [0, 1], "pool_members": [0], "times": [0], "pools": [0], "shown": [0]}
    given |= {"rewards": [0.0], "users": [[1.0]]}
    with pytest.raises(ChangedArticleError, match="the same features of article 1 in all of them"):
        joined([Log(**given, features=[[1.0]]), Log(**given, features=[[2.0]])])
    with pytest.raises(ValueError, match=r"^logs: expected at least one"):
        joined([])
