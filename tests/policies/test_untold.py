"""Policies by name for a world that nobody described, and back."""

import pytest

from driftbandit import DLinUCB, LinUCB, PerScope
from driftbandit.policies.registry import REGISTRY
from driftbandit.policies.untold import build_untold, different_settings, name_and_settings

SERVED = [name for name, entry in REGISTRY.items() if entry.served]


@pytest.mark.parametrize("name", SERVED)
def test_a_policys_name_and_settings_make_it_again(name):
    policy = build_untold(name, 4, seed=3)
    found, settings = name_and_settings(policy)
    again = build_untold(found, 4, settings)
    assert type(again) is type(policy)
    assert different_settings(policy, again) == {}
    assert settings in ({}, {"seed": 3})


def test_the_name_that_needs_the_fewest_settings_is_found():
    released = build_untold("dlinucb-released", 4, {"window": 77})
    assert name_and_settings(released) == ("dlinucb-released", {"window": 77})
    assert name_and_settings(DLinUCB(4, noise=0.2))[1]["noise"] == 0.2


def test_policies_that_the_service_cannot_make_are_named():
    with pytest.raises(ValueError, match=r"PerScope.*not one that the service can make"):
        name_and_settings(PerScope(LinUCB(3)))
    with pytest.raises(ValueError, match="its memory cannot be written as a number or a text"):
        name_and_settings(build_untold("driftucb", 3, {"memory": (10.0, 100.0)}))


def test_bad_names_and_settings_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"policy: .*linucb"):
        build_untold("linucbb", 3)
    with pytest.raises(ValueError, match=r"settings: .*nonsense"):
        build_untold("linucb", 3, {"nonsense": 1})
    with pytest.raises(ValueError, match="ridge"):
        build_untold("linucb", 3, {"ridge": -1.0})


def test_equal_settings_compare_equal_however_they_are_held():
    first, second = PerScope(LinUCB(3)), PerScope(LinUCB(3))
    assert different_settings(first, second) == {}
    assert "build" in different_settings(first, PerScope(LinUCB(3, ridge=0.7)))
