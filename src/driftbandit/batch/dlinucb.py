"""dLinUCB for many scopes: members, ledgers and counters of all scopes, with room for as many members as any has."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from driftbandit.batch.shelf import Arrays, Loops, Shelf, repeated
from driftbandit.core import Change
from driftbandit.kernels import many, windows
from driftbandit.kernels.ridge import LARGEST_SQUARE
from driftbandit.models.ridge import RidgeModel
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB

_COUNTERS = ("count", "leader", "spawned")


class DLinUCBShelf(Shelf):
    """Banks and ledgers of dLinUCB, for ridge members and a noise that is given."""

    loose_axis: ClassVar[dict[str, int]] = {"banks": 1, "ledgers": 1}
    models = 2
    loops = Loops(many.choose_dlinucb, many.learn_dlinucb, many.step_dlinucb, many.replay_dlinucb)

    def __init__(self, policy: DLinUCB, size: int) -> None:
        model = policy.reward_model
        if type(model) is not RidgeModel or not policy.learns_many:
            raise ValueError("policy: only a dLinUCB with ridge members and a noise that is given; use PerScope")
        super().__init__(policy, size)
        scoring = model.scoring(policy.leading_row)
        assert scoring is not None  # a ridge model scores with plain settings
        self._act, self._test, self._rules = scoring, model._test, policy._rules
        self._banks = repeated(self._first["bank"], size)
        self._ledgers = repeated(self._first["ledger"], size)
        self._rooms = np.full(size, len(self._first["bank"]), dtype=np.int64)  # as many as a policy object would have
        self._counters = {name: np.full(size, int(self._first[name]), dtype=np.int64) for name in _COUNTERS}

    @property
    def state(self) -> tuple[Any, ...]:
        counts, leaders = self._counters["count"], self._counters["leader"]
        return self._act, self._test, self._banks, self._ledgers, self._rules, counts, leaders, self.rounds

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "banks": self._banks,
            "ledgers": self._ledgers,
            "rooms": self._rooms,
            "rounds": self.rounds,
            **self._counters,
        }

    def _take(self, arrays: Arrays) -> None:
        banks, ledgers, rooms = arrays["banks"], arrays["ledgers"], arrays["rooms"]
        counts, leaders = arrays["count"], arrays["leader"]
        fits = banks.shape[1] == ledgers.shape[1] and (rooms <= banks.shape[1]).all()
        if not (fits and ((leaders >= 0) & (leaders < counts) & (counts <= rooms)).all()):
            raise ValueError("state: banks, ledgers, rooms, count and leader contradict each other")
        if (ledgers[:, :, windows.AGE] < 0).any() or (counts > self.policy.max_members).any():
            raise ValueError("state: ledgers: ages must not be negative, nor members more than max_members")
        if (arrays["spawned"] < 0).any():
            raise ValueError("state: spawned: expected counts")
        self._banks, self._ledgers, self._rooms = banks, ledgers, rooms
        self._counters = {name: arrays[name] for name in _COUNTERS}

    def largest_square(self) -> float:
        return LARGEST_SQUARE * float(self.policy.ridge)

    def _parts_of(self, scope: int) -> dict[str, NDArray[Any]]:
        room = self._rooms[scope]
        return {
            "bank": self._banks[scope, :room].copy(),
            "ledger": self._ledgers[scope, :room].copy(),
            "generator": self._first["generator"],
            **{name: np.array(counter[scope]) for name, counter in self._counters.items()},
        }

    def _put_parts(self, scope: int, state: Arrays) -> None:
        room = len(state["bank"])
        if (more := room - self._banks.shape[1]) > 0:
            wider = ((0, 0), (0, more), (0, 0))
            self._banks, self._ledgers = np.pad(self._banks, wider), np.pad(self._ledgers, wider)
        self._rooms[scope] = room
        self._banks[scope, :room], self._ledgers[scope, :room] = state["bank"], state["ledger"]
        for name, counter in self._counters.items():
            counter[scope] = int(state[name])

    def review(self, scope: int) -> tuple[Change, ...]:
        policy = self.policy_of(scope)
        changes: tuple[Change, ...] = policy._review()
        self.put_state(scope, policy.state())
        return changes
