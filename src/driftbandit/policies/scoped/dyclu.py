"""DyClu: users who behave alike now share what they know, and each of them may change at any time.

What a user did between two changes is a unit, with its own regression. A chi-square test of every reward says when a
user has left a unit; a second test, of every pair of units, says which units agree, past units included, so a user who
changes soon joins users who had the new taste before. Li, Wu and Wang, AISTATS 2021.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    Change,
    Floats,
    Ints,
    Scope,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_pool,
    as_reward,
    as_scope,
    not_finite,
)
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels import units, windows
from driftbandit.models.ridge import Radius
from driftbandit.policies.base import PolicyBase, finite_scores
from driftbandit.policies.entry import Entry, from_brief
from driftbandit.policies.scoped.scopes import UserRows

_FIRST_CAPACITY = 16
_FEW = 4  # units that the archive has room for at first


class DyClu(UserRows, PolicyBase):
    """Dynamic clustering of bandits.

    Which users agree with a user is tested whenever the user comes. They need not form a cluster: two users may both
    agree with a third but not with each other. The paper tests a reward only once a user's features have full rank;
    here it is enough that the arm's features are a combination of features the user has seen, which is the same if
    features are in general position. Units that share no direction agree; in public code this comes from comparing NaN.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean; both tests depend on it. For clicks at a rate p it is
        sqrt(p (1 - p)).
    ridge : float
        Regularisation of the pooled model; units have none.
    explore : float, optional
        Constant multiplier of sqrt(x' A^-1 x) in the arm choice; by default dLinUCB's radius.
    unlike : float
        Probability of taking two units with one theta for unlike (alpha_ni); 0 pools everyone.
    surprise : float
        Probability that a reward surprises its unit although nothing has changed (alpha_cd); 0 detects no change.
    delta : float
        Share of surprises that a user who has not changed is allowed (delta_1).
    window_delta : float
        Error probability of the estimate of that share (delta_2).
    window : int
        How many recent rewards of a user that estimate looks at (tau).
    max_users : int
        A reward of one more user raises ValueError.
    max_archived : int
        How many past units are kept, the latest ones.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> policy = DyClu(dim=2, noise=0.1)
    >>> tastes = {"ann": [1.0, 0.0], "bob": [0.0, 1.0], "cid": [1.0, 0.0]}
    >>> for t in range(60):
    ...     if t == 30:
    ...         tastes["cid"] = [0.0, 1.0]
    ...     for user, taste in tastes.items():
    ...         pool = rng.standard_normal((5, 2))
    ...         arm = policy.choose(pool, scope=user)
    ...         changes = policy.learn(pool[arm], pool[arm] @ taste + 0.1 * rng.standard_normal(), scope=user)
    >>> [(policy.users[change.member], change.kind) for change in policy.changes]
    [('cid', 'restarted')]
    >>> policy.alike("cid")
    ('bob',)
    """

    dim: int
    is_scoped: ClassVar[bool] = True
    evidence = ("miss_rate", "bound", "age", "updates")
    _parts = (*PolicyBase._parts, "_users", "_current", "_ledger", "_archive", "_archived")
    _growing = frozenset({"_users", "_current", "_ledger", "_archive"})

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        ridge: float = 0.1,
        explore: float | None = None,
        unlike: float = 0.01,
        surprise: float = 0.01,
        delta: float = 0.1,
        window_delta: float = 0.1,
        window: int = 20,
        max_users: int = 10_000,
        max_archived: int = 1000,
    ) -> None:
        from scipy.special import chdtri  # noqa: PLC0415  (slow to import, and the registry imports this file)

        super().__init__()
        self.dim = as_dim(dim)
        self.noise = as_number("noise", noise, 0.0, open_low=True)
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.explore = None if explore is None else as_number("explore", explore, 0.0)
        self.unlike = as_number("unlike", unlike, 0.0, 1.0)
        self.surprise = as_number("surprise", surprise, 0.0, 1.0)
        self.delta = as_number("delta", delta, 0.0, 1.0)
        self.window_delta = as_number("window_delta", window_delta, 0.0, 1.0, open_low=True)
        self.window = as_count("window", window)
        self.max_users = as_count("max_users", max_users)
        self.max_archived = as_count("max_archived", max_archived, least=0)
        usual = Radius.paper(self.dim, noise=self.noise, ridge=self.ridge, delta=0.01)
        self._settings = (usual if self.explore is None else Radius.fixed(self.explore)).settings(self.ridge)
        variance = self.noise**2
        self._surprising = variance * float(chdtri(1.0, self.surprise))
        self._bounds = variance * np.append(0.0, chdtri(np.arange(1.0, self.dim + 1.0), self.unlike))
        self._rules = np.zeros(windows.RULES)  # rules of a miss rate; the units' own tests replace epsilon
        self._rules[[windows.DELTA, windows.SPAWN_DELTA]] = self.delta
        self._rules[windows.SPREAD] = math.log(1.0 / self.window_delta) / 2.0
        self._rules[windows.STRICT] = 1.0
        self._rows: dict[Scope, int] = {}
        size = units.unit_size(self.dim)
        self._current = np.zeros((_FIRST_CAPACITY, size))  # units that users are in now
        self._ledger = np.zeros((_FIRST_CAPACITY, windows.RING + self.window), dtype=np.int64)
        self._archive = np.zeros((0, size))  # past units, in a ring
        self._archived = 0

    @property
    def users(self) -> tuple[Scope, ...]:
        """The users who have given rewards; `Change.member` is an index into them."""
        return tuple(self._rows)

    def alike(self, scope: Scope) -> tuple[Scope, ...]:
        """The other users whose present units agree with that of user `scope`."""
        mine = self._rows.get(as_scope(scope), -1)
        alike, _ = self._ask(mine)
        return tuple(user for user, row in self._rows.items() if alike[row] and row != mine)

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, scope: Scope) -> int:
        """Index of the arm to play for user `scope`, by a LinUCB on all units that agree with the user's (step 1)."""
        pool = as_pool(features, self.dim)
        best = kernel.optimistic_arm(self._settings, self._acting(scope), 0, pool)
        if best < 0:
            raise not_finite(pool)
        return best

    ranks_by_scores = True

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, scope: Scope) -> Floats:
        """Score of every candidate for user `scope`, given by that LinUCB."""
        pool = as_pool(features, self.dim)
        return finite_scores(kernel.predictions(self._settings, self._acting(scope)[0], pool).sum(axis=1), pool)

    def _acting(self, scope: Scope) -> Floats:
        """A bank of one row: the regression on all units that agree with the user's."""
        now, past = self._ask(self._rows.get(as_scope(scope), -1))
        total = np.zeros(self._current.shape[1])
        units.add_up(total, self._current, now)
        units.add_up(total, self._archive, past)
        bank = np.empty((1, kernel.row_size(self.dim)))
        units.regress(total, self.ridge, bank[0], self.dim)
        return bank

    def learn(
        self, features: ArrayLike | None, reward: float, arm: int | None = None, *, scope: Scope
    ) -> tuple[Change, ...]:
        """Learn a reward that user `scope` gave; returns the change of this user that it revealed (steps 2 and 4)."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        user = as_scope(scope)
        if not kernel.usable(x[np.newaxis], self.ridge):
            raise not_finite(x)
        row = self._rows[user] if user in self._rows else self._enter(user)
        entry = self._ledger[row]
        missed = units.surprises(self._current[row], x, reward, self._surprising)
        if not missed:
            units.absorb(self._current[row], x, reward)
            entry[windows.UPDATES] += 1
        windows.record(entry, int(missed))
        self.rounds += 1
        rate, width = windows.miss_rate(entry, self._rules)
        if windows.standing(rate, width, self._rules) != windows.LOST:
            return ()
        evidence = {
            "miss_rate": rate,
            "bound": self.delta + width,
            "age": float(entry[windows.AGE]),
            "updates": float(entry[windows.UPDATES]),
        }
        self._start_afresh(row)
        return self._report(Change(self.rounds, "restarted", row, evidence))

    def _ask(self, row: int) -> tuple[Ints, Ints]:
        """Which users' units, and which past units, agree with the unit in this row; -1 stands for a new user."""
        mine = self._current[row] if row >= 0 else np.zeros(self._current.shape[1])
        now = np.empty(len(self._rows), dtype=np.int64)
        past = np.empty(min(self._archived, self.max_archived), dtype=np.int64)
        units.agree(mine, self._current, len(now), self._bounds, now)
        units.agree(mine, self._archive, len(past), self._bounds, past)
        if row >= 0:
            now[row] = 1
        return now, past

    def _enter(self, user: Scope) -> int:
        row = len(self._rows)
        if row == self.max_users:
            raise ValueError(f"scope: {user!r} is one user more than max_users = {self.max_users}")
        if row == len(self._current):
            self._current = np.concatenate([self._current, np.zeros_like(self._current)])
            self._ledger = np.concatenate([self._ledger, np.zeros_like(self._ledger)])
        self._rows[user] = row
        return row

    def _start_afresh(self, row: int) -> None:
        """Archive a user's unit, over the oldest one when there are too many, and start an empty one."""
        if self.max_archived:
            at = self._archived % self.max_archived
            if at == len(self._archive):
                more = min(max(at, _FEW), self.max_archived - at)
                self._archive = np.concatenate([self._archive, np.zeros((more, self._archive.shape[1]))])
            self._archive[at] = self._current[row]
            self._archived += 1
        self._current[row] = 0.0
        self._ledger[row] = 0
        self._ledger[row, windows.SPAWNED_AT] = self.rounds

    def _after_restore(self) -> None:
        rows = len(self._current)
        if not len(self._rows) <= min(rows, self.max_users) or len(self._ledger) != rows or not rows:
            raise ValueError("state: users, current and ledger contradict each other")
        if not min(self._archived, self.max_archived) <= len(self._archive) <= self.max_archived:
            raise ValueError("state: archived and archive contradict each other")
        for part in (self._current, self._archive):
            if not np.isin(part[:, units.RANK], range(self.dim + 1)).all():
                raise ValueError("state: current, archive: a rank is out of range")
        if (self._ledger[:, windows.AGE] < 0).any():
            raise ValueError("state: ledger: ages must not be negative")


ENTRIES = (
    Entry(
        name="dyclu",
        title="DyClu",
        summary="users who behave alike now share what they know; each may change at any time",
        policy=DyClu,
        settings=from_brief("dim", "noise"),
        told=("noise",),
        page="dyclu",
        place=420,
        scoped=True,
    ),
)
