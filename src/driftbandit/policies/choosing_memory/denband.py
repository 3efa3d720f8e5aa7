"""DenBand: dLinUCB whose members are judged arm by arm.

A shift may change some arms and leave others alone, and a member that is wrong about the changed arms may still be
right about the others. Every member has an auditor, a ridge regression of the member's recent residuals on the
features, which says how wrong the member is about an arm. Each arm is scored by the member that may be least wrong
about it, and a new member is spawned when none is right about the arm that was played. Wu, Wang, Li and Wang, WWW 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    Change,
    ChangeKind,
    Floats,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_pool,
    as_reward,
    not_finite,
)
from driftbandit.kernels import auditors
from driftbandit.kernels import ridge as kernel
from driftbandit.models.ridge import Radius
from driftbandit.policies.base import PolicyBase, finite_scores
from driftbandit.policies.entry import Entry, from_brief


@dataclass(frozen=True, slots=True)
class AuditedMember:
    """One member as it stands now.

    Attributes
    ----------
    id : int
        Counted from 0 in order of birth.
    spawned_at : int
        Round after which it was added.
    age : int
        Rewards its auditor has seen.
    updates : int
        Rewards it learned from.
    led_at : int
        The last round in which it was the one to trust about the arm played; 0 if there was none.
    """

    id: int
    spawned_at: int
    age: int
    updates: int
    led_at: int


class DenBand(PolicyBase):
    """Dynamic ensemble of bandits with arm-dependent auditors.

    Members and their test of a single reward are dLinUCB's. `choose` keeps nothing, so an arm about which no member is
    right is scored as a fresh member would score it. A new member is spawned once such an arm has been played, at most
    one per round. A member is never retired for being wrong: when an old taste returns, its member may be trusted
    again, and that is not reported as a change. At `max_members` the member not trusted for the longest time makes
    room.

    The authors' code all but removes the auditor's width (a factor of 0.002), which leaves the noise bound of one
    reward as the only allowance. Here the width counts, and the allowance is smaller, because averaging residuals
    averages their noise.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean.
    ridge : float
        Regularisation of members and auditors.
    explore : float, optional
        Constant multiplier of sqrt(x' A^-1 x) in the arm choice; by default the radius that members are judged with
        (dLinUCB's alpha_t).
    delta : float
        Share of rewards that a correct member may refuse to learn from, because they are further off than noise
        explains.
    audit : float
        Width of an auditor's estimate: this many standard deviations of the noise, times sqrt(x' G^-1 x).
    slack : float
        How wrong a member may be beyond both widths, in units of the noise bound of one reward (1 as published).
    window : int
        How many recent rewards an auditor looks at.
    max_age : int, optional
        After this many rounds a member stops learning (half the horizon in the authors' code); by default never.
    max_members : int
        At this many members, the one not trusted for the longest time makes room for a new one.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> policy = DenBand(dim=3, noise=0.1)
    >>> for t in range(1000):
    ...     features = rng.standard_normal((10, 3))
    ...     features /= np.linalg.norm(features, axis=1, keepdims=True)
    ...     arm = policy.choose(features)
    ...     theta = [0.5, 0.5, 0.5 if t < 500 else -0.5]  # one of three weights flips its sign
    ...     changes = policy.learn(features[arm], features[arm] @ theta + 0.1 * rng.standard_normal())
    >>> [(change.kind, change.round) for change in policy.changes]
    [('spawned', 509)]
    """

    dim: int
    evidence = ("badness", "bound", "age", "updates")
    _parts = (*PolicyBase._parts, "_bank", "_auditors", "_biases", "_ledger", "_recent", "_count", "_spawned")
    _growing = frozenset({"_bank", "_auditors", "_biases", "_ledger"})

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        ridge: float = 0.1,
        explore: float | None = None,
        delta: float = 0.01,
        audit: float = 3.0,
        slack: float = 0.3,
        window: int = 50,
        max_age: int | None = None,
        max_members: int = 10,
    ) -> None:
        super().__init__()
        self.dim = as_dim(dim)
        self.noise = as_number("noise", noise, 0.0)
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.explore = None if explore is None else as_number("explore", explore, 0.0)
        self.delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
        self.audit = as_number("audit", audit, 0.0)
        self.slack = as_number("slack", slack, 0.0)
        self.window = as_count("window", window)
        self.max_age = None if max_age is None else as_count("max_age", max_age)
        self.max_members = as_count("max_members", max_members)
        radius = Radius.paper(self.dim, noise=self.noise, ridge=self.ridge, delta=self.delta)
        self._test = radius.settings(self.ridge)
        self._act = (radius if self.explore is None else Radius.fixed(self.explore)).settings(self.ridge)
        self._audit = Radius.fixed(self.audit * self.noise).settings(self.ridge)
        epsilon = NormalDist().inv_cdf(1.0 - self.delta / 2.0) * self.noise  # dLinUCB's bound on a reward's noise
        self._rules = np.array([epsilon, self.slack * epsilon])  # in the slots that `kernels.auditors` names
        size = kernel.row_size(self.dim)
        self._bank = np.zeros((1, size))  # members: [n, theta, A^-1]
        self._auditors = np.zeros((1, size))  # the same over the window, with G for A
        self._biases = np.zeros((1, self.dim))  # beta: what residuals regress to
        self._ledger = np.zeros((1, auditors.COLUMNS), dtype=np.int64)
        self._recent = np.zeros((self.window, self.dim + 1))  # features and reward, in a ring
        self._count = self._spawned = 0
        self._add_member()

    @property
    def members(self) -> tuple[AuditedMember, ...]:
        """The members as they stand, oldest first."""
        return tuple(AuditedMember(*entry) for entry in self._ledger[: self._count].tolist())

    def trusted(self, features: ArrayLike | None) -> int | None:
        """Id of the member that is trusted about an arm with these features, shape (dim,); None if there is none."""
        x = as_example(features, self.dim)
        member = self._find_trusted(x)
        return None if member < 0 else int(self._ledger[member, auditors.ID])

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm to play among this round's candidates, shape (K, dim) (steps 1 and 2)."""
        pool = as_pool(features, self.dim)
        best = auditors.best_arm(
            self._act, self._test, self._audit, self._rules, self._bank, self._auditors, self._biases, self._count, pool
        )
        if best < 0:
            raise not_finite(pool)
        return best

    ranks_by_scores = True

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> Floats:
        """Score of every candidate, given by the member that is trusted about it."""
        pool = as_pool(features, self.dim)
        scores = auditors.arm_scores(
            self._act, self._test, self._audit, self._rules, self._bank, self._auditors, self._biases, self._count, pool
        )
        return finite_scores(scores, pool)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Show the reward of an arm with these features, shape (dim,), to every member (steps 3 and 4)."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        leader = self._find_trusted(x)
        self.rounds += 1
        changes: tuple[Change, ...] = ()
        if leader < 0:
            changes = self._spawn(x)
            leader = self._count - 1
        self._ledger[leader, auditors.LED_AT] = self.rounds
        auditors.show(
            self._test,
            self._audit,
            self._rules,
            self._bank,
            self._auditors,
            self._biases,
            self._ledger,
            self._recent,
            self._count,
            self.rounds - 1,
            math.inf if self.max_age is None else float(self.max_age),
            x,
            reward,
        )
        return changes

    def _find_trusted(self, x: Floats) -> int:
        if not kernel.usable(x[np.newaxis], self.ridge):
            raise not_finite(x)
        return auditors.trusted(
            self._test, self._audit, self._rules, self._bank, self._auditors, self._biases, self._count, x
        )

    def _spawn(self, x: Floats) -> tuple[Change, ...]:
        """Add a member, since none is right about `x`."""
        verdicts = [
            auditors.verdict(self._test, self._audit, self._rules, self._bank[m], self._auditors[m], self._biases[m], x)
            for m in range(self._count)
        ]
        # The best of the old members made the spawn necessary, so its numbers are the evidence.
        best = min(range(self._count), key=lambda m: verdicts[m][0] - verdicts[m][1])
        changes = [self._change("spawned", best, verdicts[best], member=self._spawned)]
        if self._count == self.max_members:
            idle = int(np.argmin(self._ledger[: self._count, auditors.LED_AT]))
            changes.append(self._change("retired", idle, verdicts[idle]))
            for array in (self._bank, self._auditors, self._biases, self._ledger):
                array[idle : self._count - 1] = array[idle + 1 : self._count]
            self._count -= 1
        self._add_member()
        return self._report(*changes)

    def _change(
        self, kind: ChangeKind, why: int, verdict: tuple[float, float, float], member: int | None = None
    ) -> Change:
        identity, _, age, updates, _ = self._ledger[why].tolist()
        badness, _, bound = verdict
        evidence = {"badness": badness, "bound": bound, "age": float(age), "updates": float(updates)}
        return Change(self.rounds, kind, identity if member is None else member, evidence)

    def _add_member(self) -> None:
        new = self._count
        if new == len(self._bank):
            for name in self._growing:
                array = getattr(self, name)
                setattr(self, name, np.concatenate([array, np.zeros_like(array)]))
        kernel.reset(self._test, self._bank[new], self.dim)
        kernel.reset(self._test, self._auditors[new], self.dim)
        self._biases[new] = 0.0
        self._ledger[new] = self._spawned, self.rounds, 0, 0, 0
        self._count += 1
        self._spawned += 1

    def _after_restore(self) -> None:
        rows = {len(self._bank), len(self._auditors), len(self._biases), len(self._ledger)}
        if len(rows) > 1 or not 1 <= self._count <= min(*rows, self.max_members):
            raise ValueError("state: count, bank, auditors, biases and ledger contradict each other")
        if (self._ledger[:, auditors.AGE] < 0).any():
            raise ValueError("state: ledger: ages must not be negative")


ENTRIES = (
    Entry(
        name="denband",
        title="DenBand",
        summary="members judged arm by arm: a change of some arms is noticed, and old members stay in use for others",
        policy=DenBand,
        settings=from_brief("dim", "noise"),
        told=("noise",),
        page="denband",
        place=60,
    ),
)
