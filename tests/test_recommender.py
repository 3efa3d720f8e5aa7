"""Encoder and policy together: ids in and out, late rewards, saving, explaining in names."""

import copy
import json
import pickle
import zipfile

import numpy as np
import pytest

import driftbandit
from driftbandit import (
    UCB1,
    CusumUCB,
    Decision,
    DLinUCB,
    DriftUCB,
    Encoder,
    LinTS,
    LinUCB,
    PerArm,
    PerScope,
    Recommender,
)
from driftbandit.features import Category, Flag, Number, Tags, Vector

SONGS = {
    "so-what": {"genre": "jazz", "price": 5.0},
    "one": {"genre": "metal", "price": 1.0},
    7: {"genre": "folk", "price": 3.0},
}
ENCODER = Encoder(
    [Category("device", ["phone", "laptop"])], [Category("genre", ["jazz", "metal", "folk"]), Number("price", 0, 6)]
)
PHONE, LAPTOP = {"device": "phone"}, {"device": "laptop"}


def liking(device, arm):
    return float((device == "phone") == (arm == "one"))


def trained(policy, rounds=60, scope=None):
    recommender = Recommender(ENCODER, policy, items=SONGS)
    for t in range(rounds):
        context = (PHONE, LAPTOP)[t % 2]
        decision = recommender.choose(context, scope=scope)
        recommender.learn(decision, liking(context["device"], decision.arm))
    return recommender


def test_arms_come_in_any_form():
    recommender = trained(LinUCB(ENCODER.dim))
    forms = [
        SONGS,
        [{"id": arm, **record} for arm, record in SONGS.items()],
        list(SONGS),
        tuple(SONGS),
        None,
        np.array(list(SONGS), dtype=object),
    ]
    decisions = [recommender.choose(PHONE, arms) for arms in forms]
    assert decisions == [decisions[0]] * len(forms)
    assert decisions[0].arm == "one"
    assert recommender.choose(PHONE, ["so-what", 7]).arm in ("so-what", 7)
    assert recommender.choose(LAPTOP).arm != "one"
    index = LinUCB(ENCODER.dim).choose(ENCODER.encode(PHONE, list(SONGS.values())))
    assert Recommender(ENCODER, LinUCB(ENCODER.dim)).choose(PHONE, SONGS).arm == list(SONGS)[index]


def test_it_does_what_encoder_and_policy_do():
    recommender, policy = Recommender(ENCODER, DriftUCB(ENCODER.dim)), DriftUCB(ENCODER.dim)
    rng = np.random.default_rng(0)
    for _ in range(100):
        context = {"device": ("phone", "laptop", None)[rng.integers(3)]}
        features = ENCODER.encode(context, list(SONGS.values()))
        index = policy.choose(features)
        decision = recommender.choose(context, SONGS)
        assert decision == Decision(list(SONGS)[index], tuple(features[index]))
        reward = float(rng.standard_normal())
        assert recommender.learn(decision, reward) == policy.learn(features[index], reward)
    assert all(
        (a == b).all() for a, b in zip(recommender.policy.state().values(), policy.state().values(), strict=True)
    )


def test_rewards_may_come_late_out_of_order_elsewhere_or_never(tmp_path):
    here = Recommender(ENCODER, LinUCB(ENCODER.dim), items=SONGS)
    decisions = [here.choose(context) for context in (PHONE, LAPTOP, PHONE, {})]
    here.save(tmp_path / "shop")
    elsewhere = Recommender.load(tmp_path / "shop")
    posted = [json.dumps(decision.to_json()) for decision in decisions]
    pickled = [pickle.loads(pickle.dumps(decision)) for decision in decisions]
    for number in (2, 0):  # 1 and 3 are never answered
        here.learn(pickled[number], 1.0)
        elsewhere.learn(Decision.from_json(json.loads(posted[number])), 1.0)
    assert here.policy.feature_weights.tolist() == elsewhere.policy.feature_weights.tolist()
    assert here.policy.rounds == 2


@pytest.mark.parametrize(
    "policy",
    [
        LinUCB(ENCODER.dim),
        DriftUCB(ENCODER.dim),
        LinTS(ENCODER.dim),
        DLinUCB(ENCODER.dim, noise=0.1),
        UCB1(),
        PerArm(LinUCB(ENCODER.dim)),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_saved_and_loaded_it_continues_bit_for_bit(tmp_path, policy):
    recommender = trained(copy.deepcopy(policy))
    recommender.save(tmp_path / "shop")
    again = Recommender.load(tmp_path / "shop")
    assert again.encoder == ENCODER
    assert again.items == SONGS
    for context in (PHONE, LAPTOP, PHONE):
        first, second = recommender.choose(context), again.choose(context)
        assert first == second
        assert recommender.learn(first, 0.5) == again.learn(second, 0.5)
    assert type(driftbandit.load(tmp_path / "shop")) is type(policy)  # the policy alone


def test_scopes_are_passed_on():
    recommender = Recommender(ENCODER, PerScope(LinUCB(ENCODER.dim)), items=SONGS)
    for user, liked in (("ann", "one"), ("bob", "so-what")):
        for arm in SONGS:
            recommender.learn(recommender.choose(PHONE, [arm], scope=user), float(arm == liked))
    assert recommender.choose(PHONE, scope="ann").arm == "one"
    assert recommender.choose(PHONE, scope="bob") == Decision(
        "so-what", recommender.choose(PHONE, ["so-what"], scope="bob").features, "bob"
    )
    assert recommender.explain(PHONE, scope="ann").arm == "one"
    assert recommender.explain(PHONE, scope="nobody").parts == ()
    with pytest.raises(ValueError, match="scope: PerScope needs to know"):
        recommender.choose(PHONE)
    with pytest.raises(ValueError, match="scope: LinUCB keeps no model per scope"):
        trained(LinUCB(ENCODER.dim)).choose(PHONE, scope="ann")


def test_context_free_policies_know_arms_by_their_ids():
    recommender = Recommender(None, UCB1())
    for _ in range(30):
        decision = recommender.choose({}, ["a", "b", 3])
        assert decision.features is None
        recommender.learn(decision, float(decision.arm == "b"))
    assert recommender.choose({"who": "cares"}, {"b": {}, "a": {}}).arm == "b"
    assert recommender.explain({}, ["a", "b"]).arm == "b"
    with_encoder = Recommender(ENCODER, CusumUCB(), items=SONGS)
    assert with_encoder.choose(PHONE).features is None


class Counting(LinUCB):
    """Writes down how many choices it was told are pending."""

    minds_pending = True

    def choose(self, features, arms=None, *, pending=0):
        self.told = pending
        return super().choose(features, arms)


def test_pending_choices_are_passed_to_policies_that_mind():
    recommender = Recommender(ENCODER, Counting(ENCODER.dim), items=SONGS)
    recommender.choose(PHONE, pending=7)
    assert recommender.policy.told == 7
    assert trained(LinUCB(ENCODER.dim)).choose(PHONE, pending=7).arm == "one"  # does not mind


def test_rank_gives_decisions_in_order():
    recommender = trained(LinUCB(ENCODER.dim))
    if not hasattr(recommender.policy, "rank"):
        pytest.skip("policies have no rank yet")
    ranked = recommender.rank(PHONE, k=2)
    assert ranked[0] == recommender.choose(PHONE)
    assert len({decision.arm for decision in ranked}) == 2
    assert len(recommender.rank(PHONE)) == 3
    recommender.learn(ranked[1], 1.0)


def test_it_explains_in_names_why_and_what_changed():
    rng = np.random.default_rng(0)
    encoder = Encoder([Flag("member")], [Number("price", 0, 2), Flag("live")])
    recommender = Recommender(encoder, DriftUCB(encoder.dim))
    liked = 1.0
    for t in range(2000):
        if t == 1000:
            liked = -1.0  # members stop liking what is live
        songs = [{"id": k, "price": 2 * rng.random(), "live": bool(rng.integers(2))} for k in range(5)]
        decision = recommender.choose({"member": True}, songs)
        live = decision.features[encoder.names.index("live")]
        recommender.learn(decision, liked * live + 0.1 * rng.standard_normal())
    songs = {"quiet": {"live": False, "price": 1.0}, "loud": {"live": True, "price": 1.0}}
    why = recommender.explain({"member": True}, songs)
    assert why.arm == "quiet"
    assert {part.name for part in why.parts[:2]} == {"live", "member × live"}
    assert why.parts[0].lead == pytest.approx(why.parts[0].weight * (why.parts[0].value - 0.0))
    assert 1000 < why.change.round < 1100
    assert {name for name, _, _ in why.moved[:2]} == {"live", "member × live"}
    assert sum(now - before for name, before, now in why.moved if "live" in name) == pytest.approx(-2.0, abs=0.2)
    text = str(why)
    assert text.startswith("arm 'quiet'")
    assert "member × live (" in text
    assert "last change: restarted at reward" in text
    assert recommender.explain({"member": True}, songs, arm="loud").parts[0].lead < 0


def test_explaining_draws_nothing():
    policy = LinTS(ENCODER.dim)
    recommender, twin = trained(copy.deepcopy(policy)), trained(copy.deepcopy(policy))
    recommender.explain(PHONE)
    assert [recommender.choose(PHONE) for _ in range(20)] == [twin.choose(PHONE) for _ in range(20)]


def test_any_function_takes_the_encoders_place(tmp_path):
    def prices(context, arms):
        return [[arm["price"], context["age"]] for arm in arms]

    recommender = Recommender(prices, LinUCB(2), items=SONGS)
    decision = recommender.choose({"age": 3})
    recommender.learn(decision, 1.0)
    assert decision.features == (SONGS[decision.arm]["price"], 3.0)
    assert recommender.explain({"age": 3}).parts[0].name == "feature 0"
    recommender.save(tmp_path / "shop")
    assert Recommender.load(tmp_path / "shop", encoder=prices).choose({"age": 3}) == recommender.choose({"age": 3})
    with pytest.raises(ValueError, match="encoder: expected one exactly if"):
        Recommender.load(tmp_path / "shop")
    with pytest.raises(ValueError, match=r"encoder: expected features of shape \(3, d\)"):
        Recommender(lambda context, arms: np.zeros((1, 2)), LinUCB(2), items=SONGS).choose({})


def test_items_of_every_kind_are_saved(tmp_path):
    encoder = Encoder([], [Tags("moods", ["a"]), Vector("taste", 2), Number("price", 0, 1)])
    items = {"x": {"moods": {"b", "a"}, "taste": np.array([1.0, 2.0]), "price": np.float64("nan")}}
    recommender = Recommender(encoder, LinUCB(encoder.dim), items=items)
    recommender.save(tmp_path / "shop")
    assert Recommender.load(tmp_path / "shop").choose({}) == recommender.choose({})
    recommender.items["y"] = {"moods": [object()]}
    before = (tmp_path / "shop").read_bytes()
    with pytest.raises(ValueError, match="items: expected features that JSON can hold"):
        recommender.save(tmp_path / "shop")
    assert (tmp_path / "shop").read_bytes() == before


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.choose(PHONE, {}), "arms: expected at least one arm"),
        (lambda r: r.choose(PHONE, ["nobody"]), "arms: expected features, or an id among items, got 'nobody'"),
        (lambda r: r.choose(PHONE, [{"genre": "jazz"}]), "arms: expected an 'id' in every arm"),
        (lambda r: r.choose(PHONE, "one"), "arms: expected a dictionary by id"),
        (lambda r: r.choose(PHONE, 3), "arms: expected a dictionary by id"),
        (lambda r: r.choose(PHONE, {1.5: {}}), "arms: expected ids that are texts or whole numbers"),
        (lambda r: r.choose(PHONE, [1 << 63]), "arms: expected ids that are texts or whole numbers that fit int64"),
        (lambda r: r.choose(PHONE, {"a": 3}), "arms: expected a dictionary of columns, got 3"),
        (lambda r: r.choose(3, SONGS), "context: expected a dictionary of columns, got 3"),
        (lambda r: r.learn("one", 1.0), "decision: expected what choose returned, got 'one'"),
        (lambda r: r.learn(r.choose(PHONE), float("nan")), "reward: expected a finite number"),
        (lambda r: r.learn(Decision("one", (1.0,)), 1.0), "features: expected shape"),
        (lambda r: r.learn(Decision("one", None), 1.0), "features: expected shape"),
        (lambda r: r.explain(PHONE, arm="nobody"), "arm: expected one of this round's arms, got 'nobody'"),
        (lambda r: Decision.from_json({"arm": 1}), "decision: expected what Decision.to_json returned"),
        (lambda r: Decision.from_json({"arm": 1, "features": 3, "scope": None}), "decision: expected what"),
    ],
)
def test_bad_calls_are_explained_and_lose_nothing(call, message):
    recommender = trained(LinUCB(ENCODER.dim))
    before = recommender.policy.state()
    with pytest.raises(ValueError, match=message):
        call(recommender)
    assert all((before[name] == array).all() for name, array in recommender.policy.state().items())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Recommender(ENCODER, LinUCB(3)),
            f"policy: expected dim={ENCODER.dim}, as the encoder makes, got dim=3",
        ),
        (lambda: Recommender(ENCODER, LinUCB), "policy: expected a policy"),
        (lambda: Recommender(None, LinUCB(3)), "encoder: expected one, because LinUCB needs features"),
        (lambda: Recommender(3, LinUCB(3)), "encoder: expected an Encoder"),
        (lambda: Recommender(Encoder, LinUCB(3)), "encoder: expected an Encoder"),
        (lambda: Recommender(Encoder(), LinUCB(3)), "encoder: expected one that is fitted"),
        (lambda: Recommender(ENCODER, LinUCB(ENCODER.dim), items=["a"]), "items: expected features for every id"),
    ],
)
def test_parts_that_do_not_fit_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "shop"
    trained(LinUCB(ENCODER.dim)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a saved policy"):
        Recommender.load(path)
    LinUCB(2).save(path)
    with pytest.raises(ValueError, match=r"policy without an encoder; read it with driftbandit.load"):
        Recommender.load(path)
    for note in (
        {"format": 99},
        {},
        3,
        {"format": 1, "encoder": {}, "items": []},
        {"format": 1, "encoder": None, "items": [3]},
    ):
        trained(LinUCB(ENCODER.dim)).save(path)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, json.dumps(note) if name == "recommender.json" else content)
        with pytest.raises(ValueError, match=str(path)):
            Recommender.load(path)
    with pytest.raises(FileNotFoundError):
        Recommender.load(tmp_path / "nowhere")


def test_repr_names_its_parts():
    assert repr(Recommender(None, UCB1(), items=SONGS)).startswith("Recommender(None, <UCB1(")
