"""What every other module builds on: Policy, ScopedPolicy, Change, and checks of users' input.

Needs numpy only, so that ``import driftbandit`` stays light.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy import ndarray
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ChangeKind = Literal["spawned", "retired", "restarted"]

Scope = int | str
"""The owner of a model, such as a user: a whole number or a short text. 7 and '7' are different scopes."""

TIE = 1e-12
"""Scores that differ by at most this (in DriftUCB, by this share of the highest) tie, and the lowest index wins."""

_SUSPICIOUS = 1e3
"""An absolute value above this may be the reason why a model refused features."""

LARGEST = 1e100
"""Rewards beyond this size are refused: their squares, times anything sensible, must still be finite."""

_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)
_WORD = (1 << 64) - 1
_FARTHEST = 1e50  # largest weight that can be believed: the square of its square is still a number
_SYMMETRIC = 1e-6  # by how much entries that should be equal may differ, as a share of the largest
_LARGEST_DIM = 50_000  # a model with this many features takes 10 GB
_LONGEST_SCOPE = 100


@runtime_checkable
class Policy(Protocol):
    """What every policy can do.

    `choose` gets this round's pool and answers with an index into it; `learn` gets the features (or the id) of an arm
    that was played and its reward, and answers with the changes that this reward revealed. Nothing is kept between
    the two calls, so rewards may come late, out of order, or never. One policy object serves one thread at a time.
    """

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play among this round's pool."""
        ...

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm that was played; returns the changes it revealed."""
        ...


class ScopedPolicy(Protocol):
    """What a policy can do if its calls say which scope, such as a user, they are about.

    As `Policy`, with one more keyword in both calls. The attribute `is_scoped`, which is True, tells every caller to
    pass `scope`.
    """

    is_scoped: ClassVar[bool]

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, scope: Scope) -> int:
        """Index of the arm to play among this round's pool, for `scope`."""
        ...

    def learn(
        self, features: ArrayLike | None, reward: float, arm: int | None = None, *, scope: Scope
    ) -> tuple[Change, ...]:
        """Learn the reward that `scope` gave to an arm that was played; returns the changes it revealed."""
        ...


def takes_scope(policy: Any) -> TypeGuard[ScopedPolicy]:
    """Whether `choose` and `learn` of this policy must be told a scope; a class says so by ``is_scoped = True``."""
    return getattr(policy, "is_scoped", False) is True


@dataclass(frozen=True, slots=True)
class Change:
    """What a policy detected, with the numbers that convinced it.

    Attributes
    ----------
    round : int
        How many rewards the policy had learned when it noticed, the latest included.
    kind : {'spawned', 'retired', 'restarted'}
        A member was added, a member was given up, or the whole model started afresh.
    member : int
        The member that changed, counted from 0 in order of birth; 0 if the policy has only one model.
    evidence : dict of str to float
        Why, in numbers: for dLinUCB the miss rate and the bound it crossed.
    """

    round: int
    kind: ChangeKind
    member: int
    evidence: Mapping[str, float]


def as_pool(features: ArrayLike | None, dim: int) -> Floats:
    """Turn this round's candidates into a contiguous (K, dim) float64 array, or say what is wrong.

    Whether values are finite is not checked here: the kernels see every value anyway and report what is not finite.
    """
    if type(features) is ndarray and features.dtype is _FLOAT64 and features.flags.carray:
        shape = features.shape
        if len(shape) == 2 and shape[1] == dim and shape[0]:
            return features
    array = _as_floats(features, f"expected shape (K, {dim})")
    if array.ndim != 2 or array.shape[1] != dim:
        raise ValueError(f"features: expected shape (K, {dim}), got {array.shape}")
    if not len(array):
        raise ValueError("features: expected at least one candidate, got an empty pool")
    return array


def as_example(features: ArrayLike | None, dim: int) -> Floats:
    """Turn one arm's features into a contiguous (dim,) float64 array, or say what is wrong."""
    if type(features) is ndarray and features.dtype is _FLOAT64 and features.shape == (dim,) and features.flags.carray:
        return features
    array = _as_floats(features, f"expected shape ({dim},)")
    if array.shape != (dim,):
        raise ValueError(f"features: expected shape ({dim},), got {array.shape}")
    return array


def _as_floats(features: ArrayLike | None, expected: str) -> Floats:
    if features is None:
        raise ValueError(f"features: {expected}, got None")
    if hasattr(features, "toarray"):  # SciPy's
        raise ValueError(f"features: {expected}, got a sparse array; pass its toarray(), or use DiagonalLinUCB")
    try:
        array = np.asarray(features)
    except ValueError as error:  # a ragged list
        raise ValueError(f"features: {expected}, got rows of unequal length") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"features: expected real numbers, got dtype {array.dtype}")
    # Writeable too, although nothing is written: for read-only arrays, another type, kernels are compiled anew.
    return np.require(array, np.float64, ["C", "A", "W"])


def not_finite(features: Floats) -> ValueError:
    """Explain why a kernel refused these features."""
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        place = where[0] if features.ndim == 1 else where
        return ValueError(f"features: expected finite values, got {features[where]} at {place}")
    largest = float(np.abs(features).max())
    if largest > _SUSPICIOUS:
        return ValueError(
            f"features: an absolute value of {largest:g} is too large beside the ridge (|x|^2 above 1e14 times it); "
            "scale the features down"
        )
    return ValueError("features: the model's prediction or width for them is not finite")


def as_reward(reward: float, low: float = -LARGEST, high: float = LARGEST) -> float:
    """Return the reward as a float inside [low, high], or raise ValueError."""
    if isinstance(reward, str | bytes):
        raise ValueError(f"reward: expected a number, got {reward!r}")
    if type(reward) is not float:
        try:
            reward = float(reward)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"reward: expected a number, got {reward!r}") from error
    if low <= reward <= high:
        return reward
    expected = (
        f"a finite number of at most {LARGEST:g} in size" if low == -LARGEST else f"a number in [{low:g}, {high:g}]"
    )
    raise ValueError(f"reward: expected {expected}, got {reward}")


def as_arms(arms: ArrayLike | None, features: ArrayLike | None = None) -> Ints:
    """Turn this round's arm ids into a contiguous (K,) int64 array, or say what is wrong."""
    if arms is None:
        raise ValueError("arms: a context-free policy needs the ids of this round's pool, got None")
    try:
        array = np.asarray(arms)
        rows = None if features is None else np.asarray(features).shape[:1]
    except ValueError as error:  # a ragged list
        raise ValueError(
            "arms, features: expected one id and one row of features per arm, got unequal lengths"
        ) from error
    if array.ndim != 1:
        raise ValueError(f"arms: expected shape (K,), got {array.shape}")
    if not len(array):
        raise ValueError("arms: expected at least one id, got an empty pool")
    if array.dtype.kind not in "iu" or (array.dtype == np.uint64 and array.max() > _WORD >> 1):
        raise ValueError(f"arms: expected whole numbers that fit int64, got dtype {array.dtype}")
    if rows is not None and rows != array.shape:
        raise ValueError(f"features: expected one row for each of {len(array)} arms, got {rows[0] if rows else 0}")
    return np.ascontiguousarray(array, dtype=np.int64)


def as_arm(arm: int | None) -> int:
    """Return the id of a played arm as an int that fits int64, or raise ValueError."""
    if isinstance(arm, bool) or not isinstance(arm, int | np.integer):
        raise ValueError(f"arm: a context-free policy needs the id of the played arm, got {arm!r}")
    if not -(1 << 63) <= arm < 1 << 63:
        raise ValueError(f"arm: expected an id that fits int64, got {arm}")
    return int(arm)


def unknown_name(what: str, given: object, known: Iterable[str]) -> str:
    """Describe unknown names: which known name each may have meant, and all known names.

    >>> unknown_name("policy", "LinUBC", ["linucb", "adts"])
    "policy: unknown 'LinUBC' (did you mean 'linucb'?); expected one of linucb, adts"
    >>> unknown_name("policies", ["nobody", "adst"], ["linucb", "adts"])
    "policies: unknown 'nobody', 'adst' (did you mean 'adts'?); expected some of linucb, adts"
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    names = [str(name)[:100] for name in given] if isinstance(given, list) else [str(given)[:100]]
    known = list(known)
    meant = [get_close_matches(name.lower(), known, n=1) for name in names]
    hints = [
        f"{name!r} (did you mean {close[0]!r}?)" if close else repr(name)
        for name, close in zip(names, meant, strict=True)
    ]
    count = "one" if len(names) == 1 else "some"
    return f"{what}: unknown {', '.join(hints)}; expected {count} of {', '.join(known)}"


def as_scope(scope: Scope) -> Scope:
    """Return the scope as an int that fits int64 or a short printable str, or raise ValueError.

    >>> import numpy as np
    >>> as_scope(np.int32(7)), as_scope("ann")
    (7, 'ann')
    """
    if isinstance(scope, int | np.integer) and not isinstance(scope, bool) and -(1 << 63) <= scope < 1 << 63:
        return int(scope)
    if isinstance(scope, str) and 0 < len(scope) <= _LONGEST_SCOPE and scope.isprintable():
        return str(scope)
    got = repr(scope)
    raise ValueError(
        f"scope: expected a whole number that fits int64 or a printable text of at most {_LONGEST_SCOPE} characters, "
        f"got {got if len(got) <= _LONGEST_SCOPE else got[:_LONGEST_SCOPE] + '...'}"
    )


def as_belief(mean: ArrayLike, spread: ArrayLike, noise: float, dim: int) -> tuple[Floats, Floats, float]:
    """Return a prior as arrays of shape (dim,) and (dim, dim) and a positive number, or raise ValueError.

    Whether `spread` is positive definite is not checked here.
    """
    arrays = []
    for name, given, shape, most in (("mean", mean, (dim,), _FARTHEST), ("spread", spread, (dim, dim), _FARTHEST**2)):
        try:
            array = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name}: expected real numbers of shape {shape} ({error})") from error
        if array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"{name}: expected finite numbers of shape {shape}, got {given!r}")
        if np.abs(array).max() > most:
            raise ValueError(f"{name}: expected numbers of at most {most:g} in size, got {given!r}")
        arrays.append(array)
    if np.abs(arrays[1] - arrays[1].T).max() > _SYMMETRIC * np.abs(arrays[1]).max():
        raise ValueError(f"spread: expected a symmetric matrix, got {spread!r}")
    noise, least = as_number("noise", noise, 0.0, open_low=True), max(float(np.abs(arrays[1]).max()), 1.0)
    if not least <= _FARTHEST**2 * noise:
        raise ValueError(f"noise: expected at least {least / _FARTHEST**2:g} beside this spread, got {noise}")
    return arrays[0], arrays[1], noise


def as_dim(dim: int) -> int:
    """Return the feature dimension, or raise ValueError."""
    if as_count("dim", dim) > _LARGEST_DIM:
        raise ValueError(f"dim: expected at most {_LARGEST_DIM:,} features, got {dim}")
    return int(dim)


def as_count(name: str, value: int, least: int = 1) -> int:
    """Return `value` if it is a whole number of at least `least`, or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")
    return int(value)


def as_number(
    name: str, value: float, low: float = -LARGEST, high: float = LARGEST, *, open_low: bool = False
) -> float:
    """Return `value` as a float in [low, high] (or (low, high]), or raise ValueError."""
    ends = f"a number in {'(' if open_low else '['}{low:g}, {high:g}]"
    if high == LARGEST:
        ends = f"a finite number {'above' if open_low else 'of at least'} {low:g}"
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name}: expected {ends}, got {value!r}") from error
    if not math.isfinite(number) or not low <= number <= high or (open_low and number == low):
        raise ValueError(f"{name}: expected {ends}, got {value!r}")
    return number
