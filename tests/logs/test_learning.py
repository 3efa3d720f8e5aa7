"""What a policy learns from a log, and the file that holds it."""

import numpy as np
import pyarrow as pa
import pytest

from driftbandit import UCB1, DLinUCB, DriftUCB, LinUCB, LogisticUCB, PerScope, Recommender, load, read_log
from driftbandit.features.arms import number_of
from driftbandit.logs.learning import dim_of, fit_encoder, items_at, learn_log, save_learned

from .made import ITEMS, rows, table

PRICES = pa.table({"id": list(ITEMS), "price": list(ITEMS.values())})


def state(policy):
    return {name: array.tobytes() for name, array in policy.state().items()}


def with_features(count=400, flip=None):
    """A log with two numeric features, whose weights change sign at a row."""
    rng = np.random.default_rng(2)
    pools = rng.standard_normal((count, 3, 2))
    shown = rng.integers(3, size=count)
    signs = np.where(np.arange(count) < (flip or count), 1.0, -1.0)
    rewards = signs * (pools[np.arange(count), shown] @ [0.8, -0.5]) + 0.05 * rng.standard_normal(count)
    return pa.table(
        {
            "arms": [["a", "b", "c"]] * count,
            "features": pools.tolist(),
            "arm": ["abc"[place] for place in shown],
            "reward": rewards,
        }
    )


def test_every_reward_is_learned_in_order_as_one_by_one():
    log = read_log(table(300), items=PRICES, batch_rows=37)
    encoder = fit_encoder(log)
    policy, expected = DriftUCB(encoder.dim), DriftUCB(encoder.dim)
    done = []
    lessons = learn_log(policy, log, encoder, progress=done.append)
    for row in rows(300):
        arm = {"price": ITEMS[row["arm"]]}
        expected.learn(encoder.encode(row, [arm])[0], row["reward"])
    assert state(policy) == state(expected)
    assert (lessons.rewards, lessons.until) == (300, 399.0)
    assert done[-1] == 300
    assert done == sorted(done)
    assert len(done) > 5


def test_runs_of_rewards_give_what_single_rewards_give_and_changes_know_their_rows():
    source = with_features(1500, flip=800)
    whole = read_log(source, logged="uniform", batch_rows=1500)
    pieces = read_log(source, logged="uniform", batch_rows=100)
    fast, slow = DLinUCB(2, noise=0.1, window=50), DLinUCB(2, noise=0.1, window=50)
    assert fast.learns_many
    lessons = learn_log(fast, whole)
    assert lessons.changes == learn_log(DLinUCB(2, noise=0.1, window=50), pieces).changes
    expected = []
    for events in whole.events():
        for row, place in enumerate(events.shown_places()):
            expected += [(row, change) for change in slow.learn(events.features[place], events.rewards[row])]
    assert lessons.changes == tuple(expected)
    assert state(fast) == state(slow)
    assert any(800 <= row < 1000 for row, _ in lessons.changes)


def test_a_log_with_features_gives_the_policy_alone(tmp_path):
    log = read_log(with_features(), logged="uniform")
    assert fit_encoder(log) is None
    assert dim_of(log, None) == 2
    policy = LinUCB(2)
    learn_log(policy, log)
    save_learned(tmp_path / "a", policy, None, {})
    assert state(load(tmp_path / "a")) == state(policy)
    with pytest.raises(ValueError, match="holds a policy without an encoder"):
        Recommender.load(tmp_path / "a")
    with pytest.raises(ValueError, match=r"dim: the log has 2 features of its own, .* got 5"):
        fit_encoder(log, 5)


def test_the_file_is_read_by_recommender_and_load(tmp_path):
    log = read_log(table(200), items=PRICES)
    encoder = fit_encoder(log)
    policy = LinUCB(encoder.dim)
    lessons = learn_log(policy, log, encoder)
    save_learned(tmp_path / "a", policy, encoder, items_at(log, lessons.until))
    shop = Recommender.load(tmp_path / "a")
    assert shop.items == {arm: {"price": price} for arm, price in ITEMS.items()}
    assert shop.encoder == encoder
    assert state(shop.policy) == state(load(tmp_path / "a")) == state(policy)
    assert shop.choose({"device": "phone", "age": 30}).arm in ITEMS


def test_dim_is_the_most_features():
    assert fit_encoder(read_log(table(100), items=PRICES), 6).dim == 6


def test_without_an_item_table_the_id_describes_the_arm():
    source = pa.table(
        {
            "device": ["phone", "phone", "desk", "desk"] * 50,
            "arms": [["tea", "cup"]] * 200,
            "arm": ["tea", "cup"] * 100,
            "reward": [1.0, 0.0, 0.0, 1.0] * 50,
        }
    )
    log = read_log(source, logged="uniform")
    encoder = fit_encoder(log)
    policy = LinUCB(encoder.dim)
    learn_log(policy, log, encoder)
    shop = Recommender(encoder, policy, items=items_at(log, 0.0))
    assert [shop.choose({"device": device}).arm for device in ("phone", "desk")] == ["tea", "cup"]


def test_a_context_free_policy_goes_on_in_a_recommender(tmp_path):
    source = pa.table(
        {"arms": [["tea", "cup"]] * 60, "arm": ["tea", "cup"] * 30, "reward": [1.0, 0.0] * 30, "noise": [7] * 60}
    )
    log = read_log(source, logged="uniform")
    policy, expected = UCB1(), UCB1()
    lessons = learn_log(policy, log)
    for arm, reward in [("tea", 1.0), ("cup", 0.0)] * 30:
        expected.learn(None, reward, number_of(arm))
    assert state(policy) == state(expected)
    save_learned(tmp_path / "a", policy, None, items_at(log, lessons.until))
    assert Recommender.load(tmp_path / "a").choose({}).arm == "tea"


def test_scopes_are_known_by_name():
    log = read_log(table(200), items=PRICES)
    encoder = fit_encoder(log)
    policy = PerScope(LinUCB(encoder.dim))
    learn_log(policy, log, encoder)
    shop = Recommender(encoder, policy, items=items_at(log, 0.0))
    alone = LinUCB(encoder.dim)
    for row in rows(200):
        if row["scope"] == "user 1":
            alone.learn(encoder.encode(row, [{"price": ITEMS[row["arm"]]}])[0], row["reward"])
    assert state(policy.policy_of("user 1")) == state(alone)
    assert shop.choose({"device": "phone", "age": 30}, scope="user 1").arm in ITEMS


def test_items_that_ended_are_left_out():
    items = PRICES.append_column("until", pa.array([150.0, None, None, 90.0]))
    log = read_log(table(50), items=items)
    assert list(items_at(log, 150.0)) == ["tea", "cup", "pot"]  # tables often end when the log does
    assert list(items_at(log, 150.1)) == ["cup", "pot"]
    log = read_log(table(50), items=items.slice(0, 2))  # the others are in the log alone
    log.check()
    assert set(items_at(log, 150.1)) == {"cup", "pot", "mug"}


def test_a_reward_that_the_policy_refuses_is_named_by_its_row():
    log = read_log(table(50, reward=[0.0] * 20 + [7.0] + [0.0] * 29), items=PRICES)
    encoder = fit_encoder(log)
    with pytest.raises(ValueError, match=r"the table: row 21: .*\[0, 1\].*7"):
        learn_log(LogisticUCB(encoder.dim), log, encoder)


def test_features_are_needed_and_must_fit():
    log = read_log(table(50), items=PRICES)
    with pytest.raises(ValueError, match="no numeric features; pass an encoder"):
        learn_log(LinUCB(3), log)
    with pytest.raises(ValueError, match="row 1: features: expected"):
        learn_log(LinUCB(3), log, fit_encoder(log))


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    log = read_log(table(100), items=PRICES)
    encoder = fit_encoder(log)
    policy = LinUCB(encoder.dim)
    save_learned(tmp_path / "a", policy, encoder, items_at(log, 0.0))
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(ValueError, match="items"):
        save_learned(tmp_path / "a", policy, encoder, {"tea": {"price": object()}})
    assert (tmp_path / "a").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
