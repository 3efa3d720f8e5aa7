"""Settings rebuild a policy, and a file brings it back with everything it has learned."""

import contextlib
import inspect
import io
import json
import math
import shutil
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from driftbandit import (
    BOB,
    CLUB,
    UCB1,
    DLinUCB,
    DyClu,
    LinTS,
    LinUCB,
    PerArm,
    PerScope,
    Radius,
    RewardModel,
    RidgeModel,
    load,
)
from driftbandit.core import takes_scope
from driftbandit.models import TunedRidge
from driftbandit.policies import saving
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.registry import REGISTRY, Brief

DIM = 4
OLD_FILES = Path(__file__).parent / "saved"
SCOPED = {
    "PerScope": lambda: PerScope(DLinUCB(DIM, 0.2, window=20), max_scopes=50),
    "PerScope of LinTS": lambda: PerScope(LinTS(DIM, seed=3)),
    "CLUB": lambda: CLUB(DIM, users=4, density=0.5, seed=2),
    "CLUB that parts nobody": lambda: CLUB(DIM, separation=math.inf),
    "DyClu": lambda: DyClu(DIM, 0.2),
    "PerArm": lambda: PerArm(LinUCB(DIM, explore=Radius.paper(DIM, noise=0.2, ridge=0.1, delta=0.01))),
    "PerArm of LinTS": lambda: PerArm(LinTS(DIM), max_arms=40, seed=9),
}
OTHERS = {
    "DLinUCB of Thompson members": lambda: DLinUCB(
        DIM, 0.2, model="thompson", window=5, max_members=3, seed=np.int64(4)
    ),
    "DLinUCB of a class": lambda: DLinUCB(DIM, 0.2, model=RidgeModel),
    "BOB with settings": lambda: BOB(DIM, np.float32(0.25), horizon=500, block=7, windows=[2, 5], mixing=0.25),
}
EVERYONE = {
    **{
        name: lambda entry=entry: entry.build(Brief(DIM, noise=0.2, shifts=(30, 60), seed=5))
        for name, entry in REGISTRY.items()
    },
    **SCOPED,
    **OTHERS,
}


def play(policy, seed, rounds=90):
    """Choices in a small world of rewards in [0, 1] that turns round half-way."""
    rng = np.random.default_rng(seed)
    choices = []
    for t in range(rounds):
        features, arms = rng.standard_normal((6, DIM)) / 3.0, rng.permutation(9)[:6]
        whose = {"scope": (7, "7", "ann")[rng.integers(3)]} if takes_scope(policy) else {}
        index = policy.choose(features, arms, **whose)
        sign = 1.0 if t < rounds // 2 else -1.0
        reward = 0.5 + 0.4 * sign * np.tanh(features[index].sum()) + 0.1 * rng.uniform(-1.0, 1.0)
        policy.learn(features[index], reward, int(arms[index]), **whose)
        choices.append(index)
    return choices


def snapshot(policy):
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in policy.state().items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.npz"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERYONE)
class TestEveryPolicy:
    def test_its_settings_are_attributes_and_rebuild_it(self, name):
        policy = EVERYONE[name]()
        settings = policy.settings()
        assert list(settings) == list(inspect.signature(type(policy)).parameters)
        assert all(settings[argument] is getattr(policy, argument) for argument in settings)
        twin = type(policy)(**settings)
        assert play(twin, 1) == play(policy, 1)
        assert snapshot(twin) == snapshot(policy)

    def test_its_settings_stay_as_they_are_while_it_learns(self, name):
        policy = EVERYONE[name]()
        before = repr(policy.settings())
        play(policy, 1)
        if "policy" not in before and "build" not in before:
            assert repr(policy.settings()) == before

    def test_repr_is_one_short_line(self, name):
        policy = EVERYONE[name]()
        play(policy, 1, rounds=20)
        text = repr(policy)
        assert text.startswith(f"<{type(policy).__name__}(")
        assert "rounds=20" in text
        assert "\n" not in text
        assert "array" not in text
        assert " at 0x" not in text
        assert len(text) < 250

    def test_a_file_brings_it_back_bit_for_bit(self, name, path):
        policy = EVERYONE[name]()
        play(policy, 1)
        policy.save(path)
        twin = load(path)
        assert type(twin) is type(policy)
        assert repr(twin) == repr(policy)
        assert snapshot(twin) == snapshot(policy)
        assert play(twin, 2) == play(policy, 2)
        assert snapshot(twin) == snapshot(policy)


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(LinUCB(2, ridge=0.1)) == "<LinUCB(dim=2) rounds=0, changes=0>"
    assert repr(LinUCB(2, ridge=0.5)) == "<LinUCB(dim=2, ridge=0.5) rounds=0, changes=0>"
    policy = PerScope(LinUCB(2, explore=1.0))
    policy.learn([1.0, 0.0], 1.0, scope="ann")
    assert repr(policy) == "<PerScope(build=LinUCB(dim=2, explore=1.0)) rounds=1, scopes=1>"
    assert repr(PerScope(build_lints)) == "<PerScope(build=build_lints) rounds=0, scopes=0>"
    assert repr(PerArm(LinUCB(2))) == "<PerArm(policy=LinUCB(dim=2)) rounds=0, arms=0>"
    assert repr(DLinUCB(2, "auto", model=TunedRidge)).startswith("<DLinUCB(dim=2, noise='auto', model=TunedRidge)")


def build_lints(scope):
    return LinTS(DIM, seed=len(str(scope)))


class Greedy(PolicyBase):
    """A policy of one's own: plays the arm with the highest first feature times a weight that it learns."""

    _parts = (*PolicyBase._parts, "_weight")

    def __init__(self, dim, *, table=(1.0, 2.0)):
        super().__init__()
        self.dim = dim
        self.table = table
        self._weight = np.zeros(1)

    def choose(self, features, arms=None):
        return int(np.argmax(np.asarray(features)[:, 0] * self._weight))

    def learn(self, features, reward, arm=None):
        self._weight += reward * features[0]
        self.rounds += 1
        return ()


class Doubled(RidgeModel):
    """A model of one's own."""

    def predict(self, row, x):
        mean, width = super().predict(row, x)
        return mean, 2.0 * width


class Forgetful(Greedy):
    """Keeps an argument of its constructor to itself."""

    def __init__(self, dim, secret=1):
        super().__init__(dim)
        self._secret = secret


def test_repr_never_prints_arrays_nor_fails():
    assert repr(Greedy(2, table=np.zeros((900, 2)))) == (
        "<Greedy(dim=2, table=<array of shape (900, 2)>) rounds=0, changes=0>"
    )
    assert repr(Greedy(2, table=tuple(range(900)))).endswith("...) rounds=0, changes=0>")
    assert repr(Forgetful(2, secret=3)) == "<Forgetful(dim=2) rounds=0, changes=0>"


def test_an_argument_that_is_no_attribute_is_named():
    with pytest.raises(TypeError, match="Forgetful: expected the argument 'secret' of the constructor as an attribute"):
        Forgetful(2).settings()


@pytest.mark.parametrize("build", [lambda: Greedy(DIM), lambda: DLinUCB(DIM, 0.2, model=Doubled, window=10)])
def test_a_class_of_ones_own_is_loaded_where_the_caller_passes_it(build, path):
    policy = build()
    play(policy, 1)
    policy.save(path)
    with pytest.raises(ValueError, match=r"policy.npz: .*test_saving:(Greedy|Doubled)' is not .*classes=\[\1\]"):
        load(path)
    twin = load(path, classes=[Greedy, Doubled])
    assert type(twin) is type(policy)
    assert play(twin, 2) == play(policy, 2)


def test_a_policy_inside_keeps_what_it_had_learned(path):
    template = LinUCB(DIM)
    play(template, 1)
    policy = PerScope(template)
    policy.learn(np.ones(DIM), 1.0, scope=1)
    policy.save(path)
    twin = load(path)
    policy.learn(np.ones(DIM), 1.0, scope=2)
    twin.learn(np.ones(DIM), 1.0, scope=2)
    assert snapshot(twin) == snapshot(policy)
    assert twin.policy_of(2).rounds == 91


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        (PerScope(build_lints), "PerScope cannot be saved: build: .*build_lints"),
        (DLinUCB(2, 0.1, model=partial(RidgeModel)), "DLinUCB cannot be saved: model:"),
        (Greedy(2, table=np.zeros(3)), "Greedy cannot be saved: table:"),
    ],
)
def test_what_cannot_be_written_is_named_and_nothing_is_written(policy, what, path):
    with pytest.raises(ValueError, match=what):
        policy.save(path)
    assert list(path.parent.iterdir()) == []


def test_a_save_that_fails_leaves_the_file_of_before(path, monkeypatch):
    policy = LinUCB(2)
    policy.save(path)
    before = path.read_bytes()
    policy.learn([1.0, 0.0], 1.0)

    def full(*arguments, **keywords):
        raise OSError("disk full")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="disk full"):
        policy.save(path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == ["policy.npz"]


def test_the_same_policy_makes_the_same_file(path):
    LinUCB(2).save(path)
    first = path.read_bytes()
    LinUCB(2).save(path)
    assert path.read_bytes() == first


# Files that are not as they should be -----------------------------------------------------------------------------


def trained():
    policy = DLinUCB(2, 0.1, window=5, explore=0.5)
    for reward in (0.5, 0.4, -0.3):
        policy.learn([0.6, 0.8], reward)
    return policy


def rewrite(path, change, members=None):
    """Save a policy and change the header of its file, or replace members of it."""
    trained().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["header.json"])
    change(header)
    parts["header.json"] = json.dumps(header).encode()
    parts |= members or {}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            if content is not None:
                archive.writestr(name, content)


def array_file(array, **keywords):
    buffer = io.BytesIO()
    np.save(buffer, array, **keywords)
    return buffer.getvalue()


def refuses(path, what):
    with pytest.raises(ValueError, match=what) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(path):
    with pytest.raises(FileNotFoundError):
        load(path)


def test_a_truncated_file_is_refused_at_every_length(path):
    trained().save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        refuses(path, "not a saved policy")


def test_a_file_with_a_wrong_byte_is_refused_or_means_the_same(path):
    trained().save(path)
    whole = bytearray(path.read_bytes())
    expected = snapshot(load(path))
    for place in range(0, len(whole), 7):
        damaged = whole.copy()
        damaged[place] ^= 0x5A
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):
            assert snapshot(load(path)) == expected  # a date in the archive, say


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_are_refused(path, seed):
    path.write_bytes(np.random.default_rng(seed).bytes(2000))
    refuses(path, "not a saved policy")


def test_a_folder_and_other_archives_are_refused(path, tmp_path):
    np.savez(path, **trained().state())  # how states were kept by hand
    refuses(path, "header.json")
    np.savez(path, header=np.zeros(3))
    refuses(path, "header.json")
    refuses(tmp_path, "policy")


def test_a_pickle_in_disguise_is_not_unpickled(path):
    poison = array_file(np.array([print], dtype=object), allow_pickle=True)
    rewrite(path, lambda header: None, {"floats.npy": poison})
    refuses(path, "allow_pickle=False")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda header: header.update(what="a cake"), "does not say 'driftbandit policy'"),
        (lambda header: header.update(format=2, package="9.0"), "format 2, written by driftbandit 9.0; .* up to 1"),
        (lambda header: header.update(format=0), "format 0"),
        (lambda header: header.update(format="1"), "format '1'"),
        (lambda header: header.pop("format"), "format"),
        (lambda header: header.pop("policy"), "policy"),
        (lambda header: header.update(policy=[]), "TypeError"),
        (lambda header: header["policy"].pop("arrays"), "arrays"),
        (lambda header: header["policy"].update({"class": "NoSuchUCB"}), "'NoSuchUCB' is not one of driftbandit's"),
        (lambda header: header["policy"].update({"class": "os:system"}), "'os:system' is not one of driftbandit's"),
        (lambda header: header["policy"].update({"class": "Change"}), "'Change' is no class of the expected kind"),
        (lambda header: header["policy"].update({"class": "compare"}), "'compare' is no class of the expected kind"),
        (lambda header: header["policy"].update({"class": "UCB1"}), "UCB1 takes no setting"),
        (lambda header: header["policy"].update({"class": ["LinUCB"]}), "TypeError"),
        (lambda header: header["policy"]["settings"].update(colour=1), "DLinUCB takes no setting 'colour'"),
        (lambda header: header["policy"]["settings"].update(window="x"), "window: expected a whole number"),
        (lambda header: header["policy"]["settings"].pop("noise"), "missing 1 required positional argument: 'noise'"),
        (lambda header: header["policy"]["settings"].update(window=7), "ledger: expected int64 of shape"),
        (lambda header: header["policy"]["settings"].update(model={"class": "LinUCB"}), "RewardModel"),
        (lambda header: header["policy"]["settings"].update(model={"cake": 1}), "unknown kind 'cake'"),
        (lambda header: header["policy"]["settings"].update(model={"a": 1, "b": 2}), "too many values"),
        (lambda header: header["policy"]["settings"].update(explore={"float": "nan"}), "explore"),
        (lambda header: header["policy"]["arrays"].pop(0), "state: missing rounds"),
        (lambda header: header["policy"]["arrays"].append(["more", "int64", [2]]), "expected an array of shape"),
        (lambda header: header["policy"]["arrays"].append(["more", "int64", [-2]]), "expected an array of shape"),
        (lambda header: header["policy"]["arrays"].append(["more", "object", [1]]), "object"),
        (lambda header: header["policy"]["arrays"].append(["more", "int64", [0]]), "state: unknown more"),
        (lambda header: header["policy"]["arrays"][0].__setitem__(0, "circles"), "state: missing rounds"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(path, change, what):
    rewrite(path, change)
    refuses(path, what)


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"header.json": b"{"}, "JSON|Expecting"),
        ({"header.json": b"[1]"}, "does not say"),
        ({"header.json": b"\xff"}, "codec"),
        ({"header.json": b"[" * 100_000}, "Recursion"),
        ({"header.json": None}, "header.json"),
        ({"ints.npy": None}, "ints.npy"),
        ({"floats.npy": b"cake"}, "cake|magic|pickle"),
        ({"floats.npy": array_file(np.zeros((2, 2)))}, "floats.npy: expected a flat array of float64"),
        ({"floats.npy": array_file(np.zeros(3, np.float32))}, "floats.npy: expected a flat array of float64"),
        ({"floats.npy": array_file(np.zeros(3))}, "floats.npy: expected an array of shape .*, got 3 numbers"),
        ({"floats.npy": array_file(np.zeros(1000))}, "floats.npy: .* numbers too many"),
    ],
)
def test_members_that_do_not_fit_are_refused(path, members, what):
    rewrite(path, lambda header: None, members)
    refuses(path, what)


def test_numbers_that_are_not_finite_are_refused(path):
    trained().save(path)
    with zipfile.ZipFile(path) as archive:
        floats = np.load(io.BytesIO(archive.read("floats.npy")))
    floats[-1] = np.nan
    rewrite(path, lambda header: None, {"floats.npy": array_file(floats)})
    refuses(path, "expected finite values")


# Files of older formats -----------------------------------------------------------------------------------------------


def test_files_of_format_1_can_be_read():
    policy = load(OLD_FILES / "dlinucb-format-1.npz")
    assert repr(policy) == "<DLinUCB(dim=2, noise=0.1, explore=0.5, window=5) rounds=3, changes=0>"
    assert snapshot(policy) == snapshot(trained())
    scoped = load(OLD_FILES / "per-scope-format-1.npz")
    assert repr(scoped) == "<PerScope(build=LinTS(dim=2, seed=3), max_scopes=9) rounds=2, scopes=2>"
    assert scoped.scopes == (7, "ann")
    assert [scoped.choose(np.eye(2), scope=scope) for scope in (7, "ann")] == [0, 1]


def test_an_older_format_is_upgraded_step_by_step(path, monkeypatch):
    """As a format 3 would do it, in which a class is called 'kind'."""

    def to_2(header):
        policy = {**header["policy"], "kind": header["policy"]["class"]}
        del policy["class"]
        return {**header, "format": 2, "policy": policy}

    def to_3(header):
        policy = {**header["policy"], "class": header["policy"]["kind"]}
        return {**header, "format": 3, "policy": policy}

    shutil.copy(OLD_FILES / "dlinucb-format-1.npz", path)
    monkeypatch.setattr(saving, "FORMAT", 3)
    monkeypatch.setattr(saving, "UPGRADES", {2: to_3})
    refuses(path, "format 1")
    monkeypatch.setattr(saving, "UPGRADES", {1: to_2, 2: to_3})
    assert snapshot(load(path)) == snapshot(trained())


def test_a_setting_that_a_class_gained_since_takes_its_default(path):
    rewrite(path, lambda header: header["policy"]["settings"].pop("max_members"))
    assert load(path).max_members == 50


class TestReadableAttributes:
    """Values as they were given, or as the policy chose them."""

    def test_given(self):
        radius = Radius.fixed(0.5)
        policy = LinUCB(2, ridge=0.25, explore=radius)
        assert (policy.ridge, policy.explore) == (0.25, radius)
        assert UCB1(reward_range=(-1, 3), seed=8).settings() == {
            "reward_range": (-1.0, 3.0),
            "prior_mean": 0.5,
            "prior_count": 0.0,
            "max_arms": 1_000_000,
            "seed": 8,
        }
        assert DLinUCB(2, 0.1).model == "ridge"
        assert isinstance(DLinUCB(2, 0.1).reward_model, RewardModel)

    def test_chosen_by_the_policy(self):
        assert BOB(5, 0.1, horizon=10_000).settings()["block"] == 500
