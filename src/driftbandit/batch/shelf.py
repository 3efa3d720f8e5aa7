"""What all kinds of policies have in common when many of them lie in flat arrays."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Change, Floats, Ints

Arrays = Mapping[str, NDArray[Any]]


class Shelf(ABC):
    """The policies of all scopes, side by side in flat arrays.

    Subclasses hold the arrays, name the compiled loops of their kind and say how a policy's state lies in the arrays.

    Parameters
    ----------
    policy :
        The policy that every scope begins with.
    size : int
        Number of scopes.
    """

    draws = False
    """Whether choosing changes a policy, so that the order of a scope's choices matters."""

    loops: tuple[Any, Any, Any]
    """The compiled loops that choose, learn and replay; see `kernels.many`."""

    def __init__(self, policy: Any, size: int) -> None:
        self.policy = copy.deepcopy(policy)
        self.size = size
        self._first = self.policy.state()
        self.rounds = np.full(size, int(self._first["rounds"]), dtype=np.int64)
        self._logs: dict[int, dict[str, NDArray[Any]]] = {}  # of scopes in which something changed

    @property
    @abstractmethod
    def state(self) -> tuple[Any, ...]:
        """What the compiled loops take."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays with one entry per scope, by name; all that was learned but the logs of changes."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays().values())

    def widen(self, scopes: Ints) -> None:
        """Give more room to scopes that need it; they are all different."""
        raise NotImplementedError  # only for policies that may need it

    def finish(self, scopes: Ints) -> None:
        """Tidy up after rewards of these scopes were learned; most policies have nothing to do."""
        return

    def largest_square(self) -> float:
        """Largest |x|^2 that every scope can take, as far as that is known beforehand."""
        return float("inf")

    # Policies in and out -------------------------------------------------------------------------------------------

    def state_of(self, scope: int) -> dict[str, NDArray[Any]]:
        """The state of a scope's policy, as its `restore` takes it."""
        log = self._logs.get(scope)
        if log is None:
            log = {name: array for name, array in self._first.items() if name.startswith("log.")}
        return {**log, "rounds": np.array(self.rounds[scope]), **self._parts_of(scope)}

    def put_state(self, scope: int, state: Arrays) -> None:
        """Take a scope's policy from its state, which must be valid."""
        self.rounds[scope] = int(state["rounds"])
        if int(state["log.total"]) != int(self._first["log.total"]) or scope in self._logs:
            self._logs[scope] = {name: np.array(array) for name, array in state.items() if name.startswith("log.")}
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

    def review(self, scope: int) -> tuple[Change, ...]:
        """Deal with what the last reward of a scope revealed."""
        policy = self.policy_of(scope)
        changes = self._conclude(policy)
        self.put_state(scope, policy.state())
        return changes

    def _conclude(self, policy: Any) -> tuple[Change, ...]:
        """What a policy object does after such a reward."""
        raise NotImplementedError  # only for policies that detect changes

    # Compiled loops ------------------------------------------------------------------------------------------------

    def choose(
        self, scopes: Ints, features: Floats, offsets: Ints, pending: Ints, order: Ints, arms: Ints, part: slice
    ) -> None:
        """Write the choices for a part of `order` into `arms`."""
        self.loops[0](self.state, scopes, features, offsets, pending, order, arms, part.start, part.stop)

    def learn(self, scopes: Ints, features: Floats, rewards: Floats, order: Ints, status: Ints, part: slice) -> None:
        """Learn the rewards of a part of `order`; see `kernels.many` for `status`."""
        self.loops[1](self.state, scopes, features, rewards, order, status, part.start, part.stop)

    def replay(self, scopes: Ints, events: tuple[Any, ...], order: Ints, arms: Ints, status: Ints, part: slice) -> None:
        """Replay the events of a part of `order`; `events` are as in `kernels.many.replay_in_turn`."""
        self.loops[2](self.state, scopes, *events, self.draws, order, arms, status, part.start, part.stop)


def repeated(array: NDArray[Any], size: int) -> NDArray[Any]:
    """`size` copies of an array, one below the other."""
    copies = np.empty((size, *array.shape), dtype=array.dtype)
    copies[:] = array
    return copies
