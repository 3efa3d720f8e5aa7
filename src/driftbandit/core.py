"""The words every other module speaks: Policy, Change, flat state and input checks.

Needs numpy only, so that ``import driftbandit`` stays light.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy import ndarray
from numpy.random import PCG64, Generator
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ChangeKind = Literal["spawned", "retired", "restarted"]

TIE = 1e-12
"""Scores that differ by at most this much tie, and the lowest index wins."""

_SUSPICIOUS = 1e3
"""Above this an absolute value may be what a model refused."""

LARGEST = 1e100
"""Rewards beyond this are refused: their squares, times anything sensible, must still be numbers."""

_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)
_WORD = (1 << 64) - 1
_LARGEST_COUNT = 1 << 62
_LARGEST_DIM = 50_000  # a model of so many features takes 10 GB


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


@dataclass(frozen=True, slots=True)
class Change:
    """What a policy detected, with the numbers that convinced it.

    Attributes
    ----------
    round : int
        How many rewards the policy had learned, this one included, when it noticed.
    kind : {'spawned', 'retired', 'restarted'}
        A member was added, a member was given up, or the whole model started afresh.
    member : int
        The member it is about, counted from 0 in order of birth; 0 where a policy has only one model.
    evidence : dict of str to float
        Why, in numbers: for dLinUCB the miss rate and the bound it crossed.
    """

    round: int
    kind: ChangeKind
    member: int
    evidence: Mapping[str, float]


class Stateful:
    """A thing whose whole memory is a handful of flat arrays.

    Subclasses name their parts: arrays, Python ints and floats, generators, or other stateful things. `state` copies
    them out under dotted names, `restore` checks a copy and takes it back. Arrays named in ``_growing`` may come back
    with another length than they have now.
    """

    _parts: ClassVar[tuple[str, ...]] = ()
    _growing: ClassVar[frozenset[str]] = frozenset()
    _derived: ClassVar[frozenset[str]] = frozenset()
    """Attributes that `_after_restore` makes anew and that need not be pickled."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far into flat float64 and int64 arrays, by name."""
        flat: dict[str, NDArray[Any]] = {}
        for name in self._parts:
            part = getattr(self, name)
            key = name.lstrip("_")
            if isinstance(part, Stateful):
                flat.update({f"{key}.{inner}": array for inner, array in part.state().items()})
            elif isinstance(part, Generator):
                flat[key] = _generator_words(part)
            elif isinstance(part, np.ndarray):
                flat[key] = part.copy()
            else:
                flat[key] = np.array(part, dtype=_INT64 if isinstance(part, int) else _FLOAT64)
        return flat

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` returned, from an object built with the same settings.

        Raises
        ------
        ValueError
            If an array is missing, unknown, of another shape or type, or inconsistent; nothing is changed then.
        """
        before = self.state()
        try:
            given = {name: np.asarray(state[name]) for name in state.keys()}  # noqa: SIM118 (an open .npz file has no items)
        except (AttributeError, ValueError) as error:
            raise ValueError(f"state: expected a mapping of names to arrays ({error})") from error
        if missing := sorted(before.keys() - given.keys()):
            raise ValueError(f"state: missing {', '.join(missing)}")
        if unknown := sorted(given.keys() - before.keys()):
            raise ValueError(f"state: unknown {', '.join(unknown)}")
        try:
            self._take(given, "")
        except ValueError:
            self._take(before, "")
            raise
        return self

    def _take(self, flat: Mapping[str, NDArray[Any]], prefix: str) -> None:
        for name in self._parts:
            part = getattr(self, name)
            key = prefix + name.lstrip("_")
            if isinstance(part, Stateful):
                part._take(flat, f"{key}.")
                continue
            array = flat[key]
            if isinstance(part, Generator):
                _check_array(key, array, _INT64, (6,), False)
                _set_generator(part, array)
            elif isinstance(part, np.ndarray):
                _check_array(key, array, part.dtype, part.shape, name in self._growing)
                setattr(self, name, np.array(array, order="C"))
            else:
                _check_array(key, array, _INT64 if isinstance(part, int) else _FLOAT64, (), False)
                if not 0 <= array.item() <= _LARGEST_COUNT:
                    raise ValueError(f"state: {key}: expected a number from 0 to {_LARGEST_COUNT}, got {array.item()}")
                setattr(self, name, array.item())
        self._after_restore()

    def _after_restore(self) -> None:
        """Rebuild what is derived from the arrays; raise ValueError if they contradict each other."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._derived}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        # Pickle and deepcopy come through here: views into arrays must point into the copies.
        self.__dict__.update(attributes)
        self._after_restore()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # two policies that share arrays would learn from each other's rewards


def _check_array(name: str, array: NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...], grows: bool) -> None:
    expected = ("n", *shape[1:]) if grows else shape
    fits = array.ndim == len(shape) and (array.shape[1:] == shape[1:] if grows else array.shape == shape)
    if array.dtype != dtype or not fits:
        raise ValueError(
            f"state: {name}: expected {dtype} of shape {expected}, got {array.dtype} of shape {array.shape}"
        )
    if dtype == _FLOAT64 and not np.isfinite(array).all():
        raise ValueError(f"state: {name}: expected finite values")


def _generator_words(generator: Generator) -> Ints:
    """Pack a PCG64 generator into six int64 words: state, increment, and the half-used 32-bit draw."""
    inner = generator.bit_generator.state
    words = [
        inner["state"]["state"] & _WORD,
        inner["state"]["state"] >> 64,
        inner["state"]["inc"] & _WORD,
        inner["state"]["inc"] >> 64,
        inner["has_uint32"],
        inner["uinteger"],
    ]
    return np.array(words, dtype=np.uint64).view(np.int64)


def _set_generator(generator: Generator, words: Ints) -> None:
    state_low, state_high, inc_low, inc_high, has_half, half = (
        int(word) for word in np.ascontiguousarray(words).view(np.uint64)
    )
    if has_half > 1 or half >= 1 << 32:
        raise ValueError("state: generator: the words do not describe a PCG64 generator")
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {
            "state": state_low | state_high << 64,
            "inc": inc_low | inc_high << 64,
        },
        "has_uint32": has_half,
        "uinteger": half,
    }


def new_generator(seed: int) -> Generator:
    """Build a policy's own generator; `seed` must be a non-negative whole number."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed: expected a non-negative int, got {seed!r}")
    return Generator(PCG64(int(seed)))


class ChangeLog(Stateful):
    """The latest changes of a policy, in two ring-shaped arrays that grow to a bounded size.

    >>> log = ChangeLog(("miss_rate",), capacity=2)
    >>> for t in range(3):
    ...     log.append(Change(t, "spawned", t, {"miss_rate": 0.5}))
    >>> [change.round for change in log], log.total
    ([1, 2], 3)
    """

    _KINDS: ClassVar[tuple[ChangeKind, ...]] = ("spawned", "retired", "restarted")
    _parts = ("total", "_facts", "_evidence")
    _growing = frozenset({"_facts", "_evidence"})

    def __init__(self, fields: tuple[str, ...], capacity: int = 1000) -> None:
        self.fields = fields
        self.capacity = capacity
        self.total = 0
        self._facts = np.zeros((0, 3), dtype=np.int64)
        self._evidence = np.zeros((0, len(fields)))

    def append(self, change: Change) -> None:
        """Add a change, over the oldest one when full."""
        row = self.total % self.capacity
        if row == len(self._facts):
            more = min(max(row, 4), self.capacity - row)
            self._facts = np.concatenate([self._facts, np.zeros((more, 3), dtype=np.int64)])
            self._evidence = np.concatenate([self._evidence, np.zeros((more, len(self.fields)))])
        self._facts[row] = change.round, self._KINDS.index(change.kind), change.member
        self._evidence[row] = [change.evidence[field] for field in self.fields]
        self.total += 1

    def __iter__(self) -> Iterator[Change]:
        for number in range(max(0, self.total - self.capacity), self.total):
            round_, kind, member = self._facts[number % self.capacity].tolist()
            evidence = self._evidence[number % self.capacity].tolist()
            yield Change(round_, self._KINDS[kind], member, dict(zip(self.fields, evidence, strict=True)))

    def _after_restore(self) -> None:
        rows = len(self._facts)
        if self.total < 0 or not min(self.total, self.capacity) <= rows == len(self._evidence) <= self.capacity:
            raise ValueError("state: changes: the log's counters are out of range")
        if not np.isin(self._facts[:, 1], range(len(self._KINDS))).all():
            raise ValueError("state: changes: a kind of change is out of range")


def as_pool(features: ArrayLike | None, dim: int) -> Floats:
    """Turn this round's candidates into a contiguous (K, dim) float64 array, or say what is wrong.

    Finite values are not checked here: the kernels see every value anyway and report what is not finite.
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
    try:
        array = np.asarray(features)
    except ValueError as error:  # a ragged list
        raise ValueError(f"features: {expected}, got rows of unequal length") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"features: expected real numbers, got dtype {array.dtype}")
    # Writeable too, although nothing is written: for a kernel a read-only array is another type, to be compiled anew.
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
    if type(reward) is not float:
        try:
            reward = math.nan if isinstance(reward, str | bytes) else float(reward)
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
            "arms, features: expected one id and one row of features an arm, got unequal lengths"
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
