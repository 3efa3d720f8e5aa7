"""Calls that every policy must refuse with a ValueError, by what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

Calls = dict[str, Callable[[], object]]
Method = Callable[..., object]

_BAD_SCOPES = (None, 1.0, float("nan"), True, 2**63, "", "x" * 101, "a\nb", [1], b"a")


def poisoned(array: NDArray[Any], value: float) -> NDArray[Any]:
    """A copy of an array whose last number is `value`."""
    bad = array.copy()
    bad.flat[-1] = value
    return bad


def bad_calls(choose: Method, learn: Method, features: NDArray[Any], arms: NDArray[Any], *, contextual: bool) -> Calls:
    """Calls of `choose` and `learn` with one wrong argument, made from a pool that is fine."""
    x, arm = features[0], int(arms[0])
    calls: Calls = {
        "learn with a reward of NaN": lambda: learn(x, float("nan"), arm),
        "learn with an infinite reward": lambda: learn(x, float("inf"), arm),
        "learn with a reward that is text": lambda: learn(x, "much", arm),
        "learn with a reward of None": lambda: learn(x, None, arm),
        "choose from an empty pool": lambda: choose(features[:0], arms[:0]),
    }
    if not contextual:
        return calls | {
            "choose with fractional ids": lambda: choose(features, arms + 0.5),
            "choose with ids in a square": lambda: choose(features, [[1, 2], [3, 4]]),
            "choose with more features than ids": lambda: choose(features, arms[1:]),
            "choose with ids beyond int64": lambda: choose(None, [2**70]),
        }
    return calls | {
        "choose with features of another width": lambda: choose(features[:, 1:], arms),
        "choose with flat features": lambda: choose(x, arms),
        "choose with a ragged pool": lambda: choose([[1.0], [1.0, 2.0]], arms),
        "choose with complex features": lambda: choose(features + 1j, arms),
        "choose with text": lambda: choose(features.astype(str), arms),
        "choose without features": lambda: choose(None, arms),
        "choose with NaN": lambda: choose(poisoned(features, np.nan), arms),
        "choose with infinity": lambda: choose(poisoned(features, np.inf), arms),
        "learn with a pool": lambda: learn(features, 1.0, arm),
        "learn with too few features": lambda: learn(x[1:], 1.0, arm),
        "learn without features": lambda: learn(None, 1.0, arm),
        "learn with NaN": lambda: learn(poisoned(x, np.nan), 1.0, arm),
        "learn with infinity": lambda: learn(poisoned(x, -np.inf), 1.0, arm),
        "learn with object features": lambda: learn(np.array([None] * len(x)), 1.0, arm),
    }


def bad_scopes(policy: Any, features: NDArray[Any], arms: NDArray[Any]) -> Calls:
    """Calls whose scope is neither a whole number nor a short text."""
    calls: Calls = {}
    for scope in _BAD_SCOPES:
        name = repr(scope)[:20]
        calls[f"choose with scope={name}"] = partial(policy.choose, features, arms, scope=scope)
        calls[f"learn with scope={name}"] = partial(policy.learn, features[0], 1.0, int(arms[0]), scope=scope)
    return calls
