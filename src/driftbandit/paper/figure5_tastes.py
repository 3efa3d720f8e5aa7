"""The numbers of Figure 5: tags of the users that each dLinUCB member served, compared with everyone's."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix

from driftbandit.core import Floats, Ints
from driftbandit.environments.lastfm import Tagging

LEAST_USERS = 3
"""A tag is shown only if this many users of a member gave it: one person's words are no genre."""

WORDS = 30
DRAWS = 200

GENRES = {
    "rock": re.compile(r"rock\b"),
    "metal": re.compile(r"metal\b"),
    "pop": re.compile(r"pop\b"),
    "hip-hop": re.compile(r"\bhip[- ]?hop\b|\brap\b"),
}
"""The genres that the paper names, and the tags that count for each: britpop is pop, post-rock is rock."""


@dataclass(frozen=True)
class Profile:
    """Tags of the users that one member served.

    Attributes
    ----------
    member, rounds, users : int
        The member's id, the rounds in which it chose, and the users of these rounds.
    weights : dict
        Bits that a tag adds to `distance`, heaviest first; tags of fewer than `LEAST_USERS` of its users left out.
    lifts : dict
        How many times as frequent these tags are as among all users.
    genres : dict
        How many times as frequent all tags of each of `GENRES` are, taken together, as among all users.
    distance : float
        Kullback-Leibler divergence of the member's tags from everyone's, in bits.
    chance : float
        Share of stretches of as many rounds, drawn at random, whose distance is smaller.
    """

    member: int
    rounds: int
    users: int
    weights: dict[str, float]
    lifts: dict[str, float]
    genres: dict[str, float]
    distance: float
    chance: float


class Tastes:
    """Tags of parts of a stream, compared with those of the whole.

    Parameters
    ----------
    stream : array of shape (T,)
        User behind each round.
    tagging : Tagging
        Who gave which tag.
    """

    def __init__(self, stream: Ints, tagging: Tagging) -> None:
        people, self._stream = np.unique(stream, return_inverse=True)
        self._rounds = np.bincount(self._stream)
        rows = np.searchsorted(people, tagging.users)
        taking_part = np.isin(tagging.users, people)
        tags, columns = np.unique(tagging.tags[taking_part], return_inverse=True)
        self.names = [tagging.names[tag] for tag in tags]
        self._counts = coo_matrix(
            (np.ones(len(columns)), (rows[taking_part], columns)), shape=(len(people), len(tags))
        ).tocsr()
        self.whole = self._shares(np.ones((1, len(people))))[0]
        self._in_genre = np.array([[bool(words.search(name)) for name in self.names] for words in GENRES.values()])

    def served(self, rounds: Ints | slice) -> Floats:
        """Share of each user's rounds that belongs to these rounds."""
        share: Floats = np.bincount(self._stream[rounds], minlength=len(self._rounds)) / self._rounds
        return share

    def _shares(self, served: Floats) -> Floats:
        """Share of each tag in the assignments of the users served, one row per part."""
        counts = served @ self._counts
        shares: Floats = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def weigh(self, served: Floats) -> tuple[Floats, Floats, Floats]:
        """p, p log2(p / q) and the lift of each genre, for rows of `served`; q are the shares in the whole stream."""
        shares = self._shares(served)
        weights = shares * np.log2(np.where(shares > 0.0, shares, self.whole) / self.whole)
        with np.errstate(divide="ignore", invalid="ignore"):
            genres = (shares @ self._in_genre.T) / (self.whole @ self._in_genre.T)
        return shares, weights, np.nan_to_num(genres)

    def users_of_tags(self, served: Floats) -> Ints:
        """How many of the users served gave each tag."""
        return np.bincount(self._counts[np.flatnonzero(served)].indices, minlength=len(self.names))

    def random_stretches(self, length: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Distances and genre lifts of `DRAWS` stretches of that many consecutive rounds."""
        starts = rng.integers(len(self._stream) - length + 1, size=DRAWS)
        _, weights, genres = self.weigh(np.array([self.served(slice(start, start + length)) for start in starts]))
        return weights.sum(axis=1), genres


def profile_members(tastes: Tastes, chosen_by: Ints, long: int) -> tuple[list[Profile], Floats]:
    """Members that chose in at least `long` rounds, most rounds first, and the lifts of as many random stretches.

    The lifts are an array of shape (draws, genres): the highest lift of each genre among random stretches, one per
    member and as long as the member's rounds.
    """
    rng = np.random.default_rng(0)
    sizes = np.bincount(chosen_by)
    members = [int(m) for m in np.argsort(-sizes, kind="stable") if sizes[m] >= long]
    best_by_chance = np.zeros((DRAWS, len(GENRES)))
    profiles = []
    for member in members:
        served = tastes.served(np.flatnonzero(chosen_by == member))
        shares, weights, genres = (part[0] for part in tastes.weigh(served[np.newaxis]))
        distances, by_chance = tastes.random_stretches(int(sizes[member]), rng)
        best_by_chance = np.maximum(best_by_chance, by_chance)
        users = int(np.count_nonzero(served))
        common = tastes.users_of_tags(served) >= min(LEAST_USERS, users)
        shown = [int(tag) for tag in np.argsort(-weights, kind="stable")[:1000] if weights[tag] > 0.0 and common[tag]]
        profiles.append(
            Profile(
                member=member,
                rounds=int(sizes[member]),
                users=users,
                weights={tastes.names[tag]: float(weights[tag]) for tag in shown[:WORDS]},
                lifts={tastes.names[tag]: float(shares[tag] / tastes.whole[tag]) for tag in shown[:WORDS]},
                genres=dict(zip(GENRES, genres.tolist(), strict=True)),
                distance=float(weights.sum()),
                chance=float(np.mean(distances < weights.sum())),
            )
        )
    return profiles, best_by_chance
