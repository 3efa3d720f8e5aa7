"""The models of a loop, one per scope: as policy objects, packed in memory, or in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from numpy.typing import NDArray

from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.serving.loop.events import Refused
from driftbandit.serving.loop.slab import Slab, pack, unpack

EVERYONE = ""
"""The scope of a loop's only model."""

MAIN, SHADOW = 0, 1
"""Roles of models: those that decide, and those of the shadow policy."""

_AROUND = 6_000
"""Bytes of a policy object beside its arrays, about."""

_SINGLE = 8
"""Bytes of a number in a policy object."""

_ENTRY = 200
"""Bytes that a scope takes beside its state: its name, and its places in dictionaries."""


class Room:
    """How much memory the models and open decisions of all loops may take, and how much they do.

    Attributes
    ----------
    limit : int
        Bytes that they may take.
    used : int
        Bytes that they took when that was last counted.
    stuck : bool
        Whether too much is used and no model can be left to the store: what takes the memory is open decisions.
    """

    __slots__ = ("limit", "stuck", "used")

    def __init__(self, limit: int = 1 << 62) -> None:
        self.limit = limit
        self.used = 0
        self.stuck = False

    @property
    def excess(self) -> int:
        """Bytes above the limit."""
        return max(0, self.used - self.limit)

    @property
    def full(self) -> bool:
        """Whether no new scope may come in until others have been saved."""
        return self.used > self.limit + self.limit // 8

    def admit(self, known: bool) -> None:
        """Refuse a decision while memory is full, unless it is for a scope in memory and scopes can be saved."""
        if self.stuck:
            raise Refused(429, "memory is full of decisions that wait for their rewards; try again later")
        if not known:
            raise Refused(429, "memory is full; scopes used long ago are being saved, try again soon")


class Models:
    """One policy per scope, made when the scope is first met.

    The scopes used last are policy objects, others are packed in memory, and the rest is in the store. A policy moves
    between these without changing a bit.

    A snapshot is the state of all scopes at one moment, and takes long to write. `freeze` is that moment: from then on
    `take` hands out the scopes that changed before it, a few at a time. A scope that is about to change again is
    copied first (`mark`), so that the snapshot has it as it was.

    Parameters
    ----------
    build : callable
        Makes a fresh policy.
    load : callable
        Reads the packed state of a scope from the store; returns None if the store has none.
    room : int
        Bytes that policy objects may take; older ones are packed.
    begin : bytes, optional
        The packed state with which every scope begins; by default, that of a fresh policy.

    Attributes
    ----------
    example : SavedPolicy
        A fresh policy that is never used; all policies here have its traits.
    fresh : bytes
        The packed state with which every scope begins.
    """

    def __init__(
        self,
        build: Callable[[], SavedPolicy],
        load: Callable[[str], bytes | None],
        room: int,
        *,
        begin: bytes | None = None,
    ) -> None:
        self._build = build
        self._load = load
        self._room = room
        self.example = build()
        self._begin = begin
        self.fresh = begin or pack(self.example.state())
        self._first = _size(self.example, self.example.state())
        self._largest = max(self._first, len(self.fresh))
        self._hot: dict[str, SavedPolicy] = {}
        self._slab = Slab()
        self._changed: dict[str, None] = {}
        self._frozen: dict[str, None] = {}
        self._copies: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._hot) + len(self._slab)

    def __contains__(self, scope: str) -> bool:
        """Whether a scope is in memory."""
        return scope in self._hot or scope in self._slab

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about: policy objects and copies are counted as large as the largest that was packed."""
        copies = len(self._copies) * self._largest
        return len(self._hot) * self._cost + self._slab.nbytes + copies + len(self) * _ENTRY

    @property
    def _cost(self) -> int:
        return self._largest + _AROUND

    def get(self, scope: str) -> SavedPolicy:
        """The policy of a scope, which becomes the one used last."""
        policy = self._hot.get(scope)
        if policy is None:
            return self._bring(scope)
        if len(self._hot) > 1:
            self._hot[scope] = self._hot.pop(scope)
        return policy

    def get_many(self, scopes: Sequence[str]) -> list[SavedPolicy]:
        """The policies of these scopes, from the first on, as far as they can be objects at the same time."""
        most = max(1, self._room // self._cost)
        found = [self.get(scope) for scope in scopes[:most]]
        if any(self._hot.get(scope) is not policy for scope, policy in zip(scopes, found, strict=False)):
            return [self.get(scopes[0])]  # they are larger than was known, so the first had to make room for the last
        return found

    def peek(self, scope: str) -> SavedPolicy | None:
        """The policy of a scope, for reading only; None if the scope was never met and does not begin with a model."""
        policy = self._hot.get(scope)
        begin = self._begin if scope == EVERYONE else None
        if policy is None and (data := self._slab.get(scope) or self._load(scope) or begin) is not None:
            policy = self._build().restore(unpack(data))
        return policy

    def mark(self, scope: str) -> None:
        """Note that the policy of a scope, which is in memory, is about to change."""
        if scope in self._frozen:
            del self._frozen[scope]
            self._copies[scope] = self._pack(scope)
        self._changed[scope] = None

    def _bring(self, scope: str) -> SavedPolicy:
        data = self._slab.get(scope) or self._load(scope) or self._begin
        policy: SavedPolicy | None = None
        while self._hot and (len(self._hot) + 1) * self._cost > self._room:
            policy = self._cool(next(iter(self._hot)))
        if policy is None:
            policy = self._build()
        elif data is None:
            data = self.fresh
        self._slab.drop(scope)
        if data is not None:  # a policy that was just built is fresh
            policy.restore(unpack(data))
        self._hot[scope] = policy
        return policy

    def _cool(self, scope: str) -> SavedPolicy:
        """Pack a policy object, which may be used again for another scope."""
        data = self._pack(scope)
        policy = self._hot.pop(scope)
        self._slab.put(scope, data)
        return policy

    def _pack(self, scope: str) -> bytes:
        """The state of a scope in memory."""
        if scope not in self._hot:
            return self._slab.get(scope) or b""
        policy: Any = self._hot[scope]
        short = policy.short_state()
        state = policy.state() if short is None else short
        kept = (
            _size(policy, state)
            if short is None
            else self._first + _SINGLE * sum(array.size for array in short.values())
        )
        self._largest = max(self._largest, kept)  # by the object, which is larger than its short state
        return pack(state)

    def put(self, scope: str, data: bytes) -> None:
        """Replace the state of a scope."""
        self.get(scope)
        self.mark(scope)
        self._hot[scope].restore(unpack(data))

    def forget(self, scope: str) -> None:
        """Forget a scope, also if it changed since it was saved; what the store has of it must be deleted too."""
        self._hot.pop(scope, None)
        self._slab.drop(scope)
        for places in (self._changed, self._frozen, self._copies):
            places.pop(scope, None)

    def packed(self, scope: str) -> bytes | None:
        """The state of a scope as bytes, wherever it is; None if it was never met."""
        return self._pack(scope) or None if scope in self else self._load(scope)

    def scopes(self) -> Iterator[str]:
        """The scopes in memory."""
        yield from self._hot
        yield from self._slab

    # For the store -------------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Begin a snapshot: `take` returns what changed until now and was not handed out since."""
        self._frozen |= self._changed
        self._changed = {}
        self._copies.clear()  # of a snapshot that was given up

    def take(self, most: int) -> list[tuple[str, bytes]]:
        """Some scopes as they were at `freeze`, with about `most` bytes at most; an empty list after the last."""
        copies: list[tuple[str, bytes]] = []
        for copy in self._copies.items():
            if most <= 0:
                break
            copies.append(copy)
            most -= len(copy[1])
        taken = self._hand_out(self._frozen, most)
        for scope, _ in copies:
            del self._copies[scope]
        return [*copies, *taken]

    def spill(self, most: int) -> list[tuple[str, bytes]]:
        """Some scopes as they are now that changed longest ago, with about `most` bytes at most."""
        return self._hand_out(self._changed, most)

    def _hand_out(self, scopes: dict[str, None], most: int) -> list[tuple[str, bytes]]:
        taken: list[tuple[str, bytes]] = []
        for scope in scopes:
            if most <= 0:
                break
            taken.append((scope, self._pack(scope)))
            most -= len(taken[-1][1])
        for scope, _ in taken:  # only now: if one cannot be packed, none is handed out
            del scopes[scope]
        return taken

    def trim(self, excess: int) -> None:
        """Forget scopes that the store has, the one used longest ago first, until so many bytes are free."""
        gone: list[str] = []
        for scope in chain(self._slab, self._hot):
            if excess <= 0:
                break
            if self._is_saved(scope):
                gone.append(scope)
                excess -= self._slab.size(scope) or self._cost
        for scope in gone:
            self._slab.drop(scope)
            self._hot.pop(scope, None)

    @property
    def unsaved(self) -> bool:
        """Whether some scopes changed that the store does not have yet."""
        return bool(self._changed or self._frozen or self._copies)

    def _is_saved(self, scope: str) -> bool:
        return scope not in self._changed and scope not in self._frozen and scope not in self._copies


def _size(policy: Any, state: Mapping[str, NDArray[Any]]) -> int:
    """Bytes of the arrays of a policy object with this state."""
    spare: int = policy.spare
    return spare + sum(array.nbytes for array in state.values())
