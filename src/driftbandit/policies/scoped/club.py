"""CLUB: users who have behaved alike so far share a LinUCB.

A graph joins all users at first. Whenever the estimates of two joined users differ by more than their confidence
allows, the edge between them is deleted, and each connected component of the graph is one cluster with one pooled
LinUCB. Edges never come back, so it assumes that neither tastes nor clusters change. Gentile, Li and Zappella, ICML
2014.
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
from driftbandit.kernels.compile import jit
from driftbandit.policies.base import PolicyBase, finite_scores
from driftbandit.policies.entry import Entry, from_brief
from driftbandit.policies.scoped.graph import BITS, connect, label, part
from driftbandit.policies.scoped.scopes import UserRows
from driftbandit.state import new_generator

_FIRST_CAPACITY = 16
_MANY_USERS = 500  # from this many users on, a random graph replaces the complete one


class CLUB(UserRows, PolicyBase):
    """Clustering of bandits.

    A user joins the graph with the first reward; until then `choose` uses the pooled model of everyone, and changes
    nothing. CLUB reports no changes: when a cluster splits, its users were never alike.

    Parameters
    ----------
    dim : int
        Number of features.
    users : int, optional
        How many users there are, if that is known: all of them are then in the graph from the start, as in the paper,
        and clusters only ever split. By default users enter one by one, each joined to all the others, and a newcomer
        holds clusters together until its own edges are gone.
    explore : float
        Multiplier of sqrt(x' A^-1 x * ln(t + 1)) in the arm choice (the paper's alpha), t counting all users' rounds.
    separation : float
        Two users are separated when their estimates are further apart than this many times c(T) + c(T') (alpha_2), with
        c(T) = sqrt((1 + ln(1 + T)) / (1 + T)) after T rewards; `math.inf` never separates anyone.
    ridge : float
        Regularisation, 1 in the paper.
    density : float, optional
        Probability that two users are joined at the start. By default 1, or 3 ln(users) / users where `users` is
        500 or more.
    seed : int
        Seed of the generator that draws an incomplete graph.
    max_users : int
        A reward of one more user raises ValueError: nobody can be forgotten without tearing clusters apart. The graph
        takes at most `max_users`^2 / 8 bytes.

    Examples
    --------
    >>> import numpy as np
    >>> policy = CLUB(dim=2)
    >>> pool = np.eye(2)
    >>> for t in range(30):
    ...     for user, liked in (("ann", 0), ("bob", 1), ("cid", 0)):
    ...         arm = policy.choose(pool, scope=user)
    ...         changes = policy.learn(pool[arm], float(arm == liked), scope=user)
    >>> policy.clusters
    (('ann', 'cid'), ('bob',))
    """

    dim: int
    is_scoped: ClassVar[bool] = True
    _parts = (
        *PolicyBase._parts,
        *("_count", "_users", "_everyone", "_own", "_sums", "_cluster", "_shared", "_edges", "_generator"),
    )
    _growing = frozenset({"_users", "_own", "_sums", "_cluster", "_shared", "_edges"})

    def __init__(
        self,
        dim: int,
        *,
        users: int | None = None,
        explore: float = 0.3,
        separation: float = 1.0,
        ridge: float = 1.0,
        density: float | None = None,
        seed: int = 0,
        max_users: int = 10_000,
    ) -> None:
        super().__init__()
        self.dim = as_dim(dim)
        known = 0 if users is None else as_count("users", users)
        self.users = users
        self.explore = as_number("explore", explore, 0.0)
        self.separation = math.inf if separation == math.inf else as_number("separation", separation, 0.0)
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)
        if density is None:
            density = 3.0 * math.log(known) / known if known >= _MANY_USERS else 1.0
        self.density = as_number("density", density, 0.0, 1.0)
        self.max_users = as_count("max_users", max_users, least=max(known, 1))
        self._settings = np.array([self.ridge, 0.0, 0.0, 0.0, 0.0])
        self._generator = new_generator(seed)
        self.seed = int(seed)
        self._rows: dict[Scope, int] = {}  # a user's row in the arrays
        self._count = 0  # users in the graph, whether or not they have shown up
        size = kernel.row_size(self.dim)
        self._everyone = np.empty((1, size))
        kernel.reset(self._settings, self._everyone[0], self.dim)
        self._own = np.empty((0, size))  # ridge rows of single users
        self._shared = np.empty((0, size))  # ridge rows of clusters, at the row of their first user
        self._sums = np.empty((0, size - 1))  # per user: sum of reward * x, lower triangle of the sum of x x'
        self._cluster = np.empty(0, dtype=np.int64)  # first user of a user's cluster
        self._edges = np.empty((0, -(-self.max_users // BITS)), dtype=np.int64)  # one bit per other user
        self._grow(max(known, min(_FIRST_CAPACITY, self.max_users)))
        for _ in range(known):
            self._join()
        label(self._edges, self._cluster, np.arange(known))

    @property
    def is_random(self) -> bool:
        """False: only the graph is drawn at random."""
        return False

    @property
    def clusters(self) -> tuple[tuple[Scope, ...], ...]:
        """The users who have given rewards, by cluster."""
        groups: dict[int, list[Scope]] = {}
        for user, row in self._rows.items():
            groups.setdefault(int(self._cluster[row]), []).append(user)
        return tuple(tuple(group) for group in groups.values())

    @property
    def components(self) -> int:
        """Connected components of the graph, including known users who have not shown up."""
        return len(np.unique(self._cluster[: self._count]))

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, scope: Scope) -> int:
        """Index of the arm to play for user `scope`, picked by the LinUCB of the user's cluster (steps 1 and 2)."""
        pool = as_pool(features, self.dim)
        bank, member = self._acting(scope)
        best = kernel.optimistic_arm(self._settings, bank, member, pool)
        if best < 0:
            raise not_finite(pool)
        return best

    ranks_by_scores = True

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, scope: Scope) -> Floats:
        """Score of every candidate for user `scope`, given by the LinUCB of the user's cluster."""
        pool = as_pool(features, self.dim)
        bank, member = self._acting(scope)
        return finite_scores(kernel.predictions(self._settings, bank[member], pool).sum(axis=1), pool)

    def _acting(self, scope: Scope) -> tuple[Floats, int]:
        """The bank and row that choose for a user, after the settings are set to the present exploration."""
        row = self._rows.get(as_scope(scope))
        t = self.rounds + 1
        self._settings[kernel.OFFSET] = self.explore * math.sqrt(math.log(t + 1.0))
        return (self._everyone, 0) if row is None else (self._shared, int(self._cluster[row]))

    def learn(
        self, features: ArrayLike | None, reward: float, arm: int | None = None, *, scope: Scope
    ) -> tuple[Change, ...]:
        """Learn a reward that user `scope` gave, and separate the user from those who differ (steps 3 and 4)."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        user = as_scope(scope)
        if user not in self._rows and len(self._rows) == self.max_users:
            raise ValueError(f"scope: {user!r} is one user more than max_users = {self.max_users}")
        if not kernel.update(self._settings, self._everyone[0], x, reward):
            raise not_finite(x)
        row = self._rows[user] if user in self._rows else self._enter(user)
        _absorb(self._settings, self._own[row], self._shared[self._cluster[row]], self._sums[row], x, reward)
        self.rounds += 1
        if part(self._edges, self._own, row, self._count, self.dim, self.separation):
            cluster = np.flatnonzero(self._cluster[: self._count] == self._cluster[row])
            if label(self._edges, self._cluster, cluster) > 1:
                self._pool(cluster)
        return ()

    def _enter(self, user: Scope) -> int:
        """Give a new user the next row: one that is already in the graph, or a new one."""
        row = len(self._rows)
        if row == self._count:
            if row == len(self._own):
                self._grow(min(2 * row, self.max_users))
            joined = np.unique(self._cluster[self._join()])
            if len(joined) == 1:  # a user without rewards adds nothing to the cluster
                self._cluster[row] = joined[0]
            elif len(joined):
                bridged = np.flatnonzero(np.isin(self._cluster[: self._count], [row, *joined]))
                label(self._edges, self._cluster, bridged)
                self._pool(bridged)
        self._rows[user] = row
        return row

    def _join(self) -> Ints:
        """Add a row to the graph, in a cluster of its own; returns the rows that `density` joins it to."""
        row = self._count
        joined = np.arange(row)
        if self.density < 1.0:
            joined = joined[self._generator.random(row) < self.density]
        connect(self._edges, row, joined)
        self._cluster[row] = row
        self._count += 1
        return joined

    def _pool(self, rows: Ints) -> None:
        """Sum up what the users in these rows have learned, cluster by cluster."""
        d = self.dim
        lower = np.tril_indices(d)
        for first in np.unique(self._cluster[rows]):
            members = rows[self._cluster[rows] == first]
            sums = self._sums[members].sum(axis=0)
            gram = np.zeros((d, d))
            gram[lower] = sums[d:]
            # Eigenvalues rather than a plain inverse, so that no rounding can make A singular.
            values, vectors = np.linalg.eigh(gram)
            inverse = (vectors / (self.ridge + np.maximum(values, 0.0))) @ vectors.T
            self._shared[first, kernel.COUNT] = self._own[members, kernel.COUNT].sum()
            self._shared[first, kernel.THETA : kernel.THETA + d] = inverse @ sums[:d]
            self._shared[first, kernel.THETA + d :] = inverse[lower]

    def _grow(self, capacity: int) -> None:
        more = capacity - len(self._own)
        fresh = np.empty((more, self._own.shape[1]))
        for row in fresh:
            kernel.reset(self._settings, row, self.dim)
        self._own = np.concatenate([self._own, fresh])
        self._shared = np.concatenate([self._shared, fresh])
        self._sums = np.concatenate([self._sums, np.zeros((more, self._sums.shape[1]))])
        self._cluster = np.concatenate([self._cluster, np.zeros(more, dtype=np.int64)])
        self._edges = np.concatenate([self._edges, np.zeros((more, self._edges.shape[1]), dtype=np.int64)])

    def _after_restore(self) -> None:
        rows = len(self._own)
        if not len(self._rows) <= self._count <= min(rows, self.max_users) or any(
            len(array) != rows for array in (self._shared, self._sums, self._cluster, self._edges)
        ):
            raise ValueError("state: users, count and arrays contradict each other")
        cluster = self._cluster[: self._count]
        if (cluster < 0).any() or (cluster > np.arange(self._count)).any():
            raise ValueError("state: cluster: expected the first user of each user's cluster")


@jit
def _absorb(settings: Floats, own: Floats, shared: Floats, sums: Floats, x: Floats, reward: float) -> None:
    """Add one reward to a user's estimate, to the cluster's, and to the user's sums."""
    d = len(x)
    kernel.update(settings, own, x, reward)
    kernel.update(settings, shared, x, reward)
    at = d
    for i in range(d):
        sums[i] += reward * x[i]
        for j in range(i + 1):
            sums[at + j] += x[i] * x[j]
        at += i + 1


ENTRIES = (
    Entry(
        name="club",
        title="CLUB",
        summary="users share a LinUCB until their estimates prove different",
        policy=CLUB,
        settings=from_brief("dim", "seed"),
        page="club",
        place=410,
        scoped=True,
    ),
)
