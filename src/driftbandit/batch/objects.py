"""Many policy objects at once: what `choose` and `learn` would do one after the other, in compiled loops on threads.

`ManyScopes` holds policies in flat arrays. The service has them as objects, which come and go; here the loops that
serve flat arrays serve objects where they are.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from driftbandit.batch.threads import default_threads, share_out
from driftbandit.batch.turns import Turns
from driftbandit.core import Change, Floats, Ints
from driftbandit.kernels import many, scattered
from driftbandit.kernels.driftucb import frames
from driftbandit.kernels.driftucb.scales import TRIED
from driftbandit.models.ridge import RidgeModel
from driftbandit.models.thompson import ThompsonModel
from driftbandit.policies.choosing_memory.driftucb import DriftUCB, widened
from driftbandit.policies.linear.lints import LinTS
from driftbandit.policies.linear.linucb import LinUCB

_MOST_THREADS = 8  # more do not pay for as many rewards as come at a time
_CHOICE, _CHOICES = 20_000, 30_000_000  # multiplications from which on it pays to gather choices: of each, and of all
_REWARDS = 20_000  # numbers of features from which on it pays to gather rewards; see benchmarks/policy_objects.py


class Lesson(NamedTuple):
    """What became of one reward.

    Attributes
    ----------
    learned : bool
        False if the policy cannot use the features; it is as it was.
    changes : tuple of Change
        What the reward revealed.
    before : array or None
        The policy's weights before the change, if there was one.
    """

    learned: bool
    changes: tuple[Change, ...] = ()
    before: Floats | None = None


_LEARNED, _REFUSED = Lesson(True), Lesson(False)


class _Objects(Turns, ABC):
    """Different policy objects of one kind, with the same settings."""

    models: ClassVar[int]
    """About how many models learn a reward."""

    cost: ClassVar[int]
    """How long a reward takes, by itself, beside one of LinUCB."""

    loops: tuple[Any, Any]
    """The compiled loops that choose and learn; see `kernels.scattered`."""

    def __init__(self, policies: Sequence[Any]) -> None:
        self.policies = policies
        self.rounds = np.zeros(len(policies), dtype=np.int64)  # learned here, and not yet counted in the objects

    @property
    @abstractmethod
    def state(self) -> tuple[Any, ...]:
        """What the loops take."""

    @staticmethod
    @abstractmethod
    def can_hold(policy: Any) -> bool:
        """Whether a policy of the right class can be among them."""

    def finish(self, scopes: Ints) -> None:
        for scope in np.flatnonzero(self.rounds).tolist():
            self._count(scope)

    def _count(self, scope: int) -> None:
        self.policies[scope].rounds += int(self.rounds[scope])
        self.rounds[scope] = 0


class _LinearObjects(_Objects):
    models = cost = 1
    loops = scattered.choose_linucb, scattered.learn_ridge

    def __init__(self, policies: Sequence[LinUCB | LinTS]) -> None:
        super().__init__(policies)
        self._table = np.array([_address(policy._bank) for policy in policies])

    @staticmethod
    def can_hold(policy: LinUCB | LinTS) -> bool:
        return type(policy.reward_model) in (RidgeModel, ThompsonModel)

    @property
    def state(self) -> tuple[Any, ...]:
        policy = self.policies[0]
        model = policy.reward_model
        return model.scoring(policy.leading_row), model._test, policy._bank.shape[1], self._table, self.rounds


class _DriftUCBObjects(_Objects):
    models, cost = 12, 2
    loops = scattered.choose_driftucb, scattered.learn_driftucb

    def __init__(self, policies: Sequence[DriftUCB]) -> None:
        super().__init__(policies)
        self._table = np.array([_places(policy) for policy in policies])
        self._narrow: dict[int, Floats] = {}  # first rewards as they were before they got more room

    @staticmethod
    def can_hold(policy: DriftUCB) -> bool:
        return True

    @property
    def state(self) -> tuple[Any, ...]:
        policy = self.policies[0]
        return policy._rules, len(policy._memo), *policy._bank.shape, self._table, self.rounds

    def widen(self, scopes: Ints) -> None:
        for scope in scopes.tolist():
            policy = self.policies[scope]
            self._narrow[scope] = policy._seen
            policy._seen = widened(policy._seen)
            self._table[scope] = _places(policy)

    def review(self, scope: int) -> tuple[Change, ...]:
        self._count(scope)
        changes: tuple[Change, ...] = self.policies[scope]._report_alarm()
        return changes

    def finish(self, scopes: Ints) -> None:
        super().finish(scopes)
        for scope, narrow in self._narrow.items():
            if self.policies[scope]._memo[TRIED] <= len(narrow):  # the reward that needed room was not learned
                self.policies[scope]._seen = narrow
        for policy in self.policies:
            if policy._trying and policy._memo[TRIED] == frames.TRIAL:
                policy._seen, policy._trying = policy._seen[:0].copy(), False


_KINDS: dict[type, type[_Objects]] = {LinUCB: _LinearObjects, LinTS: _LinearObjects, DriftUCB: _DriftUCBObjects}


def learns_in_crowds(policy: object) -> bool:
    """Whether `learn_each` takes policies like this one.

    >>> learns_in_crowds(DriftUCB(3)), learns_in_crowds("a policy")
    (True, False)
    """
    kind = _KINDS.get(type(policy))
    return kind is not None and kind.can_hold(policy)


def chooses_in_crowds(policy: Any) -> bool:
    """Whether `choose_each` takes policies like this one, whose choices must not be random.

    >>> chooses_in_crowds(DriftUCB(3)), chooses_in_crowds(LinTS(3))
    (True, False)
    """
    return learns_in_crowds(policy) and not bool(policy.is_random)


def pays_to_choose(policy: Any, choices: int, arms: int) -> bool:
    """Whether so many choices, among so many arms in all, are enough work for several threads.

    >>> [pays_to_choose(DriftUCB(25), choices, choices * 100) for choices in (479, 480)]
    [False, True]
    >>> pays_to_choose(DriftUCB(25), 10_000, 10_000 * 10)  # to gather them takes longer
    False
    """
    return bool(arms * policy.dim**2 >= max(_CHOICES, choices * _CHOICE))


def pays_to_learn(policy: Any, rewards: int) -> bool:
    """Whether so many rewards are enough work for several threads.

    >>> [pays_to_learn(policy, 400) for policy in (LinUCB(25), DriftUCB(25), LinUCB(100))]
    [False, True, True]
    """
    return bool(rewards * policy.dim * _KINDS[type(policy)].cost >= _REWARDS)


def choose_each(
    policies: Sequence[Any], pools: Sequence[Floats], pending: Sequence[int], threads: int | None = None
) -> list[int]:
    """What ``policies[i].choose(pools[i], pending=pending[i])`` returns, for every i; -1 where it would raise.

    Parameters
    ----------
    policies : sequence
        Policies that `chooses_in_crowds`, of one class and with the same settings; the same object may come again.
    pools : sequence of array of shape (K, dim)
        Candidates, at least one each, in contiguous arrays of the right number of features.
    pending : sequence of int
        As `DriftUCB.choose` takes it; others do not mind.
    threads : int, optional
        Threads that work at the same time; by default as many as there are cores, up to 8.

    Examples
    --------
    >>> policies = [LinUCB(2), LinUCB(2)]
    >>> policies[1].learn([1.0, 0.0], 0.0)
    ()
    >>> choose_each(policies, [np.eye(2)] * 2, [0, 0])
    [0, 1]
    """
    objects, who = _gathered(policies)
    table = np.array([(_address(pool), len(pool)) for pool in pools])
    waiting, arms = np.array(pending), np.empty(len(who), dtype=np.int64)
    state, dim = objects.state, policies[0].dim

    def run(part: slice) -> None:
        objects.loops[0](state, who, table, dim, waiting, arms, part.start, part.stop)

    _share(objects.models + table[:, 1].mean(), dim, threads)(run, np.arange(len(who)))
    found: list[int] = arms.tolist()
    return found


def learn_each(policies: Sequence[Any], features: Floats, rewards: Floats, threads: int | None = None) -> list[Lesson]:
    """What ``policies[i].learn(features[i], rewards[i])`` does, for every i in order.

    Parameters
    ----------
    policies : sequence
        Policies that `learns_in_crowds`, of one class and with the same settings; the same object may come again.
    features : array of shape (n, dim)
        Features of the arms that were played.
    rewards : array of shape (n,)
        Their rewards, within the policies' bounds.
    threads : int, optional
        See `choose_each`.

    Examples
    --------
    >>> policies = [LinUCB(2), LinUCB(2)]
    >>> [lesson.learned for lesson in learn_each(policies, np.array([[1.0, 0.0], [np.nan, 0.0]]), np.ones(2))]
    [True, False]
    >>> [policy.rounds for policy in policies]
    [1, 0]
    """
    objects, who = _gathered(policies)
    status = np.full(len(who), many.LEFT)
    share = _share(objects.models, features.shape[1], threads)

    def run(order: Ints, part: slice) -> None:
        objects.loops[1](objects.state, who, features, rewards, order, status, part.start, part.stop)

    taught = objects.teach(who, status, run, share)
    revealed = {item: Lesson(True, changes, policies[item].weights_before_change) for item, changes in taught}
    return [revealed.get(i) or (_LEARNED if each >= 0 else _REFUSED) for i, each in enumerate(status.tolist())]


def _gathered(policies: Sequence[Any]) -> tuple[_Objects, Ints]:
    """The different ones among these policies, and which of them each is."""
    places: dict[int, int] = {}
    who = np.array([places.setdefault(id(policy), len(places)) for policy in policies])
    different = list({id(policy): policy for policy in policies}.values())
    return _KINDS[type(policies[0])](different), who


def _share(rows: float, dim: int, threads: int | None) -> Callable[[Callable[[slice], None], Ints], None]:
    """How to share out work on items of which each meets so many models or arms."""
    if threads is None:
        threads = min(default_threads(), _MOST_THREADS)
    return partial(share_out, threads=threads, effort=rows * dim**2)


def _places(policy: DriftUCB) -> tuple[int, int, int, int]:
    """A line of the table in `kernels.scattered`."""
    memo, room = _address(policy._memo), len(policy._seen)
    return memo, _address(policy._bank), _address(policy._seen) if room else memo, room


def _address(array: Floats) -> int:
    """Where the first number of an array is; TypeError if it is not contiguous."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
