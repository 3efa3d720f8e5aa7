"""A log and policies in, one table out."""

import json

import numpy as np
import pyarrow as pa
import pytest

from driftbandit import Encoder, LinUCB
from driftbandit.evaluation.builders import builders_of
from driftbandit.evaluation.logged import evaluate_log, prepare
from driftbandit.logs import read_log

GENRES = ("rock", "jazz", "folk")
ITEMS = pa.table({"id": [f"song{i}" for i in range(6)], "genre": [GENRES[i % 3] for i in range(6)]})


def shop(count=1500, **columns):
    """People on phones like jazz, others rock; the logger likes folk."""
    rng = np.random.default_rng(3)
    devices = rng.choice(["phone", "desk"], count)
    pools = np.argsort(rng.random((count, 6)), axis=1)[:, :3]
    likes = np.where(pools % 3 == 2, 2.0, 1.0)
    chances = likes / likes.sum(axis=1, keepdims=True)
    shown = (rng.random((count, 1)) > chances.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    row = np.arange(count)
    arm = pools[row, shown]
    wanted = np.where(devices == "phone", 1, 0)
    rewards = (rng.random(count) < np.where(arm % 3 == wanted, 0.6, 0.1)).astype(float)
    table = {
        "device": devices.tolist(),
        "arms": [[f"song{i}" for i in pool] for pool in pools.tolist()],
        "arm": [f"song{i}" for i in arm.tolist()],
        "propensity": chances[row, shown],
        "reward": rewards,
    }
    return pa.table({name: values for name, values in (table | columns).items() if values is not None})


@pytest.fixture(scope="module")
def found():
    return evaluate_log(read_log(shop(), items=ITEMS), builders_of(["linucb", "random", "ucb1"]))


def test_a_policy_that_sees_the_device_beats_those_that_do_not(found):
    rows = {row.name: row for row in found.rows}
    assert list(rows) == ["logger", "uniform", "best arm", "linucb", "random", "ucb1"]
    assert rows["linucb"].verdict == "better"
    assert rows["linucb"].value.low > rows["best arm"].value.high
    assert rows["random"].value == rows["uniform"].value, "exactly: its chances are known"
    assert rows["logger"].verdict == "the baseline"
    # Pools of three out of six, two of them wanted: 80 % of the pools have one.
    assert rows["linucb"].value.estimate == pytest.approx(0.8 * 0.6 + 0.2 * 0.1, abs=0.08)


def test_text_names_question_estimator_features_and_rows(found):
    text = "\n".join(found.text())
    for part in (
        "Shadow value",
        "Estimator dr, 95% intervals (bootstrap)",
        "device × genre",
        "rewards from 0 to 1",
        "1,500 lines, 1,500 events",
    ):
        assert part in text
    assert "estimated" not in text
    table = found.table()
    assert table.headings == ("policy", "shadow value (dr)", "minus logger", "verdict")
    assert [line[0] for line in table.cells] == [row.name for row in found.rows]


def test_json_is_plain(found):
    data = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert data["estimand"] == "shadow"
    assert data["caveat"] == ""
    assert data["rows"]["events"] == 1500
    assert data["policies"][3].keys() >= {"name", "value", "low", "high", "difference", "verdict", "estimand"}


def test_replayed_says_how_much_was_learned():
    table = shop(600)
    found = evaluate_log(read_log(table, items=ITEMS), builders_of(["linucb"]), estimand="replayed", seed=1)
    assert [row.name for row in found.rows] == ["logger", "uniform", "linucb"]
    assert "Replayed value" in found.text()[0]
    shares = [line[-1] for line in found.table().cells]
    assert shares[:2] == ["–", "–"]
    assert shares[2] == f"{found.rows[2].share_accepted:.1%}"
    assert 0.15 < found.rows[2].share_accepted < 0.35, "the least propensity is 0.2"
    again = evaluate_log(read_log(table, items=ITEMS), builders_of(["linucb"]), estimand="replayed", seed=1)
    assert again.rows == found.rows


def test_estimated_propensities_are_said_everywhere():
    log = read_log(shop(400, propensity=None), items=ITEMS, logged="estimated")
    found = evaluate_log(log, builders_of(["random"]))
    assert found.caveat == found.as_dict()["caveat"] == "estimated propensities"
    assert "estimated propensities" in "\n".join(found.text())
    assert "estimated propensities" in found.table().headings[1]


def test_unusable_rows_are_counted():
    chances = np.full(300, 0.5)
    chances[7] = 1.5
    found = evaluate_log(read_log(shop(300, propensity=chances), items=ITEMS), builders_of(["random"]))
    assert "skipped: propensity above 1: 1 (the table:8)" in found.text()
    assert found.as_dict()["rows"]["skipped"][0]["count"] == 1


def test_intervals_for_any_time_take_ips_and_the_rewards_range():
    table = shop(400)
    table = table.set_column(4, "reward", pa.array(np.asarray(table["reward"]) * 5.0 - 1.0))
    found = evaluate_log(read_log(table, items=ITEMS), builders_of(["random"]), interval="anytime")
    assert {row.estimator for row in found.rows} == {"ips"}
    assert "less than 0.2 " in found.text()[1], "the smallest propensity, on which they rely"
    assert found.preparation.brief.reward_range == (-1.0, 4.0)
    robust = evaluate_log(read_log(table, items=ITEMS), builders_of(["random"]), interval="anytime", estimator="dr")
    for one, other in zip(found.rows, robust.rows, strict=True):
        assert -1.0 <= other.value.low < other.value.estimate < other.value.high <= 4.0
        assert max(one.value.low, other.value.low) < min(one.value.high, other.value.high)
        assert max(one.difference.low, other.difference.low) <= min(one.difference.high, other.difference.high)
    for estimator, reason in (("sndr", "is a ratio"), ("dros", "has a bias"), ("switch_dr", "has a bias")):
        with pytest.raises(
            ValueError, match=f"estimator: expected 'ips' or 'dr' .*'{estimator}' .* because it {reason}"
        ):
            evaluate_log(read_log(table, items=ITEMS), builders_of(["random"]), interval="anytime", estimator=estimator)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"estimand": "shadw"}, r"estimand: unknown 'shadw' \(did you mean 'shadow'\?\)"),
        ({"estimator": "drr"}, "estimator: unknown 'drr'"),
        ({"estimator": "dros"}, "limit: dros needs one"),
        ({"interval": "bayes"}, "interval: unknown 'bayes'"),
        ({"dim": 0}, "dim: "),
    ],
)
def test_wrong_options_are_explained(options, message):
    with pytest.raises(ValueError, match=message):
        evaluate_log(read_log(shop(50), items=ITEMS), builders_of(["random"]), **options)


def test_a_policy_may_not_take_the_name_of_a_baseline():
    with pytest.raises(ValueError, match="'uniform' is the name of a baseline"):
        evaluate_log(read_log(shop(50), items=ITEMS), {"uniform": lambda brief: LinUCB(brief.dim)})


def test_the_beginning_settles_features_and_noise():
    log = read_log(shop(300), items=ITEMS)
    found = prepare(log, count=100)
    rewards = np.asarray(shop(300)["reward"])[:100]
    assert found.brief.noise == pytest.approx(rewards.std())
    assert (found.decisions, found.brief.seed) == (100, 0)
    assert found.brief.dim == found.encoder.dim
    assert found.encoder.to_json() == prepare(log, count=100).encoder.to_json()
    assert prepare(log, dim=8).brief.dim == 8


def test_rewards_that_are_all_alike_leave_the_widest_noise():
    brief = prepare(read_log(shop(50, reward=np.full(50, 3.0)), items=ITEMS)).brief
    assert (brief.noise, brief.reward_range) == (1.5, (0.0, 3.0))


def test_features_of_the_log_are_used_as_they_are():
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "arms": [["a", "b"]] * 40,
            "arm": ["a", "b"] * 20,
            "features": rng.random((40, 2, 3)).tolist(),
            "reward": rng.random(40),
        }
    )
    log = read_log(table, logged="uniform")
    found = prepare(log)
    assert (found.encoder, found.brief.dim) == (None, 3)
    with pytest.raises(ValueError, match=r"dim: the log has 3 features of its own"):
        prepare(log, dim=8)
    assert "3, the log's own" in "\n".join(evaluate_log(log, builders_of(["linucb"])).text())


def test_an_encoder_of_your_own_takes_the_place_of_a_fitted_one():
    log = read_log(shop(200), items=ITEMS)
    encoder = Encoder(dim=5).fit(log.records(50))
    assert prepare(log, encoder=encoder).encoder is encoder
    with pytest.raises(ValueError, match="dim: expected none beside an encoder"):
        prepare(log, encoder=encoder, dim=5)


def test_arms_known_by_their_ids_alone_can_be_told_apart():
    shown = ["tea", "cup"] * 300
    table = {"arms": [["tea", "cup"]] * 600, "arm": shown, "reward": [float(arm == "cup") for arm in shown]}
    found = evaluate_log(read_log(pa.table(table), logged="uniform"), builders_of(["linucb"]))
    assert found.rows[-1].value.low > 0.9
