"""The registry finds every policy, ours and other packages', and says the truth about it."""

import json
import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import fields, replace

import numpy as np
import pytest

from driftbandit import DAL, LinUCB, SWLinUCB
from driftbandit.policies.entry import Brief, Entry, Variants, from_brief, with_strength
from driftbandit.policies.registry import REGISTRY, USUAL, entries_of, merged, title_of

BRIEF = Brief(dim=3, noise=0.1, reward_range=(-1.0, 1.0), shifts=(30,), seed=5)


def test_todays_order_is_kept():
    """The order of `driftbandit policies` and of every table with all of them."""
    assert list(REGISTRY) == [
        *("driftucb", "dlinucb", "dlinucb-paper", "dlinucb-released", "dlinucb-auto", "denband", "adts", "linucb"),
        *("lints", "diagonal-linucb", "discounted-linucb", "sw-linucb", "restart-linucb", "logistic-ucb", "ucb-glm"),
        *("ps-linucb", "exp-discounts", "bob", "dal", "master", "meta-bandit", "gamma-restart", "wmducb1", "d-ucb"),
        *("sw-ucb", "cusum-ucb", "pht-ucb", "glr-klucb", "m-ucb", "brownian", "ucb1", "random", "oracle"),
        *("oracle-paper", "per-scope", "pooled-scopes", "club", "dyclu"),
    ]
    assert set(USUAL) <= set(REGISTRY)
    assert len({entry.place for entry in REGISTRY.values()}) == len(REGISTRY)
    assert (title_of("dlinucb"), title_of("of my own")) == ("dLinUCB", "of my own")


@pytest.mark.parametrize("name", REGISTRY)
def test_an_entry_tells_the_truth(name):
    entry = REGISTRY[name]
    read = set()

    class Watched(Brief):
        def __getattribute__(self, field):
            read.add(field)
            return super().__getattribute__(field)

    names = {field.name for field in fields(Brief)}
    policy = entry.build(Watched(**{field: getattr(BRIEF, field) for field in names}))
    assert read & names - {"dim", "seed"} == set(entry.told)
    assert entry.served == (not entry.scoped and name not in ("oracle", "oracle-paper"))
    if not entry.scoped:
        pool, arms = np.eye(3), np.arange(3)
        assert policy.choose(pool, arms) in (0, 1, 2)
        assert entry.contextual == (policy.dim is not None or name == "random")
    assert entry.page


@pytest.mark.parametrize("name", REGISTRY)
def test_an_entry_travels_between_processes(name):
    build = pickle.loads(pickle.dumps(REGISTRY[name].build))
    assert type(build(BRIEF)) is type(REGISTRY[name].build(BRIEF))
    for variants in REGISTRY[name].variants:
        for made in pickle.loads(pickle.dumps(variants.builders(REGISTRY[name]))).values():
            assert type(made(BRIEF)) is REGISTRY[name].policy


def settings_of(policy):
    """Exploration, ridge and radius of a linear policy, which follow from its settings."""
    model = policy.reward_model
    return [array.tolist() for array in vars(model).values() if isinstance(array, np.ndarray)]


def test_overrides_go_over_the_entrys_settings_and_what_follows_from_them():
    brief = replace(BRIEF, noise=0.5)
    built = settings_of(REGISTRY["sw-linucb"].build(brief, window=100, noise=0.2))
    assert built == settings_of(SWLinUCB(3, 0.2, window=100, ridge=0.1, explore=0.2))
    assert built != settings_of(SWLinUCB(3, 0.2, window=100))
    assert REGISTRY["dlinucb"].build(brief, noise="auto", window=7).noise == "auto"
    assert REGISTRY["dlinucb-auto"].build(brief, noise=0.3).noise == 0.3
    master = REGISTRY["master"].build(brief, noise=0.2, dim=4)
    assert master.rate == pytest.approx(0.2 * 4**0.5 / 2.0)
    assert settings_of(REGISTRY["dal"].build(brief, noise=0.0001)) == settings_of(
        DAL(3, 0.0001, forcing=0.3, ridge=0.1, explore=0.0001)
    )


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("linucb", {"noise": 0.1}, "unexpected keyword argument 'noise'"),
        ("sw-linucb", {"brief": 1}, "unexpected keyword argument 'brief'"),
        ("sw-linucb", {"noise": "auto"}, "noise: expected a finite number"),
        ("master", {"noise": "auto"}, "noise: expected a finite number"),
        ("master", {"noise": -1.0}, "noise: expected a finite number"),
        ("dlinucb", {"noise": "loud"}, "noise: expected a finite number"),
    ],
)
def test_wrong_overrides_are_named(name, overrides, message):
    with pytest.raises((TypeError, ValueError), match=message):
        REGISTRY[name].build(BRIEF, **overrides)


def test_variants_are_labelled_by_their_values():
    entry = REGISTRY["linucb"]
    grid = Variants("x", "X", {"explore": (0.1, 0.2), "ridge": (1.0,)})
    made = grid.builders(entry)
    assert list(made) == ["0.1 1.0", "0.2 1.0"]
    assert settings_of(made["0.2 1.0"](BRIEF)) == settings_of(LinUCB(3, explore=0.2, ridge=1.0))
    alone = Variants("x", "X", {"strength": ("noise",)}, with_strength).builders(entry)
    assert list(alone) == [""]
    assert settings_of(alone[""](BRIEF)) == settings_of(LinUCB(3, explore=0.1, ridge=3 * 0.1**2))


def made(name, **traits):
    return Entry(name=name, title=name, summary="", policy=LinUCB, settings=from_brief("dim"), **traits)


def test_entries_that_commands_could_not_name_or_explain_are_refused():
    for name in ("", "My Policy", "a,b", "a [b]"):
        with pytest.raises(ValueError, match=r"^name: expected lower-case letters"):
            made(name)
        with pytest.raises(ValueError, match=r"^name: expected lower-case letters"):
            Variants(name, "X", {})
    for told in (("pace",), "noise", ["noise"]):
        with pytest.raises(ValueError, match=r"^told: expected a tuple of some of noise, reward_range, shifts"):
            made("a", told=told)
    assert made("a", told=("noise", "shifts"), scoped=True).told_in_words == "noise, the true shifts, scope"
    assert made("a").told_in_words == "nothing"


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="already a policy by the name 'linucb'"):
        merged(REGISTRY, [made("linucb")])
    for entries in ([made("a"), made("b", variants=(Variants("a", "A", {}),))], [made("sw-tuned")]):
        with pytest.raises(ValueError, match="already a policy by the name"):
            merged(REGISTRY, entries)
    assert list(merged({}, [made("a"), made("b")])) == ["a", "b"]


def test_an_entry_point_names_entries():
    entry = made("a")
    for thing in (entry, (entry,), type("module", (), {"ENTRIES": (entry,)})):
        assert entries_of(thing) == (entry,)
    for thing in (LinUCB, json, (entry, LinUCB)):
        with pytest.raises(ValueError, match="expected an Entry, or a module with ENTRIES"):
            entries_of(thing)


STICKY = """
    import driftbandit
    from driftbandit import simulate  # all of the package can be imported here
    from driftbandit.core import as_pool, as_reward
    from driftbandit.policies.base import PolicyBase
    from driftbandit.policies.entry import Entry, Variants, from_brief


    class Sticky(PolicyBase):
        _parts = (*PolicyBase._parts, "best")

        def __init__(self, dim, *, patience=10):
            super().__init__()
            self.dim, self.patience, self.best = dim, patience, 0

        def choose(self, features, arms=None):
            pool = as_pool(features, self.dim)
            return self.rounds // self.patience % len(pool)

        def learn(self, features, reward, arm=None):
            as_reward(reward)
            self.rounds += 1
            return ()


    class Bare:
        dim = None

        def choose(self, features, arms=None):
            return 0

        def learn(self, features, reward, arm=None):
            return ()


    ENTRIES = (
        Entry(
            name="sticky",
            title="Sticky",
            summary="stays with an arm for a while",
            policy=Sticky,
            settings=from_brief("dim", patience=5),
            page="https://example.org/sticky",
            variants=(Variants("sticky-tuned", "Sticky, tuned", {"patience": (1, 20)}),),
        ),
        Entry(name="bare", title="Bare", summary="plays the first arm", policy=Bare, settings=from_brief()),
    )
"""

USE_IT = """
    import json, sys
    from typer.testing import CliRunner
    from driftbandit.cli import app

    def command(*arguments):
        done = CliRunner().invoke(app, [*arguments, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    out = {"policies": command("policies")}
    small = ["--horizon", "60", "--seeds", "2", "--processes", "2"]
    out["compare"] = command("compare", "--policies", "sticky,bare,linucb", *small, "--out", "compare")["rows"]
    names = "sticky,sticky-tuned,linucb"
    small = ["--scenario", "worlds:TINY", "--seeds", "1", "--tuning", "1", "--processes", "2"]
    out["arena"] = command("arena", "--policies", names, *small, "--out", "arena")

    from driftbandit.serving.engine.engine import Engine
    from driftbandit.serving.engine.messages import Arm, CatalogueRequest, DecisionRequest, RewardRequest
    from driftbandit.serving.loop.config import LoopConfig
    from driftbandit.serving.loop.events import Refused
    from driftbandit.serving.stores.sqlite import SQLiteStore

    engine = Engine(SQLiteStore("loops.db"), lambda: 1_700_000_000_000)
    config = LoopConfig(policy="sticky", settings={"patience": 1}, dim=2, floor=0.0, learn="arrival")
    engine.configure("news", config, None)
    engine.put_arms("news", CatalogueRequest([Arm("a", [1.0, 0.0]), Arm("b", [0.0, 1.0])]))
    engine.commit()
    out["served"] = []
    for number in range(4):
        engine.look_up("news", [str(number)])
        _, answer = engine.decide("news", DecisionRequest(str(number), None, None))
        engine.reward("news", str(number), RewardRequest(1.0))
        engine.commit()
        out["served"].append(answer.arm)
    try:
        engine.configure("bare", LoopConfig(policy="bare"), None)
    except Refused as refusal:
        out["refused"] = str(refusal)
    json.dump(out, sys.stdout)
"""


@pytest.fixture
def installed(tmp_path):
    """Other packages as an installer would leave them: one with policies, and some that are broken."""

    def install(name, entry_points, **modules):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{key} = {value}" for key, value in entry_points.items()]
        (folder / "entry_points.txt").write_text("\n".join(["[driftbandit.policies]", *lines, ""]))
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(textwrap.dedent(text))

    install("sticky", {"sticky": "sticky"}, sticky=STICKY)
    return install


def run(folder, code):
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_policy_of_another_package_is_played_and_served(installed, tmp_path):
    pytest.importorskip("apsw", reason="needs driftbandit[serve]")
    (tmp_path / "worlds.py").write_text("from driftbandit import World\nTINY = World(horizon=60, period=30)\n")
    done = run(tmp_path, USE_IT)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    found = json.loads(done.stdout)
    assert list(found["policies"])[:-2] == list(REGISTRY), "others come last"
    assert found["policies"]["sticky"] == {
        "title": "Sticky",
        "summary": "stays with an arm for a while",
        "told": "nothing",
        "page": "https://example.org/sticky",
    }
    assert [row["policy"] for row in found["compare"]] == ["sticky", "bare", "linucb"]
    assert {score["policy"] for score in found["arena"]["scores"]} == {"sticky", "sticky-tuned", "linucb"}
    assert [line["policy"] for line in found["arena"]["tuned"]] == ["sticky-tuned"]
    assert found["served"] == ["a", "b", "a", "b"], "the settings of the loop went over the entry's"
    assert found["refused"] == "policy: 'bare' cannot be served: it does not derive from PolicyBase"


def test_code_of_another_package_counts_when_a_result_is_looked_up(installed, tmp_path):
    play = """
        from driftbandit import World, compare
        from driftbandit.evaluation.compare import trace_path
        settings = {"w": World(horizon=40)}
        compare(["sticky", "linucb"], settings, [0], out="runs", processes=1)
        print([trace_path("runs", "w", name, 0).stat().st_mtime_ns for name in ("sticky", "linucb")])
    """
    first, second = (json.loads(run(tmp_path, play).stdout) for _ in range(2))
    assert second == first
    with (tmp_path / "sticky.py").open("a") as file:
        file.write("# edited\n")
    third = json.loads(run(tmp_path, play).stdout)
    assert third[0] != first[0]
    assert third[1] == first[1]


def test_a_broken_package_is_named_and_stops_nobody(installed, tmp_path):
    installed("absent", {"absent": "not_there"})
    installed("empty", {"empty": "empty"}, empty="x = 1")
    installed("failing", {"failing": "failing"}, failing="raise RuntimeError('no luck')")
    twin = "from driftbandit import *\nfrom sticky import ENTRIES\nMINE = ENTRIES[0]"
    installed("twin", {"twin": "twin:MINE"}, twin=twin)
    done = run(tmp_path, "from driftbandit.policies.registry import REGISTRY; print(*REGISTRY)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*REGISTRY, "bare", "sticky"]
    for message in (
        "the entry point 'absent' (not_there) is left out: ModuleNotFoundError: No module named 'not_there'",
        "the entry point 'empty' (empty) is left out: ValueError: expected an Entry, or a module with ENTRIES",
        "the entry point 'failing' (failing) is left out: RuntimeError: no luck",
        "the entry point 'twin' (twin:MINE) is left out: ValueError: there is already a policy by the name 'sticky'",
    ):
        assert message in done.stderr


def test_a_module_may_look_policies_up_while_the_registry_imports_it(installed, tmp_path):
    text = """
        from dataclasses import replace
        from driftbandit.policies.registry import REGISTRY
        ENTRIES = (replace(REGISTRY["linucb"], name="my-linucb", place=5, variants=()),)
    """
    installed("mine", {"mine": "mine"}, mine=text)
    done = run(tmp_path, "from driftbandit.policies.registry import REGISTRY; print(*REGISTRY)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["my-linucb", "driftucb"]
    assert "Warning" not in done.stderr
