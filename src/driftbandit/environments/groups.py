"""Groups of users by their features, for logs that do not say who the users are.

The dLinUCB paper's 'N-' variants keep one policy for every group of users, found by k-means. Groups are fitted on the
first part of a log, which then takes no part in the evaluation, so later events cannot leak into the groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from driftbandit.core import Floats, Ints, as_count, as_number
from driftbandit.environments.log import Log
from driftbandit.extras import pip_install

_MOST_FITTED = 100_000
"""Number of users that k-means looks at, evenly spaced in the log; more would not move the centres."""
_STARTS = 4
_DIGITS = 9
"""Decimals to which centres are rounded: further digits of sums over threads may differ."""
_CHUNK = 1 << 16
_WORD = (1 << 32) - 1  # scikit-learn's seeds


@dataclass(frozen=True, eq=False)
class Grouped:
    """A log without its first part, and the group of every user in the rest.

    Attributes
    ----------
    log : Log
        The events after those that the groups were fitted on.
    groups : array of shape (n,)
        Group of the user of each event, from 0 to the number of groups - 1: the `scopes` of `replay`.
    centres : array of shape (G, du)
        Mean features of the groups, in rising order of their first differing feature.
    fitted : int
        Events that the groups were fitted on, the first of the whole log.
    """

    log: Log
    groups: Ints
    centres: Floats
    fitted: int


def group_users(log: Log, groups: int = 5, *, fit: float = 0.1, seed: int = 0) -> Grouped:
    """Fit k-means on the users of the first events, and give every later user the nearest centre.

    Parameters
    ----------
    log : Log
        Events in order of time.
    groups : int
        Number of groups. The default is five, because users of R6A have five features beside the constant, each a
        degree of membership; the literature has up to 160 groups, which need a long log.
    fit : float
        Share of the events to fit on.
    seed : int
        Seed of k-means.

    Raises
    ------
    ImportError
        Without scikit-learn, which comes with the extra `data`.
    ValueError
        If the part to fit on has fewer different users than `groups`, or nothing is left after it.

    Examples
    --------
    >>> log = Log(
    ...     articles=[1], features=[[1.0]], pool_offsets=[0, 1], pool_members=[0], times=range(8),
    ...     pools=[0] * 8, shown=[0] * 8, rewards=[0.0] * 8, users=[[1.0, t % 2 + 0.01 * t] for t in range(8)],
    ... )
    >>> found = group_users(log, 2, fit=0.5)
    >>> found.fitted, len(found.log), found.groups.tolist()
    (4, 4, [0, 1, 0, 1])
    """
    groups = as_count("groups", groups)
    fitted = round(as_number("fit", fit, 0.0, 1.0, open_low=True) * len(log))
    if not 0 < fitted < len(log):
        raise ValueError(f"fit: {fit:g} of {len(log)} events leaves nothing to fit on, or nothing to evaluate")
    centres = _centres(log.users[: fitted : -(-fitted // _MOST_FITTED)], groups, seed)
    rest = log.slice(fitted, len(log))
    return Grouped(rest, nearest(rest.users, centres), centres, fitted)


def nearest(users: Floats, centres: Floats) -> Ints:
    """Row of the nearest centre for each user, the first one on a tie."""
    found = np.empty(len(users), dtype=np.int64)
    lengths = (centres**2).sum(axis=1)
    for start in range(0, len(users), _CHUNK):
        part = slice(start, start + _CHUNK)
        found[part] = np.argmin(lengths - 2.0 * (users[part] @ centres.T), axis=1)
    return found


def _centres(users: Floats, groups: int, seed: int) -> Floats:
    try:
        from sklearn.cluster import KMeans  # noqa: PLC0415 - an extra, and slow to import
    except ImportError as error:
        raise ImportError(f"groups of users need scikit-learn: {pip_install('data')}") from error
    different = len(np.unique(users, axis=0))
    if different < groups:
        raise ValueError(f"groups: expected at most {different}, the different users to fit on, got {groups}")
    model = KMeans(groups, n_init=_STARTS, random_state=as_count("seed", seed, least=0) & _WORD).fit(users)
    found: Floats = np.asarray(model.cluster_centers_, dtype=np.float64)
    centres: Floats = found.round(_DIGITS)
    return centres[np.lexsort(centres.T[::-1])]
