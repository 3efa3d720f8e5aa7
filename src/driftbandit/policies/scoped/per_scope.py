"""One policy per scope: a user, a group of users, an article.

A single shared policy (the paper's 'uniform-' variants) averages over everyone; one policy per scope (its 'N-'
variants) fits each scope, at the price of less data for each. `PerScope` keeps a policy for every scope it meets and
forgets scopes not used for long. Wu, Iyer and Wang, SIGIR 2018, Figure 3 (a). With ``pool=True`` scopes learn from
each other as far as they are alike.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import Change, Floats, Policy, Scope, as_count, as_example, as_scope
from driftbandit.models import RewardModel
from driftbandit.policies.entry import Brief, Entry
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.ranking import rank
from driftbandit.policies.scoped.pooling import Pool
from driftbandit.policies.scoped.scopes import decode_scopes, encode_scopes
from driftbandit.policies.traits import Once, Traits
from driftbandit.state import new_generator

_Answer = TypeVar("_Answer")
_PART = re.compile(r'scope\.(-?\d+|"(?:[^"\\]|\\.)*")\.(.+)')


@runtime_checkable
class SavedPolicy(Policy, Protocol):
    """A policy that can be saved, as all shipped ones can."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far into flat arrays, by name."""
        ...

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` returned."""
        ...


class PerScope(Traits):
    """A policy for every scope, built when the scope is first met.

    A scope is met by its first successful `choose` or `learn`. Unless pooled, scopes share nothing: each behaves
    exactly like a policy of its own.

    Parameters
    ----------
    build : policy or callable
        A fresh policy to copy for every scope, or a function that makes the policy of a scope. Copies have the same
        seed; a function can give every scope its own. To pickle a `PerScope` with a function, define the function at
        the top level of a module.
    pool : bool
        Whether the policies start from what all scopes have in common, as far as they have something in common; see
        `driftbandit.policies.scoped.pooling`. `build` must be a policy that can be pooled, such as `LinUCB`.
    max_scopes : int
        At this many scopes the half that was used longest ago is forgotten; a scope that returns starts afresh.

    Examples
    --------
    >>> import numpy as np
    >>> from driftbandit import LinUCB
    >>> policy = PerScope(LinUCB(dim=2))
    >>> pool = np.eye(2)
    >>> for user, liked in (("ann", 0), ("bob", 1)):
    ...     for arm in (0, 1):
    ...         changes = policy.learn(pool[arm], float(arm == liked), scope=user)
    >>> [policy.choose(pool, scope=user) for user in ("ann", "bob")]
    [0, 1]

    Ten users who like the same arm are enough to know what the next one likes:

    >>> policy = PerScope(LinUCB(dim=2), pool=True)
    >>> for user in range(10):
    ...     for arm in (0, 1):
    ...         changes = policy.learn(pool[arm], float(arm == 1), scope=user)
    >>> policy.choose(pool, scope="new")
    1
    """

    is_scoped: ClassVar[bool] = True

    def __init__(
        self, build: SavedPolicy | Callable[[Scope], Policy], *, pool: bool = False, max_scopes: int = 100_000
    ) -> None:
        if isinstance(build, type) or not (isinstance(build, SavedPolicy) or callable(build)):
            raise ValueError(f"build: expected a policy or a function that makes one for a scope, got {build!r}")
        if pool and not getattr(build, "can_pool", False):
            raise ValueError(f"pool: expected a policy to copy that can be pooled, such as LinUCB, got {build!r}")
        self.build = copy.deepcopy(build)  # the caller may go on using the original
        self.dim = getattr(build, "dim", None)
        self.minds_pending = isinstance(build, SavedPolicy) and getattr(build, "minds_pending", False)
        self.pool = bool(pool)
        self.max_scopes = as_count("max_scopes", max_scopes)
        self.rounds = 0
        """Rewards learned, including those of forgotten scopes."""
        self.warned = Once()
        self._policies: dict[Scope, SavedPolicy] = {}  # in order of use, the latest scope last
        self._common = Pool(self.dim) if pool and self.dim else None
        self._told: dict[Scope, int] = {}  # edition of the pool's belief that a policy has, if it has one

    @property
    def is_random(self) -> bool:
        """Whether the copied policy draws at random; True if a function builds the policies, since any might."""
        return not isinstance(self.build, SavedPolicy) or bool(getattr(self.build, "is_random", True))

    @property
    def scopes_apart(self) -> bool:
        """Whether the rewards of one scope leave the choices for all others as they are: unless pooled, they do."""
        return self._common is None

    @property
    def detects(self) -> bool:
        """Whether the policy that is copied looks for changes."""
        return bool(getattr(self.build, "detects", False))

    @property
    def most_scopes(self) -> int:
        """At this many scopes the half that was used longest ago is forgotten."""
        return self.max_scopes

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that have a policy, the one used longest ago first."""
        return tuple(self._policies)

    def policy_of(self, scope: Scope) -> SavedPolicy | None:
        """The policy of a scope, for inspection; None if it was never met, or was forgotten."""
        return self._policies.get(as_scope(scope))

    def changes_of(self, scope: Scope) -> tuple[Change, ...]:
        """The latest changes that the policy of a scope detected, oldest first; rounds are the scope's own."""
        changes: tuple[Change, ...] = getattr(self.policy_of(scope), "changes", ())
        return changes

    def choose(
        self, features: ArrayLike | None, arms: ArrayLike | None = None, *, scope: Scope, pending: int = 0
    ) -> int:
        """Index of the arm to play, as the policy of `scope` sees it.

        `pending` is how many of this scope's rewards are still to come, for policies that mind.
        """
        scope = as_scope(scope)
        policy: Any = self._find(scope)
        minded = {"pending": pending} if pending and getattr(policy, "minds_pending", False) else {}
        index: int = policy.choose(features, arms, **minded)
        self._use(scope, policy)
        return index

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, scope: Scope) -> Floats:
        """Score of every candidate, if the policy of `scope` has scores."""
        return self._ask(scope, lambda policy: policy.scores(features, arms))

    def rank(  # type: ignore[override]
        self, features: ArrayLike | None, k: int, arms: ArrayLike | None = None, *, scope: Scope
    ) -> list[int]:
        """Indices of the `k` best arms, best first, as the policy of `scope` sees them."""
        return self._ask(scope, lambda policy: rank(policy, features, k, arms))

    def learn(
        self, features: ArrayLike | None, reward: float, arm: int | None = None, *, scope: Scope
    ) -> tuple[Change, ...]:
        """Learn a reward that `scope` gave; returns the changes that it revealed to the policy of that scope."""
        scope = as_scope(scope)
        policy = self._find(scope)
        changes = policy.learn(features, reward, arm)
        self._use(scope, policy)
        self.rounds += 1
        if self._common is not None:
            self._common.learn(scope, as_example(features, self._common.dim), float(reward))
            if any(change.kind == "restarted" for change in changes):
                self._common.restart(scope)
        return changes

    def adopt(self, policies: Mapping[Scope, SavedPolicy], learned: int) -> None:
        """Take over policies that chose and learned elsewhere, `learned` rewards in all; the last one was used last.

        For callers that keep the policies of many scopes in flat arrays for a while; not for pooled scopes.
        """
        for scope, policy in policies.items():
            self._use(as_scope(scope), policy)
        self.rounds += learned

    def forget(self, scope: Scope) -> None:
        """Drop the policy of a scope, if it has one."""
        self._drop(as_scope(scope))

    def _drop(self, scope: Scope) -> None:
        self._policies.pop(scope, None)
        self._told.pop(scope, None)
        if self._common is not None:
            self._common.restart(scope)

    def _ask(self, scope: Scope, question: Callable[[Any], _Answer]) -> _Answer:
        """What the policy of `scope` answers."""
        scope = as_scope(scope)
        policy = self._find(scope)
        answer = question(policy)
        self._use(scope, policy)
        return answer

    def _find(self, scope: Scope) -> SavedPolicy:
        policy = self._policies.get(scope)
        if policy is None:
            policy = self._new(scope)
        self._tell(scope, policy)
        return policy

    def _tell(self, scope: Scope, policy: Any) -> None:
        """Tell the policy of a scope what the pool believes now, unless it knows."""
        if self._common is not None and self._common.edition > self._told.get(scope, 0):
            policy.believe(*self._common.belief)

    def _new(self, scope: Scope) -> SavedPolicy:
        if isinstance(self.build, SavedPolicy):
            memo: dict[int, Any] = {}
            for part in vars(self.build).values():
                if isinstance(part, RewardModel):  # holds settings only, so the copies may share it
                    memo[id(part)] = part
                elif isinstance(part, Generator) and isinstance(part.bit_generator, PCG64):
                    memo[id(part)] = twin = new_generator(0)  # deepcopy would take longer than all the rest
                    twin.bit_generator.state = part.bit_generator.state
            return copy.deepcopy(self.build, memo)
        policy = self.build(scope)
        if not isinstance(policy, SavedPolicy):
            raise ValueError(f"build: expected a policy with state and restore, got {policy!r}")
        if hasattr(policy, "warned"):
            policy.warned = self.warned  # as copies of one policy share their warnings
        return policy

    def _use(self, scope: Scope, policy: SavedPolicy) -> None:
        """Make `scope` the latest one, after its call succeeded."""
        if self._policies.pop(scope, None) is None and len(self._policies) == self.max_scopes:
            for old in self.scopes[: self.max_scopes - self.max_scopes // 2]:
                self._drop(old)
        self._policies[scope] = policy
        if self._common is not None:
            self._told[scope] = self._common.edition

    def _standing(self) -> dict[str, int]:
        return {"rounds": self.rounds, "scopes": len(self._policies)}

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # copies that share policies would learn from each other's rewards

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far into flat arrays; those of a scope are named ``scope.<scope>.<name>``."""
        flat: dict[str, NDArray[Any]] = {"rounds": np.array(self.rounds), "scopes": encode_scopes(self._policies)}
        if self._common is not None:
            flat.update({f"pool.{name}": array for name, array in self._common.state().items()})
        for scope, policy in self._policies.items():
            prefix = f"scope.{json.dumps(scope)}."
            if self._common is not None:
                self._tell(scope, policy)  # so that a state does not depend on who was asked last
                self._told[scope] = self._common.edition
                flat[prefix + "sums"] = self._common.sums_of(scope)
            flat.update({prefix + name: array for name, array in policy.state().items()})
        return flat

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` returned, from an object built with the same settings; all or nothing."""
        parts: dict[str, dict[str, NDArray[Any]]] = {}
        given: dict[str, NDArray[Any]] = {}
        try:
            for name in state:
                found = _PART.fullmatch(name)
                where, key = (given, name) if found is None else (parts.setdefault(found[1], {}), found[2])
                where[key] = np.asarray(state[name])
        except (TypeError, ValueError) as error:
            raise ValueError(f"state: expected a mapping of names to arrays ({error})") from error
        common = None
        if self._common is not None:
            pooled = {name: given.pop(name) for name in list(given) if name.startswith("pool.")}
            common = Pool(self._common.dim).restore({name.removeprefix("pool."): pooled[name] for name in pooled})
        if given.keys() != {"rounds", "scopes"}:
            raise ValueError(f"state: expected rounds, scopes and arrays of scopes, got {', '.join(sorted(given))}")
        scopes, rounds = decode_scopes(given["scopes"]), given["rounds"]
        if rounds.dtype != np.int64 or rounds.shape or rounds < 0:
            raise ValueError("state: rounds: expected one int64 that is not negative")
        if len(scopes) > self.max_scopes or parts.keys() != {json.dumps(scope) for scope in scopes}:
            raise ValueError(f"state: scopes and arrays differ, or more than max_scopes = {self.max_scopes}")
        policies = {scope: self._new(scope) for scope in scopes}
        if common is not None:
            common.take_sums({scope: parts[json.dumps(scope)].pop("sums", np.empty(0)) for scope in scopes})
            if common.edition:
                for policy in policies.values():
                    policy.believe(*common.belief)  # type: ignore[attr-defined]
        self._policies = {scope: policy.restore(parts[json.dumps(scope)]) for scope, policy in policies.items()}
        self._common = common
        self._told = {} if common is None else dict.fromkeys(scopes, common.edition)
        self.rounds = int(rounds)
        return self


def _settings(brief: Brief) -> dict[str, Any]:
    return {"build": LinUCB(brief.dim)}


def _pooled_settings(brief: Brief) -> dict[str, Any]:
    return {**_settings(brief), "pool": True}


ENTRIES = (
    Entry(
        name="per-scope",
        title="PerScope",
        summary="one LinUCB per scope; scopes share nothing",
        policy=PerScope,
        settings=_settings,
        page="per-scope",
        place=400,
        scoped=True,
    ),
    Entry(
        name="pooled-scopes",
        title="PerScope, pooled",
        summary="one LinUCB per scope; each starts from what all scopes have in common",
        policy=PerScope,
        settings=_pooled_settings,
        page="per-scope",
        place=405,
        scoped=True,
    ),
)
