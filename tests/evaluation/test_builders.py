"""Policies by the names that people type."""

import sys

import pytest

from driftbandit import LinUCB, World
from driftbandit.evaluation.builders import build_policies, builders_of, imported, own_builders, typed_name
from driftbandit.policies.registry import REGISTRY, Brief

BRIEF = Brief(dim=3, noise=0.2, reward_range=(-1.0, 2.0), seed=5)


def eager(brief):
    return LinUCB(brief.dim, explore=brief.noise)


def no_policy(brief):
    return "nothing"


def of_a_number(dim):
    return LinUCB(dim)


def fussy(brief, settings):
    raise AssertionError("called without its settings")


HERE = __name__


def test_names_keep_their_order_and_paths_get_names():
    found = builders_of(["linucb", f"{HERE}:eager", " DriftUCB ".strip(), f"again={HERE}:eager"])
    assert list(found) == ["linucb", "eager", "driftucb", "again"]
    assert found["eager"] is found["again"] is eager
    assert found["linucb"] == REGISTRY["linucb"].build


def test_policies_are_built_for_the_brief_with_seeds_of_their_own():
    made = build_policies(builders_of([f"{HERE}:eager", "lints", "linucb"]), BRIEF)
    assert made["eager"].explore == 0.2
    assert made["lints"].dim == 3
    seen = []
    for _ in range(2):
        build_policies({name: lambda brief: seen.append(brief.seed) or LinUCB(1) for name in ("a", "b")}, BRIEF)
    assert seen[:2] == seen[2:], "the same anywhere"
    assert len({*seen, 5}) == 3


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["linubc"], r"policies: unknown 'linubc' \(did you mean 'linucb'\?\).* or 'package.module:function'"),
        (["oracle"], "'oracle' is told the true shifts, which a log does not know"),
        ([], "policies: expected at least one"),
        (["nowhere:build"], "'nowhere:build' cannot be imported"),
        (["driftbandit:Nothing"], "cannot be imported"),
        (["..:build"], "cannot be imported"),
        (["mine="], "unknown 'mine='"),
        (["=driftbandit:LinUCB"], "policy: expected 'package.module:function' or"),
        (["driftbandit:"], "policy: expected 'package.module:function' or"),
        (["driftbandit:__version__"], "no function that builds a policy"),
        (["linucb=driftbandit:LinTS"], "there is already one called 'linucb'; call yours NAME=driftbandit:LinTS"),
        (["driftbandit:LinTS", "driftbandit:LinTS"], "there is already one called 'LinTS'"),
    ],
)
def test_wrong_names_are_explained(names, message):
    with pytest.raises(ValueError, match=message):
        builders_of(names)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_policy", "the builder of 'no_policy' made 'nothing', which is no policy"),
        ("of_a_number", "the builder of 'of_a_number' failed on a Brief: dim: "),
        ("fussy", "the builder of 'fussy' failed on a Brief: .*settings"),
    ],
)
def test_builders_that_do_not_build_are_named(name, message):
    with pytest.raises(ValueError, match=message):
        build_policies(builders_of([f"{HERE}:{name}"]), BRIEF)


def test_names_that_others_have_are_not_free():
    with pytest.raises(ValueError, match="already one called 'eager'"):
        own_builders([f"{HERE}:eager"], taken=["eager"])
    assert typed_name("a = b:c") == "a"


def test_imported_refuses_what_is_not_there(tmp_path, monkeypatch):
    assert imported("driftbandit:World") is World
    (tmp_path / "broken_module.py").write_text("def build(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"cannot be imported \(.*broken_module.py, line 1"):
        imported("broken_module:build")
    assert "broken_module" not in sys.modules
