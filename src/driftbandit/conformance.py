"""The public conformance test: does a policy keep the contract?

Run it on a policy of your own before you trust it with traffic: ``check_policy(MyPolicy(dim=5))``.
"""

from __future__ import annotations

import copy
import io
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Change, Policy

_POOL = 7
_ROUNDS = 60
_MANY_ARMS = 1_000_000
_MOST_NUMBERS = 25_000_000  # of features, in the check with many arms


def check_policy(policy: Policy, *, dim: int | None = None) -> None:
    """Check a fresh policy against the contract in `Policy`.

    Covers determinism, independence of `choose` and `learn`, late rewards, pools of one and of a million arms, pool
    order, `state` and `restore`, pickle and deepcopy (where the policy offers them, including its random generator),
    and bad input: it must raise ValueError and leave the policy as it was. The policy itself is not changed.

    Parameters
    ----------
    policy : Policy
        A freshly built policy. It is copied with `copy.deepcopy`.
    dim : int, optional
        Number of features, by default the policy's `dim`; a policy without either is taken to be context-free.

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
            checker.determinism,
            checker.late_rewards,
            checker.pools,
            checker.copies,
            checker.bad_input,
        ):
            check()


class _Checker:
    def __init__(self, policy: Policy, dim: int, *, contextual: bool) -> None:
        self.original = policy
        self.dim = dim
        self.contextual = contextual
        self.rng = np.random.default_rng(0)

    def fresh(self) -> Policy:
        return copy.deepcopy(self.original)

    def trained(self) -> Policy:
        policy = self.fresh()
        self.play(policy, 0)
        return policy

    def require(self, holds: bool, promise: str) -> None:
        if not holds:
            raise AssertionError(f"{type(self.original).__name__}: {promise}")

    def pool(self, rng: np.random.Generator, size: int = _POOL) -> tuple[NDArray[Any], NDArray[Any]]:
        return rng.standard_normal((size, self.dim)) / 2.0, rng.permutation(2 * size)[:size] - size

    def choose(self, policy: Policy, features: Any, arms: Any) -> int:
        before = np.array(features, copy=True), np.array(arms, copy=True)
        index = policy.choose(features, arms)
        whole = isinstance(index, int | np.integer) and not isinstance(index, bool)
        self.require(
            whole and 0 <= index < len(arms),
            f"choose must return an index into a pool of {len(arms)}, got {index!r}",
        )
        untouched = np.array_equal(before[0], features) and np.array_equal(before[1], arms)
        self.require(untouched, "choose must not write to its arguments")
        return int(index)

    def learn(self, policy: Policy, x: Any, reward: float, arm: int) -> None:
        changes = policy.learn(x, reward, arm)
        fine = isinstance(changes, tuple) and all(isinstance(c, Change) for c in changes)
        self.require(fine, f"learn must return a tuple of Change, got {changes!r}")

    def play(self, policy: Policy, seed: int, rounds: int = _ROUNDS) -> list[int]:
        """Choices in a small world of rewards in [0, 1], which every policy can take."""
        rng = np.random.default_rng([1, seed])
        choices = []
        for _ in range(rounds):
            features, arms = self.pool(rng)
            index = self.choose(policy, features, arms)
            reward = 0.5 + 0.3 * np.tanh(features[index].sum()) + 0.2 * rng.uniform(-1.0, 1.0)
            self.learn(policy, features[index], float(reward), int(arms[index]))
            choices.append(index)
        return choices

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
        self.learn(policy, features[0], 1.0, 10**15)  # an arm id it has never heard of
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
            drawn, before = _draws(policy), self.snapshot(policy)
            straight = self.choose(policy, features, arms)
            if _draws(policy) != drawn:
                continue  # it drew at random, and may rightly choose differently
            self.require(
                not hasattr(policy, "state") or self.snapshot(policy) == before,
                "choose must keep nothing of what it was shown",
            )
            shuffled = self.choose(policy, features[order], arms[order])
            self.require(order[shuffled] == straight, "the order of the pool must not matter without ties")

    def copies(self) -> None:
        policy = self.trained()
        twins: dict[str, Policy] = {
            "copy.deepcopy": copy.deepcopy(policy),
            "pickle": pickle.loads(pickle.dumps(policy)),
        }
        if hasattr(policy, "state"):
            twin: Any = self.fresh()
            twins["restore(state())"] = twin.restore(policy.state())
        expected = self.play(policy, 3)
        for how, twin in twins.items():
            alike = self.play(twin, 3) == expected
            if hasattr(
                policy, "state"
            ):  # else only the choices can be compared: equal objects may be pickled differently
                alike = alike and self.snapshot(policy) == self.snapshot(twin)
            self.require(alike, f"{how} must continue bit for bit")

    def bad_input(self) -> None:
        features, arms = self.pool(self.rng)
        x, arm = features[0], int(arms[0])
        policy = self.trained()

        def poisoned(array: NDArray[Any], value: float) -> NDArray[Any]:
            bad = array.copy()
            bad.flat[-1] = value
            return bad

        calls: dict[str, Callable[[], object]] = {
            "learn with a reward of NaN": lambda: policy.learn(x, float("nan"), arm),
            "learn with an infinite reward": lambda: policy.learn(x, float("inf"), arm),
            "learn with a reward that is text": lambda: policy.learn(x, "much", arm),  # type: ignore[arg-type]
            "learn with a reward of None": lambda: policy.learn(x, None, arm),  # type: ignore[arg-type]
            "choose from an empty pool": lambda: policy.choose(features[:0], arms[:0]),
        }
        if self.contextual:
            calls |= {
                "choose with features of another width": lambda: policy.choose(features[:, 1:], arms),
                "choose with flat features": lambda: policy.choose(x, arms),
                "choose with a ragged pool": lambda: policy.choose([[1.0], [1.0, 2.0]], arms),
                "choose with complex features": lambda: policy.choose(features + 1j, arms),
                "choose with text": lambda: policy.choose(features.astype(str), arms),
                "choose without features": lambda: policy.choose(None, arms),
                "choose with NaN": lambda: policy.choose(poisoned(features, np.nan), arms),
                "choose with infinity": lambda: policy.choose(poisoned(features, np.inf), arms),
                "learn with a pool": lambda: policy.learn(features, 1.0, arm),
                "learn with too few features": lambda: policy.learn(x[1:], 1.0, arm),
                "learn without features": lambda: policy.learn(None, 1.0, arm),
                "learn with NaN": lambda: policy.learn(poisoned(x, np.nan), 1.0, arm),
                "learn with infinity": lambda: policy.learn(poisoned(x, -np.inf), 1.0, arm),
                "learn with object features": lambda: policy.learn(np.array([None] * self.dim), 1.0, arm),
            }
        else:
            calls |= {
                "choose with fractional ids": lambda: policy.choose(features, arms + 0.5),
                "choose with ids in a square": lambda: policy.choose(features, [[1, 2], [3, 4]]),
                "choose with more features than ids": lambda: policy.choose(features, arms[1:]),
                "choose with ids beyond int64": lambda: policy.choose(None, [2**70]),
            }
        self.huge_input(x, arm, poisoned)
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

    def huge_input(self, x: NDArray[Any], arm: int, poisoned: Callable[[NDArray[Any], float], NDArray[Any]]) -> None:
        """Refused with ValueError, the policy as it was, or taken without harm."""
        for what, features, reward in (
            ("a reward of 1e300", x, 1e300),
            ("features of 1e300", poisoned(x, 1e300), 1.0),
        ):
            policy = self.trained()
            before = self.snapshot(policy)
            try:
                policy.learn(features, reward, arm)
            except ValueError:
                self.require(self.snapshot(policy) == before, f"learn with {what} must leave the policy as it was")
            try:
                self.play(policy, 4, rounds=5)
            except Exception as error:
                raise AssertionError(f"{type(policy).__name__}: {what} must not ruin the policy ({error})") from error

    @staticmethod
    def snapshot(policy: Policy) -> bytes:
        if not hasattr(policy, "state"):
            return pickle.dumps(policy)
        parts = sorted(policy.state().items())
        return b"".join(name.encode() + array.tobytes() for name, array in parts)


class _Generators(pickle.Pickler):
    """Notes the states of all random generators that it comes across."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.states: list[str] = []

    def persistent_id(self, obj: Any) -> None:
        if isinstance(obj, np.random.BitGenerator):
            self.states.append(repr(obj.state))
        elif isinstance(obj, np.random.RandomState):
            self.states.append(repr(obj.get_state()))
        elif isinstance(obj, random.Random):
            self.states.append(repr(obj.getstate()))


def _draws(policy: Policy) -> list[str]:
    """Where the policy's random generators stand."""
    found = _Generators()
    found.dump(policy)
    return found.states
