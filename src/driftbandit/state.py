"""Memory as a handful of flat arrays, so that all policies are saved, copied and restored in one way."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Change, ChangeKind, Ints

_FLOAT64 = np.dtype(np.float64)
_INT64 = np.dtype(np.int64)
_WORD = (1 << 64) - 1
_LARGEST_COUNT = 1 << 62


class Stateful:
    """A thing whose whole memory is a handful of flat arrays.

    Subclasses name their parts: arrays, Python ints and floats, generators, or other stateful things. `state` copies
    them out under dotted names, `restore` checks a copy and takes it back. A part is stored under its attribute's name
    without the leading underscore, unless ``_stored_as`` gives it another. Arrays named in ``_growing`` may come back
    with another length than they have now.

    Examples
    --------
    >>> class Counter(Stateful):
    ...     _parts = ("_seen",)
    ...     _stored_as = {"_seen": "count"}  # what it was called when the first states were stored
    ...     _seen = 3
    >>> Counter().state()
    {'count': array(3)}
    """

    _parts: ClassVar[tuple[str, ...]] = ()
    _stored_as: ClassVar[Mapping[str, str]] = {}
    """Names in the state for parts whose attributes were renamed, so that old states still fit."""
    _growing: ClassVar[frozenset[str]] = frozenset()
    _derived: ClassVar[frozenset[str]] = frozenset()
    """Attributes that `_after_restore` rebuilds and that need not be pickled."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far into flat float64 and int64 arrays, by name."""
        flat: dict[str, NDArray[Any]] = {}
        for name in self._parts:
            part = getattr(self, name)
            key = self._stored_name(name)
            if isinstance(part, Stateful):
                flat.update({f"{key}.{inner}": array for inner, array in part.state().items()})
            elif isinstance(part, Generator):
                flat[key] = generator_words(part)
            elif isinstance(part, np.ndarray):
                flat[key] = part.copy()
            else:
                flat[key] = np.array(part, dtype=_INT64 if isinstance(part, int) else _FLOAT64)
        return flat

    def _stored_name(self, part: str) -> str:
        return self._stored_as.get(part) or part.lstrip("_")

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` returned, from an object built with the same settings.

        Raises
        ------
        ValueError
            If an array is missing, unknown, of another shape or type, or inconsistent; then nothing is changed.
        """
        before = self.state()
        given = as_arrays(state)
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
            key = prefix + self._stored_name(name)
            if isinstance(part, Stateful):
                part._take(flat, f"{key}.")
                continue
            array = flat[key]
            if isinstance(part, Generator):
                check_array(key, array, _INT64, (6,))
                set_generator(part, array)
            elif isinstance(part, np.ndarray):
                check_array(key, array, part.dtype, part.shape, name in self._growing)
                setattr(self, name, np.array(array, order="C"))
            else:
                check_array(key, array, _INT64 if isinstance(part, int) else _FLOAT64, ())
                if not 0 <= array.item() <= _LARGEST_COUNT:
                    raise ValueError(f"state: {key}: expected a number from 0 to {_LARGEST_COUNT}, got {array.item()}")
                setattr(self, name, array.item())
        self._after_restore()

    def _after_restore(self) -> None:
        """Rebuild what is derived from the arrays; raise ValueError if they contradict each other."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._derived}

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        # Pickle and deepcopy call this: views into arrays must point into the copies.
        self.__dict__.update(attributes)
        self._after_restore()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # two policies that share arrays would learn from each other's rewards


def as_arrays(state: Mapping[str, ArrayLike]) -> dict[str, NDArray[Any]]:
    """The arrays of a state by name, or ValueError if it is no mapping of names to arrays."""
    try:
        given = {name: np.asarray(state[name]) for name in state.keys()}  # noqa: SIM118 (an open .npz file has no items)
    except (AttributeError, ValueError) as error:
        raise ValueError(f"state: expected a mapping of names to arrays ({error})") from error
    if strange := [name for name in given if not isinstance(name, str)]:
        raise ValueError(f"state: expected a mapping of names to arrays, got {strange[0]!r} among the names")
    return given


def check_array(
    name: str, array: NDArray[Any], dtype: np.dtype[Any], shape: tuple[int, ...], grows: bool = False
) -> None:
    """Raise ValueError unless an array of a state has this type and shape, if it `grows` but for its first axis."""
    expected = ("n", *shape[1:]) if grows else shape
    fits = array.ndim == len(shape) and (array.shape[1:] == shape[1:] if grows else array.shape == shape)
    if array.dtype != dtype or not fits:
        raise ValueError(
            f"state: {name}: expected {dtype} of shape {expected}, got {array.dtype} of shape {array.shape}"
        )
    if dtype == _FLOAT64 and not np.isfinite(array).all():
        raise ValueError(f"state: {name}: expected finite values")


def generator_words(generator: Generator) -> Ints:
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


def check_words(words: Ints) -> None:
    """Raise ValueError unless `generator_words` may have packed these."""
    if not 0 <= words[4] <= 1 or not 0 <= words[5] < 1 << 32:
        raise ValueError("state: generator: the words do not describe a PCG64 generator")


def set_generator(generator: Generator, words: Ints) -> None:
    """Take back what `generator_words` packed, or raise ValueError."""
    check_words(words)
    state_low, state_high, inc_low, inc_high, has_half, half = (
        int(word) for word in np.ascontiguousarray(words).view(np.uint64)
    )
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

    `forms` are the names of a change's numbers: usually one tuple, or several of the same length for a policy whose
    changes have different reasons.

    >>> log = ChangeLog(("miss_rate",), capacity=2)
    >>> for t in range(3):
    ...     log.append(Change(t, "spawned", t, {"miss_rate": 0.5}))
    >>> [change.round for change in log], log.total
    ([1, 2], 3)
    """

    _KINDS: ClassVar[tuple[ChangeKind, ...]] = ("spawned", "retired", "restarted")
    _parts = ("total", "_facts", "_evidence")
    _growing = frozenset({"_facts", "_evidence"})

    def __init__(self, *forms: tuple[str, ...], capacity: int = 1000) -> None:
        self.forms = forms
        self.capacity = capacity
        self.total = 0
        self._facts = np.zeros((0, 3), dtype=np.int64)
        self._evidence = np.zeros((0, len(forms[0])))

    def append(self, change: Change) -> None:
        """Add a change; when full, overwrite the oldest one."""
        row = self.total % self.capacity
        if row == len(self._facts):
            more = min(max(row, 4), self.capacity - row)
            self._facts = np.concatenate([self._facts, np.zeros((more, 3), dtype=np.int64)])
            self._evidence = np.concatenate([self._evidence, np.zeros((more, self._evidence.shape[1]))])
        form = next(n for n, names in enumerate(self.forms) if change.evidence.keys() >= set(names))
        kind = len(self._KINDS) * form + self._KINDS.index(change.kind)
        self._facts[row] = change.round, kind, change.member
        self._evidence[row] = [change.evidence[name] for name in self.forms[form]]
        self.total += 1

    def __iter__(self) -> Iterator[Change]:
        for number in range(max(0, self.total - self.capacity), self.total):
            round_, kind, member = self._facts[number % self.capacity].tolist()
            evidence = self._evidence[number % self.capacity].tolist()
            form, kind = divmod(kind, len(self._KINDS))
            yield Change(round_, self._KINDS[kind], member, dict(zip(self.forms[form], evidence, strict=True)))

    def _after_restore(self) -> None:
        rows = len(self._facts)
        if self.total < 0 or not min(self.total, self.capacity) <= rows == len(self._evidence) <= self.capacity:
            raise ValueError("state: changes: the log's counters are out of range")
        if not np.isin(self._facts[:, 1], range(len(self._KINDS) * len(self.forms))).all():
            raise ValueError("state: changes: a kind of change is out of range")
