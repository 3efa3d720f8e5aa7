"""Checks a policy against the contract, one promise at a time."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.conformance.bad_calls import Calls, bad_calls, bad_scopes, poisoned
from driftbandit.conformance.draws import draws_of
from driftbandit.core import Change, Policy, Scope, ScopedPolicy, takes_scope

_POOL = 7
_ROUNDS = 60
_MANY_ARMS = 1_000_000
_MOST_NUMBERS = 25_000_000  # number of features in the check with many arms
_SCOPES: tuple[Scope, ...] = (7, "7", "ann")
_OTHER_SCOPES: tuple[Scope, ...] = (-1, "bob", 0)


def check_policy(policy: Policy | ScopedPolicy, *, dim: int | None = None) -> None:
    """Check a fresh policy against the contract in `Policy`, or in `ScopedPolicy` if it says that it `is_scoped`.

    Covers the signatures of `choose` and `learn`, determinism, independence of the two, late rewards, pools of one and
    of a million arms, pool order, that `choose` changes nothing but random generators, that `rank`, if there is one,
    agrees with `choose`, `state` and `restore`, pickle and deepcopy (where the policy offers them, including its random
    generator), scopes, and bad input: it must raise ValueError and leave the policy as it was. The policy itself is not
    changed.

    Parameters
    ----------
    policy : Policy or ScopedPolicy
        A freshly built policy. It is copied with `copy.deepcopy`.
    dim : int, optional
        Number of features, by default the policy's `dim`; without either, the policy is taken to be context-free.

    Raises
    ------
    AssertionError
        Names the promise that was broken.

    Examples
    --------
    >>> from driftbandit import LinUCB, UCB1, check_policy
    >>> check_policy(LinUCB(dim=3))
    >>> check_policy(UCB1())
    >>> class Lazy:
    ...     def choose(self, features, arms=None):
    ...         return 0
    ...     def learn(self, features, reward, arm=None):
    ...         return None
    >>> check_policy(Lazy(), dim=2)
    Traceback (most recent call last):
    ...
    AssertionError: Lazy: learn must return a tuple of Change, got None
    """
    # A context-free policy reads arm ids only; it gets features too, as every policy does in a comparison.
    given = getattr(policy, "dim", None) if dim is None else dim
    checker = _Checker(policy, given if given is not None else 3, contextual=given is not None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for check in (
            checker.signatures,
            checker.determinism,
            checker.late_rewards,
            checker.pools,
            checker.purity,
            checker.copies,
            checker.ranks,
            checker.scopes,
            checker.bad_input,
        ):
            check()


class _Checker:
    """Copies of one policy, and the checks that they go through.

    A policy that takes scopes is called with each of `scopes` in turn, any other policy without a scope.
    """

    def __init__(
        self, policy: Policy | ScopedPolicy, dim: int, *, contextual: bool, scopes: tuple[Scope, ...] = _SCOPES
    ) -> None:
        self.original = policy
        self.dim = dim
        self.contextual = contextual
        self.whose = [{"scope": scope} for scope in scopes] if takes_scope(policy) else [{}]
        self.rng = np.random.default_rng(0)

    def fresh(self) -> Any:
        return copy.deepcopy(self.original)

    def trained(self) -> Any:
        policy = self.fresh()
        self.play(policy, 0)
        return policy

    def require(self, holds: bool, promise: str) -> None:
        if not holds:
            raise AssertionError(f"{type(self.original).__name__}: {promise}")

    def pool(self, rng: np.random.Generator, size: int = _POOL) -> tuple[NDArray[Any], NDArray[Any]]:
        return rng.standard_normal((size, self.dim)) / 2.0, rng.permutation(2 * size)[:size] - size

    def choose(self, policy: Any, features: Any, arms: Any, turn: int = 0) -> int:
        before = np.array(features, copy=True), np.array(arms, copy=True)
        index = policy.choose(features, arms, **self.whose[turn % len(self.whose)])
        whole = isinstance(index, int | np.integer) and not isinstance(index, bool)
        self.require(
            whole and 0 <= index < len(arms),
            f"choose must return an index into a pool of {len(arms)}, got {index!r}",
        )
        untouched = np.array_equal(before[0], features) and np.array_equal(before[1], arms)
        self.require(untouched, "choose must not write to its arguments")
        return int(index)

    def learn(self, policy: Any, x: Any, reward: float, arm: int, turn: int = 0) -> None:
        changes = policy.learn(x, reward, arm, **self.whose[turn % len(self.whose)])
        fine = isinstance(changes, tuple) and all(isinstance(c, Change) for c in changes)
        self.require(fine, f"learn must return a tuple of Change, got {changes!r}")

    def play(self, policy: Any, seed: int, rounds: int = _ROUNDS, only: int | None = None) -> list[int]:
        """Choices in a small world with rewards in [0, 1]; with `only`, in one scope's rounds."""
        rng = np.random.default_rng([1, seed])
        choices = []
        for turn in range(rounds):
            features, arms = self.pool(rng)
            luck = 0.2 * rng.uniform(-1.0, 1.0)
            if only is not None and turn % len(self.whose) != only:
                continue
            index = self.choose(policy, features, arms, turn)
            reward = 0.5 + 0.3 * np.tanh(features[index].sum()) + luck
            self.learn(policy, features[index], float(reward), int(arms[index]), turn)
            choices.append(index)
        return choices

    def signatures(self) -> None:
        """`choose` and `learn` take the arguments that every caller passes."""
        scope = ", *, scope" if takes_scope(self.original) else ""
        for name, expected, values in (
            ("choose", f"(features, arms=None{scope})", (None, None)),
            ("learn", f"(features, reward, arm=None{scope})", (None, 0.0, None)),
        ):
            method = getattr(self.original, name, None)
            self.require(callable(method), f"expected a method {name}{expected}, got none")
            try:
                got = inspect.signature(method)  # type: ignore[arg-type]
            except ValueError:  # written in C, without a signature
                continue
            try:
                got.bind(*values, **self.whose[0])
            except TypeError:
                hint = "" if scope or "scope" not in got.parameters else "; a policy with scopes says is_scoped = True"
                self.require(False, f"expected {name}{expected}, got {name}{got}{hint}")

    def determinism(self) -> None:
        first, second = self.play(self.fresh(), 1), self.play(self.fresh(), 1)
        self.require(first == second, "the same seed and calls must give the same choices")

    def late_rewards(self) -> None:
        """Learn before any choose, choose without learn, learn in another order than chosen."""
        policy = self.fresh()
        features, arms = self.pool(self.rng)
        self.learn(policy, features[0], 1.0, int(arms[0]))
        rounds = [self.pool(self.rng) for _ in range(5)]
        picks = [self.choose(policy, *round_) for round_ in rounds]
        for (features, arms), index in list(zip(rounds, picks, strict=True))[::-2]:
            self.learn(policy, features[index], 0.0, int(arms[index]))
        self.learn(policy, features[0], 1.0, 10**15)  # an arm id that the policy has never met
        self.play(policy, 2)

    def pools(self) -> None:
        policy = self.trained()
        features, arms = self.pool(self.rng, 1)
        self.require(self.choose(policy, features, arms) == 0, "a pool of one leaves no choice")
        many = min(_MANY_ARMS, _MOST_NUMBERS // self.dim)
        self.choose(policy, self.rng.standard_normal((many, self.dim)), np.arange(many))
        for _ in range(20):
            features, arms = self.pool(self.rng)
            order = self.rng.permutation(len(arms))
            drawn = draws_of(policy)
            straight = self.choose(policy, features, arms)
            if draws_of(policy) != drawn:
                continue  # the policy drew at random, so it may choose differently
            shuffled = self.choose(policy, features[order], arms[order])
            self.require(order[shuffled] == straight, "the order of the pool must not matter without ties")

    def purity(self) -> None:
        """Being asked leaves a policy as it was, unless it draws at random; a scope may become the latest one used."""
        policy = self.trained()
        self.choose(policy, *self.pool(self.rng))  # from here on its scope is the latest one
        for _ in range(5 if hasattr(policy, "state") else 0):
            before, drawn = self.snapshot(policy), draws_of(policy)
            self.choose(policy, *self.pool(self.rng))
            if draws_of(policy) == drawn:
                self.require(self.snapshot(policy) == before, "choose must change nothing but random generators")

    def copies(self) -> None:
        policy = self.trained()
        twins: dict[str, Any] = {
            "copy.deepcopy": copy.deepcopy(policy),
            "pickle": pickle.loads(pickle.dumps(policy)),
        }
        if hasattr(policy, "state"):
            twins["restore(state())"] = self.fresh().restore(policy.state())
        expected = self.play(policy, 3)
        for how, twin in twins.items():
            alike = self.play(twin, 3) == expected
            if hasattr(policy, "state"):  # otherwise compare choices only: equal objects may be pickled differently
                alike = alike and self.snapshot(policy) == self.snapshot(twin)
            self.require(alike, f"{how} must continue bit for bit")

    def ranks(self) -> None:
        """A policy with `rank` puts first what `choose` plays, names no arm twice, and is left as it was."""
        if not hasattr(self.original, "rank"):
            return
        policy = self.trained()
        self.choose(policy, *self.pool(self.rng))  # from here on its scope is the latest one
        ask = partial(policy.rank, **self.whose[0])
        for k in range(1, _POOL + 2):
            features, arms = self.pool(self.rng)
            chosen = self.choose(copy.deepcopy(policy), features, arms)
            before, drawn = self.snapshot(policy), draws_of(policy)
            ranked = ask(features, k, arms)
            places = range(len(arms))
            fine = isinstance(ranked, list) and all(index in places for index in ranked)
            fine = fine and len(set(ranked)) == len(ranked) == min(k, len(arms))
            self.require(fine, f"rank with k={k} must list {min(k, _POOL)} different indices, got {ranked!r}")
            self.require(ranked[0] == chosen, f"rank must put first what choose plays, {chosen}, got {ranked!r}")
            if draws_of(policy) == drawn:
                self.require(self.snapshot(policy) == before, "rank must change nothing but random generators")
        self.refuses(policy, {f"rank with k={k!r}": partial(ask, features, k, arms) for k in (0, -1, 1.5, None)})
        self.refuses(policy, {"rank from an empty pool": partial(ask, features[:0], 1, arms[:0])})

    def scopes(self) -> None:
        """The names of scopes do not matter, and a policy with `scopes_apart` treats each scope as if it were alone."""
        if not takes_scope(self.original):
            return
        choices = self.play(self.fresh(), 5)
        if not getattr(self.original, "is_random", True):
            others = _Checker(self.original, self.dim, contextual=self.contextual, scopes=_OTHER_SCOPES)
            alike = others.play(others.fresh(), 5) == choices
            self.require(alike, "choices must not depend on what scopes are called")
        most = getattr(self.original, "most_scopes", None)
        if getattr(self.original, "scopes_apart", False) and (most is None or most > len(_SCOPES)):
            for turn, scope in enumerate(_SCOPES):
                alone = self.play(self.fresh(), 5, only=turn) == choices[turn :: len(_SCOPES)]
                self.require(alone, f"what other scopes do must not change the choices for scope {scope!r}")

    def bad_input(self) -> None:
        """Bad calls raise ValueError and leave the policy as it was."""
        features, arms = self.pool(self.rng)
        policy = self.trained()
        choose, learn = partial(policy.choose, **self.whose[0]), partial(policy.learn, **self.whose[0])
        self.huge_input(features[0], int(arms[0]))
        self.refuses(policy, bad_calls(choose, learn, features, arms, contextual=self.contextual))
        if takes_scope(policy):
            self.refuses(policy, bad_scopes(policy, features, arms))

    def refuses(self, policy: Any, calls: Calls) -> None:
        before = self.snapshot(policy)
        for what, call in calls.items():
            try:
                call()
            except ValueError:
                pass
            except Exception as error:
                kind = type(error).__name__
                raise AssertionError(
                    f"{type(policy).__name__}: {what} must raise ValueError, raised {kind}: {error}"
                ) from error
            else:
                self.require(False, f"{what} must raise ValueError")
            self.require(self.snapshot(policy) == before, f"{what} must leave the policy as it was")

    def huge_input(self, x: NDArray[Any], arm: int) -> None:
        """Huge numbers are refused with ValueError, which changes nothing, or learned without harm."""
        for what, features, reward in (
            ("a reward of 1e300", x, 1e300),
            ("features of 1e300", poisoned(x, 1e300), 1.0),
        ):
            policy = self.trained()
            before = self.snapshot(policy)
            try:
                policy.learn(features, reward, arm, **self.whose[0])
            except ValueError:
                self.require(self.snapshot(policy) == before, f"learn with {what} must leave the policy as it was")
            try:
                self.play(policy, 4, rounds=5)
            except Exception as error:
                raise AssertionError(f"{type(policy).__name__}: {what} must not ruin the policy ({error})") from error

    @staticmethod
    def snapshot(policy: Any) -> bytes:
        if not hasattr(policy, "state"):
            return pickle.dumps(policy)
        parts = sorted(policy.state().items())
        return b"".join(name.encode() + array.tobytes() for name, array in parts)
