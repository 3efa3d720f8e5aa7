"""The encoder: products by hand, names, one by one and many, hashing, projection, as a value."""

import copy
import json
import math
import pickle
import subprocess
import sys

import numpy as np
import pytest

from driftbandit.features import Category, Cycle, Encoder, Flag, Number, Tags, Vector
from driftbandit.features.product.kernel import pair_hash, sign_of, slot_of

CONTEXT = [Category("device", ["phone", "laptop"]), Cycle("hour", 24), Flag("member")]
ARMS = [Category("genre", ["rock", "jazz"]), Number("price", 0, 20), Tags("moods", ["calm"]), Vector("taste", 2)]
PEOPLE = [
    {"device": "phone", "hour": 6, "member": True},
    {"device": "tv", "hour": None},
    {"hour": 13.5, "member": False, "unheard": "of"},
]
SONGS = [
    {"id": 1, "genre": "jazz", "price": 5.0, "moods": ["calm", "live"], "taste": [1.0, -2.0]},
    {"id": 2, "genre": "polka", "moods": {"calm"}, "taste": np.array([0.0, 3.0])},
    {"id": 3, "price": 30},
]


def table(records, names):
    return {name: [record.get(name) for record in records] for name in names}


def random_sample(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (
            {"a": float(rng.standard_normal()), "b": f"w{rng.integers(5)}", "c": float(rng.standard_normal())},
            [{"id": k, "x": float(rng.standard_normal()), "y": f"v{rng.integers(6)}"} for k in range(4)],
        )
        for _ in range(count)
    ]


def test_products_by_hand():
    encoder = Encoder([Number("age", 0, 2)], [Number("price", 0, 2)])
    assert encoder.names == (
        "constant",
        "price",
        "price missing",
        "age",
        "age missing",
        "age × price",
        "age × price missing",
        "age missing × price",
        "age missing × price missing",
    )
    features = encoder.encode({"age": 1.5}, [{"price": 3.0}, {}])
    assert features.tolist() == [[1, 2, 0, 0.5, 0, 1, 0, 0, 0], [1, 0, 1, 0.5, 0, 0, 0.5, 0, 0]]
    assert features.dtype == np.float64
    assert features.flags.c_contiguous
    assert encoder.encode({}, [{"price": 3.0}]).tolist() == [[1, 2, 0, 0, 1, 0, 0, 2, 0]]


def test_names_say_what_the_columns_hold():
    encoder = Encoder(CONTEXT, ARMS, dim=1000)
    assert len(encoder.names) == len(set(encoder.names)) == encoder.dim == (1 + 4 + 2 + 1) * (1 + 4 + 2 + 3 + 3)
    features = encoder.encode(PEOPLE[0], SONGS)
    values = dict(zip(encoder.names, features[0].tolist(), strict=True))
    assert values["device=phone × genre=jazz"] == 1.0
    assert values["device=laptop × genre=jazz"] == 0.0
    assert values["hour sin × price"] == -0.5
    assert values["member × moods=calm"] == pytest.approx(math.sqrt(0.5))
    assert values["device=phone × taste[1]"] == -2.0
    assert dict(zip(encoder.names, features[2], strict=True))["member × genre missing"] == 1.0
    assert encoder.get_feature_names_out().tolist() == list(encoder.names)


def test_a_column_of_both_sides_says_which_side_it_is_from():
    encoder = Encoder([Flag("local")], [Flag("local")])
    assert encoder.names == ("constant", "arm.local", "context.local", "context.local × arm.local")


def test_named_crosses_or_none():
    named = Encoder(CONTEXT, ARMS, crosses=[("device", "genre")])
    assert named.dim == 1 + 12 + 7 + 4 * 4
    assert next(name for name in named.names if " × " in name) == "device=phone × genre=rock"
    none = Encoder(CONTEXT, ARMS, crosses="none")
    assert none.dim == 1 + 12 + 7
    alone = Encoder(CONTEXT, ARMS, crosses="none", context_only=False)
    assert alone.dim == 1 + 12
    full = Encoder(CONTEXT, ARMS, dim=1000)
    for person in PEOPLE:
        everything = dict(zip(full.names, full.encode(person, SONGS).T.tolist(), strict=True))
        for part in (named, none, alone):
            assert (
                dict(zip(part.names, part.encode(person, SONGS).T.tolist(), strict=True)).items() <= everything.items()
            )


@pytest.mark.parametrize("settings", [{"dim": 1000}, {"dim": 16}, {"dim": 50}, {"crosses": [("hour", "price")]}])
def test_many_rows_equal_one_by_one(settings):
    encoder = Encoder(CONTEXT, ARMS, **settings)
    owners, members = np.divmod(np.arange(9), 3)
    contexts, arms = table(PEOPLE, ["device", "hour", "member"]), table(SONGS, ["genre", "price", "moods", "taste"])
    expected = np.concatenate([encoder.encode(person, SONGS) for person in PEOPLE])
    assert encoder.encode_many(contexts, arms, owners, members).tolist() == expected.tolist()
    assert encoder.encode_many(PEOPLE, SONGS, owners, members).tolist() == expected.tolist()
    shuffled = np.random.default_rng(0).permutation(9)
    assert (
        encoder.encode_many(contexts, arms, owners[shuffled], members[shuffled]).tolist() == expected[shuffled].tolist()
    )


def test_arrays_with_nan_and_absent_columns_are_missing():
    encoder = Encoder([Number("age", 0, 2)], [Number("price", 0, 2)])
    some = encoder.encode_many({"age": np.array([1.0, np.nan])}, {"price": [None, 1]}, [0, 1], [0, 1])
    assert some.tolist() == [
        encoder.encode({"age": 1}, [{}])[0].tolist(),
        encoder.encode({}, [{"price": 1}])[0].tolist(),
    ]
    assert encoder.encode_many({}, {"price": [None, 1]}, [], []).shape == (0, 9)
    with pytest.raises(ValueError, match="owners: expected rows of context"):
        encoder.encode_many({"age": []}, {"price": [1]}, [0], [0])
    assert Encoder([], [Flag("x")]).encode_many({}, {"x": [True]}, [0, 5], [0, 0]).tolist() == [[1, 1], [1, 1]]


def test_hashing_adds_the_products_with_signs():
    full, hashed = Encoder(CONTEXT, ARMS, dim=1000), Encoder(CONTEXT, ARMS, dim=48)
    assert hashed.dim == 48
    plain = 1 + 12 + 7  # at most half of 48: these keep their own columns
    assert hashed.names[:plain] == full.names[:plain]
    context, arms = hashed._plan.context, hashed._plan.arms
    expected = np.zeros((3, 48))
    for k, row in enumerate(full.encode(PEOPLE[0], SONGS)):
        expected[k, :plain] = row[:plain]
        for name, value in zip(full.names[plain:], row[plain:], strict=True):
            left, right = name.split(" × ")
            keys = context.table[context.labels.index(left), 2], arms.table[arms.labels.index(right), 2]
            mixed = int(pair_hash(*keys))
            expected[k, plain + slot_of(mixed, 48 - plain)] += sign_of(mixed) * value
    assert hashed.encode(PEOPLE[0], SONGS) == pytest.approx(expected, abs=1e-12)
    small = Encoder(CONTEXT, ARMS, dim=8)
    assert small.encode(PEOPLE[0], SONGS).shape == (3, 8)


def test_hashed_names_say_what_falls_into_a_column():
    encoder = Encoder(CONTEXT, ARMS, dim=24, context_only=False)
    parts = " ".join(encoder.names)
    assert "+ 1 more" in parts or "more" in parts
    full = Encoder(CONTEXT, ARMS, dim=1000, context_only=False)
    shown = encoder.names[-1].split(" + ")[0].split(" - ")[0]
    assert shown in full.names
    wide = Encoder([Category("u", [f"u{n}" for n in range(3)])], [Flag("f")], dim=64)
    assert wide.dim == 12  # all fit: nothing is hashed


def test_hashed_products_are_spread_evenly_and_signs_are_balanced():
    rng = np.random.default_rng(0)
    mixed = pair_hash(rng.integers(1 << 31, size=100_000), rng.integers(1 << 31, size=100_000))
    counts = np.bincount(slot_of(mixed, 50), minlength=50)
    assert len(counts) == 50
    assert abs(counts - 2000).max() < 250  # deviation 45
    assert abs(sign_of(mixed).sum()) < 1500  # deviation 316
    assert abs(np.corrcoef(slot_of(mixed, 50), sign_of(mixed))[0, 1]) < 0.02
    few = pair_hash(rng.integers(1 << 31, size=300)[:, None], rng.integers(1 << 31, size=300)[None, :])
    assert abs(np.bincount(slot_of(few, 50).ravel()) - 1800).max() < 250
    assert mixed.min() >= 0


def test_projection_keeps_the_directions_that_vary_most():
    sample = random_sample(200)
    full = Encoder(dim=1000).fit(sample)
    projected = Encoder(dim=6, reduce="project").fit(sample)
    assert projected.dim == 6
    rows = np.concatenate([full.encode(*decision) for decision in sample])
    kept = np.concatenate([projected.encode(*decision) for decision in sample])
    values = np.sort(np.linalg.eigvalsh(rows.T @ rows))[::-1]
    assert (kept**2).sum() == pytest.approx(values[:6].sum())
    assert np.linalg.norm(kept.T @ kept - np.diag(np.diag(kept.T @ kept))) < 1e-6 * values[0]
    assert projected.names[0].count("constant") == 1
    assert all("more" in name for name in projected.names)
    owners, members = np.repeat(np.arange(5), 4), np.arange(20)
    contexts = [decision[0] for decision in sample[:5]]
    arms = [arm for decision in sample[:5] for arm in decision[1]]
    assert projected.encode_many(contexts, arms, owners, members) == pytest.approx(kept[:20])


def test_the_default_size_is_the_whole_product_or_64():
    assert Encoder([Flag("a")], [Flag("b")]).dim == 4
    assert Encoder([Vector("a", 10)], [Vector("b", 8)]).dim == 12 * 10
    assert Encoder([Vector("a", 10)], [Vector("b", 10)]).dim == 64
    assert Encoder([Vector("a", 10)], [Vector("b", 10)], dim=144).dim == 144


def test_fit_finds_kinds_vocabularies_and_scales():
    sample = [
        ({"hour": 3, "age": 20}, {"s1": {"genre": "jazz", "live": True}, "s2": {"genre": "rock", "live": False}}),
        ({"hour": 5, "age": 40}, [{"id": "s1", "genre": "jazz", "live": None}]),
    ]
    encoder = Encoder().fit(sample)
    assert encoder.columns == {
        "context": (Cycle("hour", 24), Number("age", 20, 40)),
        "arms": (Category("genre", ["jazz", "rock"], buckets=1), Flag("live")),
    }
    tables = Encoder().fit([context for context, _ in sample], arms=[{"genre": "jazz"}, {"genre": "rock"}])
    assert tables.columns["context"] == encoder.columns["context"]
    flat = Encoder(context=["age"], arms=[Category("genre")]).fit({"age": [20, 40], "genre": ["jazz", "rock"]})
    assert flat.columns["arms"] == encoder.columns["arms"][:1]
    assert (
        flat.transform([{"age": 30, "genre": "rock"}]).tolist()
        == flat.encode({"age": 30}, [{"genre": "rock"}]).tolist()
    )


def test_a_fitted_encoder_never_changes():
    sample = random_sample(20)
    encoder = Encoder().fit(sample)
    before = encoder.encode(*sample[0])
    with pytest.raises(ValueError, match="fitted and stays as it is"):
        encoder.fit(random_sample(20, seed=1))
    with pytest.raises(ValueError, match="fitted and stays as it is"):
        encoder.set_params(dim=3)
    for decision in random_sample(100, seed=2):
        encoder.encode(*decision)
    assert encoder.encode(*sample[0]).tolist() == before.tolist()
    again = Encoder(**encoder.get_params()).fit(sample)
    assert again == encoder


ENCODERS = [
    lambda: Encoder(CONTEXT, ARMS),
    lambda: Encoder(CONTEXT, ARMS, crosses=[("hour", "genre")], context_only=False),
    lambda: Encoder().fit(random_sample(50)),
    lambda: Encoder(dim=5, reduce="project").fit(random_sample(50)),
    lambda: Encoder(dim=5).fit(random_sample(50)),
    lambda: Encoder(["a", Number("c")], ["x"]),
    Encoder,
    lambda: Encoder(dim=500, reduce="project").fit(random_sample(50)),
]


@pytest.mark.parametrize("build", ENCODERS)
def test_an_encoder_is_a_value(build):
    encoder = build()
    assert encoder == build()
    assert encoder != Encoder([Flag("else")], [Flag("where")])
    for again in (
        Encoder.from_json(json.loads(json.dumps(encoder.to_json()))),
        pickle.loads(pickle.dumps(encoder)),
        copy.deepcopy(encoder),
    ):
        assert again == encoder
        assert again.is_ready == encoder.is_ready
        if encoder.is_ready:
            assert again.names == encoder.names
            context, arms = random_sample(1, seed=9)[0]
            arms = [*arms, *SONGS]
            assert (
                again.encode({**context, **PEOPLE[0]}, arms).tolist()
                == encoder.encode({**context, **PEOPLE[0]}, arms).tolist()
            )


_OTHER_PROCESS = """
import json, sys
from driftbandit.features import Encoder
encoder = Encoder.from_json(json.loads(sys.argv[1]))
fresh = Encoder(**encoder.get_params())
person, songs = json.loads(sys.argv[2])
print(json.dumps([encoder.encode(person, songs).tolist(), fresh.encode(person, songs).tolist(), encoder.names]))
"""


@pytest.mark.parametrize("seed", ["1", "4242"])
def test_another_process_gives_the_same_numbers(seed):
    encoder = Encoder([Category("device"), Number("age", 0, 1)], [Tags("moods", buckets=4), Category("genre")], dim=32)
    person = {"device": "phone", "age": 0.3}
    songs = [{"genre": "jazz", "moods": ["a", "b", "c"]}, {"genre": "rock", "moods": []}, {}]
    script = [sys.executable, "-c", _OTHER_PROCESS, json.dumps(encoder.to_json()), json.dumps([person, songs])]
    answer = subprocess.run(script, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
    expected = encoder.encode(person, songs).tolist()
    assert json.loads(answer) == [expected, expected, list(encoder.names)]


def test_hashes_never_change():
    encoder = Encoder([Category("device")], [Category("genre")], dim=32)
    features = encoder.encode({"device": "phone"}, [{"genre": "jazz"}, {"genre": "rock"}])
    filled = [{int(place): float(row[place]) for place in np.flatnonzero(row)} for row in features]
    assert filled == [
        {16: -1.0, 19: 1.0, 20: 1.0, 21: -1.0},
        {4: 1.0, 14: -1.0, 19: 1.0, 21: -1.0},
    ]  # otherwise saved policies would read other features than they learned from


def test_the_cache_of_arms_does_not_change_what_comes_out():
    encoder, fresh = Encoder(CONTEXT, ARMS), lambda: Encoder(CONTEXT, ARMS)
    rng = np.random.default_rng(0)
    songs = [
        {"genre": f"g{rng.integers(3)}", "price": float(rng.integers(30)), "moods": ["calm"] * int(rng.integers(3))}
        for _ in range(300)
    ]
    changing = dict(songs[0], moods=["calm"])
    before = encoder.encode(PEOPLE[0], [changing])
    changing["moods"].append("live")  # the same object, with other content
    assert encoder.encode(PEOPLE[0], [changing]).tolist() != before.tolist()
    for start in range(0, 300, 50):
        pool = songs[start : start + 50]
        assert encoder.encode(PEOPLE[0], pool).tolist() == fresh().encode(PEOPLE[0], pool).tolist()
    many = [{"genre": "jazz", "price": float(n)} for n in range(9000)]
    large = encoder.encode(PEOPLE[0], many)  # more than the cache takes
    assert large[::3000].tolist() == fresh().encode(PEOPLE[0], many[::3000]).tolist()
    for start in range(0, 9000, 3000):
        assert encoder.encode(PEOPLE[0], many[start : start + 3000]).tolist() == large[start : start + 3000].tolist()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.encode({"hour": "noon"}, SONGS), "context: hour: expected a number, got 'noon'"),
        (lambda e: e.encode(None, SONGS), "context: expected a dictionary of columns, got None"),
        (lambda e: e.encode({}, []), "arms: expected at least one arm"),
        (lambda e: e.encode({}, [3]), "arms: expected a dictionary of columns, got 3"),
        (lambda e: e.encode({}, [{"price": "x"}]), "arms: price: expected a number"),
        (lambda e: e.encode({}, [*SONGS, {"taste": [1]}]), "arms: taste: expected 2 finite numbers"),
        (lambda e: e.encode_many({"hour": [1]}, {"price": [1]}, [1], [0]), "owners: expected rows of context, 0 to 0"),
        (lambda e: e.encode_many({"hour": [1]}, {"price": [1]}, [0], [-1]), "members: expected rows of arms"),
        (lambda e: e.encode_many({"hour": [1]}, {"price": [1]}, [0.0], [0]), "owners: expected whole numbers"),
        (lambda e: e.encode_many({"hour": [1]}, {"price": [1]}, [0, 0], [0]), "owners, members: expected one length"),
        (lambda e: e.encode_many({"hour": [1], "x": [1, 2]}, {}, [0], [0]), "context: expected columns of one length"),
        (lambda e: e.encode_many({"hour": ["x"]}, {"price": [1]}, [0], [0]), "context: hour: expected a number"),
        (
            lambda e: e.encode_many({"hour": 8}, {"price": [1]}, [0], [0]),
            "context: hour: expected a list or an array, got 8",
        ),
        (
            lambda e: e.encode_many({"device": "tv"}, {"price": [1]}, [0], [0]),
            "context: device: expected a list or an array",
        ),
        (lambda e: e.encode({}, [{"moods": [["calm"]]}]), "arms: moods: expected a text or a number"),
        (lambda e: e.encode({}, [{"genre": {"a": 1}}]), "arms: genre: expected a text or a number"),
        (lambda e: e.encode_many(3, {"price": [1]}, [0], [0]), "context: expected records, columns or a table"),
        (lambda e: e.encode_many([3], {"price": [1]}, [0], [0]), "context: expected dictionaries, got 3 at row 0"),
    ],
)
def test_bad_calls_are_explained_and_leave_the_encoder_as_it_was(call, message):
    encoder = Encoder(CONTEXT, ARMS)
    before = encoder.encode(PEOPLE[0], SONGS).tolist()
    with pytest.raises(ValueError, match=message):
        call(encoder)
    assert encoder.encode(PEOPLE[0], SONGS).tolist() == before


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Encoder(["hour"], []).dim, "hour needs a kind"),
        (lambda: Encoder([Number("age")], []).encode({}, [{}]), "age needs low and high"),
        (lambda: Encoder().names, "call fit"),
        (lambda: Encoder([Flag("a")], [Flag("b")], reduce="project").dim, "call fit"),
        (lambda: Encoder(reduce="squeeze"), "reduce: expected 'hash' or 'project'"),
        (lambda: Encoder(dim=0), "dim: expected a whole number"),
        (lambda: Encoder("hour"), "context: expected a list of columns or names"),
        (lambda: Encoder([3]), "context: expected columns"),
        (lambda: Encoder([Flag("a"), Number("a")]), "context: expected every column once, got 'a'"),
        (lambda: Encoder([Flag("a")], [Flag("b")], crosses="some"), "crosses: expected 'all', 'none' or pairs"),
        (
            lambda: Encoder([Flag("a")], [Flag("b")], crosses=[("b", "a")]),
            "crosses: expected pairs of a context column",
        ),
        (lambda: Encoder([Flag("a")], [Flag("b")], crosses=3), "crosses: expected 'all', 'none' or pairs"),
        (lambda: Encoder().fit([]), "sample: expected"),
        (lambda: Encoder().fit([{"a": 1}]), "sample: expected .context, arms. pairs"),
        (lambda: Encoder().fit([({"a": 1}, [])]), "sample: expected at least one context and one arm"),
        (lambda: Encoder().fit([{"a": 1}], arms=[]), "sample: expected at least one context and one arm"),
        (lambda: Encoder(["z"], ["b"]).fit({"a": [1], "b": [2]}), "sample: expected the column 'z' of context"),
        (lambda: Encoder([Number("a")], ["b"]).fit({"a": ["x"], "b": [2]}), "sample: context: a: expected a number"),
        (lambda: Encoder().set_params(color=3), "set_params: unknown 'color'"),
        (lambda: Encoder.from_json({}), "encoder: expected what Encoder.to_json returned"),
        (lambda: Encoder.from_json(3), "encoder: expected what Encoder.to_json returned"),
        (lambda: Encoder.from_json({**Encoder().to_json(), "format": 99}), "it has format 99"),
        (lambda: Encoder.from_json({**Encoder().to_json(), "fitted": True}), "encoder: expected what"),
        (lambda: Encoder.from_json({**ENCODERS[3]().to_json(), "components": [[1.0]]}), "components: expected finite"),
        (lambda: Encoder.from_json({**ENCODERS[3]().to_json(), "components": []}), "components: expected finite"),
    ],
)
def test_bad_encoders_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_failed_fit_leaves_the_encoder_unfitted():
    encoder = Encoder([Number("a")], ["b"])
    with pytest.raises(ValueError, match="a: expected a number"):
        encoder.fit({"a": ["x"], "b": [2]})
    assert not encoder.is_ready
    assert encoder.fit({"a": [1, 2], "b": [2, 3]}).is_ready


def test_repr_is_short():
    assert repr(Encoder([Flag("a")], [Flag("b")])) == "Encoder(context=[a: flag], arms=[b: flag], dim=4)"
    assert repr(Encoder(["a"])) == "Encoder(context=['a'], crosses='all', reduce='hash', context_only=True)"


WORDS = ["rock", "jazz", "polka", "", None, 1, 1.0, True, 2.5, np.str_("jazz"), np.int64(7)]
NUMBERS = [3, 2.5, -1e9, 1e9, None, math.nan, True, "4.5", np.float32(0.1), 0.0, -0.0]
FLAGS = [True, False, None, 1, 0.0, math.nan]


@pytest.mark.parametrize("dim", [1000, 16])
@pytest.mark.parametrize(
    "arms",
    [
        [Category("genre", ["rock", "jazz"]), Number("price", 0, 20), Flag("live"), Category("label", buckets=3)],
        [Number("price", 0, 20)],
        [Category("genre")],
    ],
)
def test_a_few_new_arms_are_encoded_as_many_and_as_one_by_one(arms, dim):
    rng = np.random.default_rng(0)
    drawn = {"genre": WORDS, "label": WORDS, "price": NUMBERS, "live": FLAGS}
    records = [{column.name: drawn[column.name][rng.integers(6)] for column in arms} for _ in range(40)]
    records += [
        {column.name: values[k % len(values)] for column in arms for values in [drawn[column.name]]} for k in range(40)
    ]
    encoder = Encoder(CONTEXT, arms, dim=dim)
    few = np.concatenate([encoder.encode(PEOPLE[0], records[start : start + 8]) for start in range(0, 80, 8)])
    side = encoder._plan.arms
    assert side._quick is not None
    one_by_one = [side._slots(record) for record in records]
    again = Encoder(CONTEXT, arms, dim=dim)
    again._plan.arms._quick = None
    assert few.tobytes() == np.concatenate([again.encode(PEOPLE[0], [record]) for record in records]).tobytes()
    assert few.tobytes() == again.encode_many([PEOPLE[0]], records, [0] * 80, np.arange(80)).tobytes()
    index, value, places = side.places(records[:8])
    assert [index[place].tolist() for place in places] == [found for found, _ in one_by_one[:8]]
    assert [value[place].tolist() for place in places] == [found for _, found in one_by_one[:8]]


def test_new_arms_that_are_bad_are_named_and_the_next_ones_are_encoded():
    encoder = Encoder([], [Number("price", 0, 20), Category("genre"), Flag("live")])
    good = {"price": 5.0, "genre": "jazz", "live": True}
    for bad in ({"price": math.inf}, {"price": "dear"}, {"price": 10**400}, {"genre": ["jazz"]}, {"live": "perhaps"}):
        with pytest.raises(ValueError, match=f"arms: {next(iter(bad))}: expected"):
            encoder.encode({}, [good, good | bad])
    assert encoder.encode({}, [good]).tolist() == Encoder([], encoder.columns["arms"]).encode({}, [good]).tolist()


def test_products_too_many_to_write_down_go_to_the_same_columns(monkeypatch):
    tabled = Encoder(CONTEXT, ARMS, dim=24)
    monkeypatch.setattr("driftbandit.features.product.crosses._LARGEST_TABLE", 10)
    computed = Encoder(CONTEXT, ARMS, dim=24)
    assert computed._plan._layout._targets.size == 0 < tabled._plan._layout._targets.size
    for person in PEOPLE:
        assert computed.encode(person, SONGS).tobytes() == tabled.encode(person, SONGS).tobytes()


def test_rows_that_are_kept_after_longer_ones_were_forgotten_are_clean(monkeypatch):
    monkeypatch.setattr("driftbandit.features.product.side._CACHED", 3)
    encoder = Encoder([], [Tags("moods", ["calm", "live", "sad"])])
    encoder.encode({}, [{"moods": ["calm", "live", "sad"]}, {"moods": ["calm", "sad"]}])
    few = [{"moods": ["sad"]}, {"moods": []}]
    assert encoder.encode({}, few).tolist() == Encoder([], encoder.columns["arms"]).encode({}, few).tolist()


def test_arms_that_never_come_again_are_not_kept_until_some_do():
    rng = np.random.default_rng(0)
    columns = [Number("price", 0, 1), Category("genre", ["rock", "jazz"])]
    pools = [[{"price": x, "genre": "rock"} for x in pool] for pool in rng.random((200, 5)).tolist()]
    encoder, slow = Encoder([], columns), Encoder([], columns)
    slow._plan.arms._quick = None
    side = encoder._plan.arms
    for pool in pools:
        assert encoder.encode({}, pool).tobytes() == slow.encode({}, pool).tobytes()
    assert 64 * 5 <= len(side._cache) < 80 * 5
    for _ in range(40):  # the same arms again: before long they are found
        assert encoder.encode({}, pools[0]).tobytes() == slow.encode({}, pools[0]).tobytes()
    assert side._strangers == 0
    with pytest.raises(ValueError, match="arms: price: expected"):
        encoder.encode({}, [{"price": "dear", "genre": "rock"}])
