"""What all kinds of policies have in common when many of them lie in flat arrays."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.batch.turns import Turns
from driftbandit.core import Change, Floats, Ints
from driftbandit.state import ChangeLog, as_arrays

Arrays = Mapping[str, NDArray[Any]]


class Loops(NamedTuple):
    """The compiled loops of a kind of policy; see `kernels.many`."""

    choose: Any
    learn: Any
    step: Any
    replay: Any


class Shelf(Turns, ABC):
    """The policies of all scopes, side by side in flat arrays.

    Subclasses hold the arrays, name the compiled loops of their kind and say how a policy's state lies in the arrays.

    Parameters
    ----------
    policy :
        The policy that every scope begins with.
    size : int
        Number of scopes.
    """

    loose_axis: ClassVar[Mapping[str, int]] = {}
    """Axes along which arrays of another state may be longer or shorter."""

    packed: ClassVar[frozenset[str]] = frozenset()
    """Names of what `arrays` makes anew at every call."""

    models: ClassVar[int] = 1
    """About how many models of LinUCB would take as long to learn a reward, or to choose."""

    draws = False
    """Whether choosing changes a policy, so that the order of a scope's choices matters."""

    loops: Loops
    """The loops that call this kind's kernels."""

    def __init__(self, policy: Any, size: int) -> None:
        self.policy = copy.deepcopy(policy)
        self.size = size
        self._first = self.policy.state()
        self.rounds = np.full(size, int(self._first["rounds"]), dtype=np.int64)
        self.logs: dict[int, ChangeLog] = {}  # of scopes in which something changed

    @property
    @abstractmethod
    def state(self) -> tuple[Any, ...]:
        """What the compiled loops take."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays with one entry per scope, by name; all that was learned but the logs of changes."""

    def patterns(self) -> dict[str, NDArray[Any]]:
        """Arrays of the types and shapes of those of `arrays`, whatever they hold."""
        return self.arrays()

    def take(self, arrays: Mapping[str, ArrayLike]) -> None:
        """Replace all that was learned by arrays that `arrays` returned; ValueError, and no change, if they do not fit.

        Arrays named ``log.<scope>.<part>`` are the logs of changes.
        """
        mine = self.patterns()
        given = {name: np.array(array, order="C") for name, array in as_arrays(arrays).items()}
        logs = {name: given.pop(name) for name in list(given) if name.startswith("log.")}
        if given.keys() != mine.keys():
            raise ValueError(f"state: expected {', '.join(mine)}, got {', '.join(given)}")
        for name, array in given.items():
            want, loose = mine[name], self.loose_axis.get(name)
            shape = tuple("n" if axis == loose else length for axis, length in enumerate(want.shape))
            got = tuple("n" if axis == loose else length for axis, length in enumerate(array.shape))
            if array.dtype != want.dtype or got != shape:
                raise ValueError(
                    f"state: {name}: expected {want.dtype} of shape {shape}, got {array.dtype} of shape {array.shape}"
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"state: {name}: expected finite values")
        if (given["rounds"] < 0).any():
            raise ValueError("state: rounds: expected counts")
        kept = self._read_logs(logs)
        self._take(given)
        self.rounds, self.logs = given["rounds"], kept

    def _read_logs(self, given: Arrays) -> dict[int, ChangeLog]:
        parts: dict[int, dict[str, NDArray[Any]]] = {}
        for name, array in given.items():
            _, number, *rest = name.split(".")
            if len(rest) != 1 or not number.isdecimal() or int(number) >= self.size:
                raise ValueError(f"state: log: expected log.SCOPE.PART with scopes below {self.size}, got {name}")
            parts.setdefault(int(number), {})[rest[0]] = array
        return {scope: self.new_log().restore(log) for scope, log in parts.items()}

    def new_log(self) -> ChangeLog:
        """A copy of the log that every scope begins with."""
        first: ChangeLog = self.policy._log
        log = ChangeLog(*first.forms, capacity=first.capacity)
        return log.restore(first.state()) if first.total else log

    def report(self, scope: int, changes: tuple[Change, ...]) -> None:
        """Write changes into the log of a scope."""
        log = self.logs.get(scope) or self.logs.setdefault(scope, self.new_log())
        for change in changes:
            log.append(change)

    def log_arrays(self) -> dict[str, NDArray[Any]]:
        """The logs of changes, as `take` takes them."""
        return {f"log.{scope}.{name}": array for scope, log in self.logs.items() for name, array in log.state().items()}

    @abstractmethod
    def _take(self, arrays: Arrays) -> None:
        """Take arrays of the right types and lengths, or raise ValueError."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def effort(self) -> float:
        """About how many nanoseconds a scope takes; see `threads.share_out`."""
        return 300.0 + self.models * float(self.policy.dim) ** 2

    def largest_square(self) -> float:
        """Largest |x|^2 that every scope can take, as far as that is known beforehand."""
        return float("inf")

    # Policies in and out -------------------------------------------------------------------------------------------

    def state_of(self, scope: int) -> dict[str, NDArray[Any]]:
        """The state of a scope's policy, as its `restore` takes it."""
        log = (self.logs.get(scope) or self.policy._log).state()
        return {
            **{f"log.{name}": array for name, array in log.items()},
            "rounds": np.array(self.rounds[scope]),
            **self._parts_of(scope),
        }

    def put_state(self, scope: int, state: Arrays) -> None:
        """Take a scope's policy from its state, which must be valid."""
        self.rounds[scope] = int(state["rounds"])
        if int(state["log.total"]) or self.policy._log.total or scope in self.logs:
            parts = {name.removeprefix("log."): state[name] for name in state if name.startswith("log.")}
            self.logs[scope] = self.new_log().restore(parts)
        self._put_parts(scope, state)

    @abstractmethod
    def _parts_of(self, scope: int) -> dict[str, NDArray[Any]]:
        """The state of a scope's policy, but for rounds and log."""

    @abstractmethod
    def _put_parts(self, scope: int, state: Arrays) -> None:
        """Put these parts of a state into the arrays."""

    def policy_of(self, scope: int) -> Any:
        """The policy of a scope, as an object of its own."""
        return copy.deepcopy(self.policy).restore(self.state_of(scope))

    # Compiled loops ------------------------------------------------------------------------------------------------

    def choose(
        self, scopes: Ints, features: Floats, offsets: Ints, pending: Ints, order: Ints, arms: Ints, part: slice
    ) -> None:
        """Write the choices for a part of `order` into `arms`."""
        self.loops.choose(self.state, scopes, features, offsets, pending, order, arms, part.start, part.stop)

    def learn(self, scopes: Ints, features: Floats, rewards: Floats, order: Ints, status: Ints, part: slice) -> None:
        """Learn the rewards of a part of `order`; see `kernels.many` for `status`."""
        self.loops.learn(self.state, scopes, features, rewards, order, status, part.start, part.stop)

    def step(
        self,
        scopes: Ints,
        played: Floats,
        rewards: Floats,
        features: Floats,
        offsets: Ints,
        order: Ints,
        status: Ints,
        arms: Ints,
        part: slice,
    ) -> None:
        """Learn the rewards of a part of `order`, of different scopes, and write what they play next into `arms`; see
        `kernels.many` for `status`.
        """
        self.loops.step(
            self.state, scopes, played, rewards, features, offsets, order, status, arms, part.start, part.stop
        )

    def replay(self, scopes: Ints, events: tuple[Any, ...], order: Ints, arms: Ints, status: Ints, part: slice) -> None:
        """Replay the events of a part of `order`; `events` are as in `kernels.many.replay_in_turn`."""
        self.loops.replay(self.state, scopes, *events, self.draws, order, arms, status, part.start, part.stop)


def repeated(array: NDArray[Any], size: int) -> NDArray[Any]:
    """`size` copies of an array, one below the other."""
    copies = np.empty((size, *array.shape), dtype=array.dtype)
    copies[:] = array
    return copies
