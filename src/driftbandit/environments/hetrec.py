"""Hybrid users from tagging data: the streams that the dLinUCB paper made from LastFM and Delicious.

Users tag items. Each item gets features from its tags. Each tagging becomes a round in which the user tagged one item
and never tagged the others. The rounds of many users are put one after the other: where the next user begins, the
hybrid user's taste shifts. This is the paper's Section 4.3, with details taken from its authors' logs.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from driftbandit.core import Floats, Ints, as_count
from driftbandit.environments.converted import Form, load_arrays, save_arrays
from driftbandit.environments.rounds import Rounds
from driftbandit.extras import pip_install

Reduction = Literal["pca", "svd"]

_MOST_REDRAWS = 10_000
"""How often rows that do not fit are redrawn before all items that fit are listed; LastFM takes about 100."""

TOLD_NOISE = 0.25
"""Noise that policies are told on these streams; docs/paper/figure4.md says how it was chosen."""


@dataclass(frozen=True, eq=False)
class Interactions:
    """A tagging data set as arrays.

    Attributes
    ----------
    features : array of shape (A, d)
        One row per item.
    users, items, times : arrays of shape (n,)
        Events: who tagged which item when. Users and items are row numbers.
    tagged_users, tagged_items : arrays
        All pairs of a user and an item that the user ever tagged.
    groups : array of shape (U,)
        Group of each user, -1 for none.
    """

    features: Floats
    users: Ints
    items: Ints
    times: Ints
    tagged_users: Ints
    tagged_items: Ints
    groups: Ints

    _TYPES: ClassVar[dict[str, type[np.generic]]] = {
        "features": np.float64,
        "users": np.int64,
        "items": np.int64,
        "times": np.int64,
        "tagged_users": np.int64,
        "tagged_items": np.int64,
        "groups": np.int64,
    }

    def convert(self, form: Form, cache: str | os.PathLike[str] | None = None) -> Path:
        """Write the converted file of this form; `recall` finds it."""
        arrays = {name: np.ascontiguousarray(getattr(self, name), dtype=kind) for name, kind in self._TYPES.items()}
        return form.write(lambda path: save_arrays(path, arrays), cache)

    @classmethod
    def recall(cls, form: Form, components: int, cache: str | os.PathLike[str] | None = None) -> Interactions | None:
        """Read the converted file of this form, in `cache` if given; None if the file is missing or damaged."""
        path = form.find(cache)
        if path is None:
            return None
        try:
            arrays = load_arrays(path, cls._TYPES)
            data = cls(**{**arrays, "features": arrays["features"].reshape(-1, components)})
            return data if data._fits() else None
        except ValueError:
            return None  # the sources are there, and the next conversion replaces the file

    def _fits(self) -> bool:
        def rows_of(rows: Ints, count: int) -> bool:
            return not len(rows) or bool(rows.min() >= 0 and rows.max() < count)

        return (
            len(self.users) == len(self.items) == len(self.times)
            and len(self.tagged_users) == len(self.tagged_items)
            and all(rows_of(rows, len(self.groups)) for rows in (self.users, self.tagged_users))
            and all(rows_of(rows, len(self.features)) for rows in (self.items, self.tagged_items))
            and bool(np.isfinite(self.features).all())
        )


@dataclass(frozen=True)
class HybridUser:
    """A data set as one user whose taste shifts; subclasses say how to read it.

    Attributes
    ----------
    by : {'user', 'group'}
        Users one after the other, or the ten largest groups of a partition of the friend graph.
    order : int
        0 is the authors' order; any other number is a seed that shuffles users or groups.
    least_events : int
        Events that a user must have to take part.
    reduction : {'pca', 'svd'}
        How 25 features are made from TF-IDF weighted tags.
    folder : str
        Where the data is; empty looks into `$DRIFTBANDIT_DATA` and the default folder.
    """

    by: Literal["user", "group"] = "user"
    order: int = 0
    least_events: int = 10
    reduction: Reduction = "svd"
    folder: str = ""

    def interactions(self) -> Interactions:
        """Read the data set."""
        raise NotImplementedError

    def form(self) -> Form:
        """The files that are read, and where."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """The folder and the state of its files, since the settings do not say where `$DRIFTBANDIT_DATA` points."""
        form = self.form()
        return f"{form.folder.resolve()} {form.file_name()}"

    def rounds(self, seed: int) -> Rounds:
        """All rounds, with pools drawn from `seed`."""
        return hybrid_user(self.interactions(), by=self.by, order=self.order, least_events=self.least_events, seed=seed)

    def users(self) -> Ints:
        """Row number of the user behind each round."""
        data = self.interactions()
        played, _ = events_in_order(data, by=self.by, order=self.order, least_events=self.least_events)
        return data.users[played]


def tag_features(items: Ints, tags: Ints, weights: Floats, components: int, reduction: Reduction) -> Floats:
    """Features of items from their tags: TF-IDF, then the first components; not scaled to unit length afterwards.

    Parameters
    ----------
    items, tags : arrays of shape (n,)
        Row of the item and column of the tag of each assignment; repeated assignments add up.
    weights : array of shape (n,)
        How much each assignment counts.
    components : int
        Features to keep.
    reduction : {'pca', 'svd'}
        Principal components of the centred matrix, or singular vectors of the matrix as it is.

    Examples
    --------
    >>> rows = tag_features(np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]), np.ones(4), 1, "svd")
    >>> rows.shape
    (3, 1)
    """
    try:
        from scipy.sparse import coo_matrix
        from sklearn.decomposition import PCA, TruncatedSVD
        from sklearn.feature_extraction.text import TfidfTransformer
    except ImportError as error:
        raise ImportError(f"features from tags need scikit-learn: {pip_install('data')}") from error
    counts = coo_matrix((weights, (items, tags))).tocsr()
    as_count("components", components)
    if components >= min(counts.shape):
        raise ValueError(f"components: expected fewer than {min(counts.shape)} items and tags, got {components}")
    weighted = TfidfTransformer().fit_transform(counts)
    if reduction == "svd":
        reducer = TruncatedSVD(components, random_state=0)
    else:
        reducer = PCA(components, random_state=0, svd_solver="arpack")
    features: Floats = reducer.fit_transform(weighted)
    return np.ascontiguousarray(features)


def social_groups(people: Ints, first: Ints, second: Ints, count: int = 200) -> Ints:
    """Group of each person by spectral clustering of the graph of friends; -1 for people without friends.

    Parameters
    ----------
    people : array of shape (U,)
        Ids, in rising order.
    first, second : arrays
        Ids of friends.
    count : int
        Number of groups.
    """
    from scipy.sparse import coo_matrix
    from sklearn.cluster import SpectralClustering

    known = np.isin(first, people) & np.isin(second, people) & (first != second)
    ends = np.searchsorted(people, first[known]), np.searchsorted(people, second[known])
    graph = coo_matrix((np.ones(known.sum()), ends), shape=(len(people), len(people))).tocsr()
    graph = graph.maximum(graph.T)
    groups = np.full(len(people), -1)
    social = np.flatnonzero(graph.getnnz(axis=1))
    if len(social) <= count:
        raise ValueError(f"groups: expected more than {count} people with friends, got {len(social)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the graph need not be connected
        groups[social] = SpectralClustering(
            count, affinity="precomputed", assign_labels="cluster_qr", random_state=0
        ).fit_predict(graph[social][:, social])
    return groups


def group_of(people: Ints, members: Ints, groups: Ints) -> Ints:
    """Group of each person from a list of members and their groups; -1 for people not listed."""
    order = np.argsort(members, kind="stable")
    place = np.minimum(np.searchsorted(members[order], people), len(members) - 1)
    found = members[order][place] == people
    return np.where(found, groups[order][place], -1)


def hybrid_user(
    data: Interactions,
    *,
    by: Literal["user", "group"],
    order: int = 0,
    least_events: int = 10,
    largest: int = 10,
    pool: int = 25,
    seed: int = 0,
) -> Rounds:
    """One user made of many.

    Parameters
    ----------
    data : Interactions
        Who tagged what.
    by : {'user', 'group'}
        Put users with at least `least_events` events one after the other, or the `largest` groups of users. In a group,
        users come in the order of their ids, and a user's events in the order of time.
    order : int
        0 keeps the order of ids, which is the authors'; any other number is a seed that shuffles users or groups.
    least_events, largest : int
        Which users or groups take part.
    pool : int
        Arms per round: one that the user tagged, the others drawn from items that the user never tagged.
    seed : int
        Seed of the pools.
    """
    as_count("pool", pool, least=2)
    played, turn = events_in_order(data, by=by, order=order, least_events=least_events, largest=largest)
    users, positives = data.users[played], data.items[played]
    rng = np.random.default_rng([as_count("seed", seed, least=0), pool])
    negatives = _never_tagged(data, users, pool - 1, rng)
    pools = np.concatenate([positives[:, np.newaxis], negatives], axis=1)
    where = rng.integers(pool, size=len(pools))
    rows = np.arange(len(pools))
    pools[rows, 0] = pools[rows, where]
    pools[rows, where] = positives
    rewards = np.zeros(pools.shape)
    rewards[rows, where] = 1.0
    return Rounds(
        catalogue=data.features,
        pools=pools,
        arms=pools,
        means=rewards,
        rewards=rewards,
        shifts=np.flatnonzero(np.diff(turn)) + 1,
        noise=TOLD_NOISE,
        reward_range=(0.0, 1.0),
        seed=seed,
        scopes=users,
    )


def events_in_order(
    data: Interactions, *, by: Literal["user", "group"], order: int = 0, least_events: int = 10, largest: int = 10
) -> tuple[Ints, Ints]:
    """The events that `hybrid_user` plays, in order, and the user or group of each event, counted from 0."""
    owners = data.users if by == "user" else data.groups[data.users]
    names, sizes = np.unique(owners[owners >= 0], return_counts=True)
    if by == "user":
        names = names[sizes >= as_count("least_events", least_events)]
    else:
        ranked = np.lexsort((names, -sizes))[: as_count("largest", largest)]
        names = np.sort(names[ranked])
    if not len(names):
        raise ValueError(f"{by}: no {by} has enough events")
    if order:
        names = np.random.default_rng(as_count("order", order)).permutation(names)
    place = np.full(int(owners.max()) + 1, -1)
    place[names] = np.arange(len(names))
    turn = np.where(owners >= 0, place[owners], -1)
    kept = np.flatnonzero(turn >= 0)
    kept = kept[np.lexsort((data.times[kept], data.users[kept], turn[kept]))]
    return kept, turn[kept]


def _never_tagged(data: Interactions, users: Ints, count: int, rng: np.random.Generator) -> Ints:
    """For every event, `count` different items that its user never tagged."""
    items = len(data.features)
    # A pair of user and item is one number, so that looking up many pairs is one search in a sorted array.
    tagged = np.unique(data.tagged_users * items + data.tagged_items)
    heaviest = np.bincount(tagged // items).max()
    if items - heaviest < count:
        raise ValueError(f"pool: a user tagged {heaviest} of {items} items, too many to find {count} others")
    drawn = rng.integers(items, size=(len(users), count))
    wrong = np.arange(len(users))
    for _ in range(_MOST_REDRAWS):
        part = drawn[wrong]
        keys = users[wrong, np.newaxis] * items + part
        found = tagged[np.minimum(np.searchsorted(tagged, keys), len(tagged) - 1)] == keys
        ordered = np.sort(part, axis=1)
        repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
        wrong = wrong[found.any(axis=1) | repeated]
        drawn[wrong] = rng.integers(items, size=(len(wrong), count))
        if not len(wrong):
            break
    for event in wrong:  # for users who tagged almost everything
        others = np.setdiff1d(np.arange(items), tagged[tagged // items == users[event]] % items)
        drawn[event] = rng.choice(others, count, replace=False)
    return drawn
