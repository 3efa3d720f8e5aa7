"""DriftUCB for many scopes: memos and banks of all scopes, and the first rewards of the young ones."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from driftbandit.batch.first_rewards import FirstRewards
from driftbandit.batch.shelf import Arrays, Loops, Shelf, repeated
from driftbandit.core import Change, Floats, Ints
from driftbandit.kernels import many
from driftbandit.kernels.driftucb import compact, frames
from driftbandit.kernels.driftucb.scales import ALARM_AGE, ALARM_EVIDENCE, COLUMNS, TRIED
from driftbandit.kernels.vector_units.vectors import aligned_zeros
from driftbandit.policies.choosing_memory.driftucb import DriftUCB, alarm_of, check_memos, room_for


class DriftUCBShelf(Shelf):
    """Memos and banks of DriftUCB, and the first rewards of scopes that still try frames."""

    loose_axis: ClassVar[dict[str, int]] = {"seen": 0}
    packed = frozenset({"banks", "seen"})
    models = 6
    loops = Loops(many.choose_driftucb, many.learn_driftucb, many.step_driftucb, many.replay_driftucb)

    def __init__(self, policy: DriftUCB, size: int) -> None:
        super().__init__(policy, size)
        self._rules = policy._rules
        self._memos = repeated(self._first["memo"], size)
        self._banks = aligned_zeros((size, *self.policy._bank.shape))
        self._banks[:] = self.policy._bank
        self._seen = FirstRewards(size, policy.dim + 1)
        if len(self._first["seen"]):
            for scope in range(size):
                self._seen.put(scope, self._first["seen"])

    @property
    def state(self) -> tuple[Any, ...]:
        seen = self._seen
        return self._rules, self._memos, self._banks, seen.numbers, seen.places, seen.rooms, self.rounds

    def arrays(self) -> dict[str, NDArray[Any]]:
        rooms = self._seen.rooms
        young = [self._seen.of(scope) for scope in np.flatnonzero(rooms).tolist()]
        seen = np.concatenate([np.zeros((0, self._seen.width)), *young])
        return {"memos": self._memos, "banks": self._stored(), "seen": seen, "rooms": rooms, "rounds": self.rounds}

    def patterns(self) -> dict[str, NDArray[Any]]:
        banks = np.broadcast_to(np.zeros(()), self._stored_shape)
        seen = np.zeros((0, self._seen.width))
        return {"memos": self._memos, "banks": banks, "seen": seen, "rooms": self._seen.rooms, "rounds": self.rounds}

    @property
    def _stored_shape(self) -> tuple[int, int, int]:
        return self.size, *compact.compact_shape(self.policy.dim, len(self.policy.memory))

    def _stored(self) -> Floats:
        """The banks in their compact form."""
        stored = np.empty(self._stored_shape)
        many.pack_all(self._memos, self._banks, stored, len(self.policy.memory))
        return stored

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.state if isinstance(array, np.ndarray)) - self._rules.nbytes

    def _take(self, arrays: Arrays) -> None:
        memos, rooms, seen = arrays["memos"], arrays["rooms"], arrays["seen"]
        tried, columns = memos[:, TRIED], memos[:, COLUMNS]
        dim = self.policy.dim
        young = tried < frames.TRIAL
        fits = ((rooms >= 0) & (rooms <= frames.TRIAL)).all() and rooms.sum() == len(seen)
        fits = fits and (tried[young] <= rooms[young]).all()
        if not fits or not ((tried >= 0) & (tried <= frames.TRIAL)).all() or not np.isin(columns, (dim, dim + 1)).all():
            raise ValueError("state: memos, seen and rooms contradict each other")
        experts = len(self.policy.memory)
        check_memos(memos, experts)
        if not all(compact.is_sound(memo, bank, experts) for memo, bank in zip(memos, arrays["banks"], strict=True)):
            raise ValueError("state: banks: expected counts of rewards that fit into them")
        self._memos = memos
        many.unpack_all(memos, self._banks, arrays["banks"], experts)
        self._seen = FirstRewards(self.size, dim + 1)
        ends = np.cumsum(rooms)
        for scope in np.flatnonzero(rooms).tolist():
            self._seen.put(scope, seen[ends[scope] - rooms[scope] : ends[scope]])

    def widen(self, scopes: Ints) -> None:
        self._seen.widen(scopes)

    def finish(self, scopes: Ints) -> None:
        """Take back the blocks of scopes that have tried frames for the last time."""
        young = scopes[self._seen.rooms[scopes] > 0]
        for scope in np.unique(young[self._memos[young, TRIED] == frames.TRIAL]).tolist():
            self._seen.give_back(scope)

    def _parts_of(self, scope: int) -> dict[str, NDArray[Any]]:
        memo = self._memos[scope]
        tried = int(memo[TRIED])
        room = 0 if tried == frames.TRIAL else room_for(tried)
        stored = np.empty(compact.compact_shape(self.policy.dim, len(self.policy.memory)))
        compact.pack(memo, self._banks[scope], stored, len(self.policy.memory))
        return {"memo": memo.copy(), "bank": stored, "seen": self._seen.of(scope)[:room].copy()}

    def _put_parts(self, scope: int, state: Arrays) -> None:
        self._memos[scope] = state["memo"]
        compact.unpack(self._memos[scope], self._banks[scope], state["bank"], len(self.policy.memory))
        self._seen.put(scope, state["seen"])

    def review(self, scope: int) -> tuple[Change, ...]:
        changes = (alarm_of(self._memos[scope, ALARM_EVIDENCE : ALARM_AGE + 1], int(self.rounds[scope])),)
        self.report(scope, changes)
        return changes
