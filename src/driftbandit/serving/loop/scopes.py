"""The models of a loop, one a scope: the latest used as objects, more of them packed, the rest in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.serving.loop.packing import Arena, pack, unpack

HOT = 1024
"""How many scopes are kept as policy objects."""


class Models:
    """A policy for every scope, built when first met; moving between the tiers changes no bit of it.

    Parameters
    ----------
    build : callable
        Makes a fresh policy.
    load : callable
        Reads the packed state of a scope from the store, None if it has none.
    limit : int
        How many scopes to keep in memory; those used longest ago are left to the store, see `trim`.
    """

    def __init__(
        self, build: Callable[[], SavedPolicy], load: Callable[[str], bytes | None], limit: int, hot: int = HOT
    ) -> None:
        self._build = build
        self._load = load
        self._limit = limit
        self._hot_limit = hot
        self.fresh = pack(build().state())
        self._hot: dict[str, SavedPolicy] = {}
        self._arena = Arena()
        self._changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._hot) + len(self._arena)

    @property
    def nbytes(self) -> int:
        """Memory of the packed states."""
        return self._arena.nbytes

    def get(self, scope: str) -> SavedPolicy:
        """The policy of a scope, which becomes the latest used."""
        policy = self._hot.get(scope)
        if policy is None:
            return self._bring(scope)
        if len(self._hot) > 1:
            self._hot[scope] = self._hot.pop(scope)
        return policy

    def peek(self, scope: str) -> SavedPolicy | None:
        """A policy to look at; None if the scope was never met. A copy, unless it is among the latest used."""
        policy = self._hot.get(scope)
        if policy is None and (data := self._arena.get(scope) or self._load(scope)) is not None:
            policy = self._build().restore(unpack(data))
        return policy

    def mark(self, scope: str) -> None:
        """Note that the policy of a scope changed, so that the next snapshot holds it."""
        self._changed.add(scope)

    def _bring(self, scope: str) -> SavedPolicy:
        data = self._arena.get(scope) or self._load(scope) or self.fresh
        if len(self._hot) >= self._hot_limit:
            oldest = next(iter(self._hot))
            policy = self._hot.pop(oldest)
            self._arena.put(oldest, pack(policy.state()))
        else:
            policy = self._build()
        self._arena.drop(scope)
        policy.restore(unpack(data))
        self._hot[scope] = policy
        return policy

    def packed(self, scope: str) -> bytes | None:
        """The state of a scope as bytes, wherever it is; None if it was never met."""
        if scope in self._hot:
            return pack(self._hot[scope].state())
        return self._arena.get(scope) or self._load(scope)

    def scopes(self) -> Iterator[str]:
        """The scopes in memory."""
        yield from self._hot
        yield from self._arena

    def changed(self) -> list[tuple[str, bytes]]:
        """Packed states of all scopes that changed since the last `saved`."""
        return [(scope, self.packed(scope) or b"") for scope in sorted(self._changed)]

    def saved(self) -> None:
        """Note that what `changed` returned is in the store."""
        self._changed.clear()

    def trim(self) -> bool:
        """Forget saved scopes, least recently used first, down to the limit; False if too few are saved."""
        excess = len(self) - self._limit
        if excess <= 0:
            return True
        # Some more than needed, so that not every batch has to look for the next one.
        excess += self._limit // 10
        clean: list[str] = []
        for scope in self._arena:
            if len(clean) == excess:
                break
            if scope not in self._changed:
                clean.append(scope)
        for scope in clean:
            self._arena.drop(scope)
        return len(self) <= max(self._limit, self._hot_limit)
