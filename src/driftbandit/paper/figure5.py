"""Figure 5: the tags of the users that each long-lived dLinUCB member served on LastFM."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_matrix

from driftbandit.core import Floats, Ints
from driftbandit.environments.lastfm import LastFM, Tagging, load_tagging
from driftbandit.environments.tables import data_folder
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.results import Table, number_of
from driftbandit.evaluation.simulate import simulate
from driftbandit.paper.figure4 import EXPLORE
from driftbandit.plots import Cloud, cloud_figure
from driftbandit.policies.choosing_memory.click_warning import ClickWarning
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.report import Artefact

LONG = 1000
"""Rounds that a member must have chosen in to count as long-lived."""

SHOWN = 4
LEAST_USERS = 3
"""Users of a member that must have given a tag for it to be shown: one person's words are no genre."""

WORDS = 30
TOP = 8
DRAWS = 200

GENRES = {
    "rock": re.compile(r"rock\b"),
    "metal": re.compile(r"metal\b"),
    "pop": re.compile(r"pop\b"),
    "hip-hop": re.compile(r"\bhip[- ]?hop\b|\brap\b"),
}
"""The genres that the paper names, and the tags that count for each: britpop is pop, post-rock is rock."""


class Watched(DLinUCB):
    """dLinUCB that notes which member chose in each round."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.chosen_by: list[int] = []

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """As `DLinUCB.choose`."""
        arm = super().choose(features, arms)
        self.chosen_by.append(self.leader)
        return arm


@dataclass(frozen=True)
class Profile:
    """What the users tagged whom one member served.

    Attributes
    ----------
    member, rounds, users : int
        Its id, the rounds it chose in, and the users behind them.
    weights : dict
        Bits that a tag adds to `distance`, heaviest first; tags of fewer than `LEAST_USERS` of its users left out.
    lifts : dict
        How many times as frequent these tags are as among all users.
    genres : dict
        The same for all tags of each of `GENRES` together.
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
    """Tags of parts of a stream, held against those of the whole.

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
        """Share of each user's rounds that is among these."""
        share: Floats = np.bincount(self._stream[rounds], minlength=len(self._rounds)) / self._rounds
        return share

    def _shares(self, served: Floats) -> Floats:
        """Share of each tag in the assignments of the users served, one row a part."""
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


def run(
    *,
    data: str | None = None,
    seeds: Sequence[int],
    **_: Unpack[CompareOptions],
) -> Artefact:
    """Play dLinUCB on the LastFM users and draw the tags of whom its members served; the first of `seeds` counts.

    `data` is the folder that holds the data sets, by default `$DRIFTBANDIT_DATA` or one in the user's home.
    """
    folder = data_folder("lastfm", None if data is None else Path(data) / "lastfm")
    tagging = load_tagging(folder)
    world = LastFM(folder=str(folder))
    rounds = world.rounds(seeds[0])
    policy = Watched.preset("released", rounds.dim, rounds.noise, explore=EXPLORE)
    with warnings.catch_warnings():
        # The told noise was chosen for these clicks (docs/paper/figure4.md); whoever runs this cannot mend it.
        warnings.simplefilter("ignore", ClickWarning)
        simulate(policy, rounds)
    chosen_by = np.array(policy.chosen_by)
    long = min(LONG, int(np.bincount(chosen_by).max()))
    profiles, best_by_chance = profile_members(Tastes(world.users(), tagging), chosen_by, long)
    longest = profiles[:SHOWN]
    leaning = {genre: max(profiles, key=lambda profile: profile.genres[genre]) for genre in GENRES}
    above = [
        Cloud(f"most {' and most '.join(_names_of(profile, leaning))}: {_who(profile)}", profile.weights)
        for profile in _each_once(leaning.values())
    ]
    below = [Cloud(f"{_nth(place)}longest: {_who(profile)}", profile.weights) for place, profile in enumerate(longest)]
    typical = float(np.median([profile.chance for profile in profiles]))
    members = number_of("member", int(chosen_by.max()) + 1)
    return Artefact(
        name="figure5",
        title="Figure 5: tags of the users that dLinUCB's members served on LastFM",
        text=[
            f"dLinUCB as in Figure 4, users one after the other in the authors' order, pool seed {seeds[0]}. Of its "
            f"{members}, {len(profiles)} chose in at least {long:,} rounds. Clouds above: for each genre that the "
            "paper names, the one of these whose users lean most towards it. Below: those that chose in the most "
            "rounds, whatever their tags.",
            "A tag's size is its weight p log2(p / q): p is its share among the tag assignments of the member's "
            "users, q its share among those of all users, so a tag that everybody gives weighs nothing. A user whom "
            "two members served counts for each by the share of his rounds. Tags that fewer than "
            f"{LEAST_USERS} of a member's users gave are not shown.",
            "The paper's claim: each member serves a part of the users, and the clouds of four of them, chosen as "
            "representative, 'clearly correspond' to rock, metal, pop and hip-hop.",
            f"What chance gives: the members' tags are further from everyone's than those of {_percent(typical)} of "
            "stretches of as many rounds drawn at random (median over members; 50 % is chance).",
        ],
        tables=[_genres(leaning, best_by_chance), _longest(longest), _tags([*leaning.values(), *longest])],
        figures={"figure5": cloud_figure([above, below])},
        data={"seed": seeds[0], "members": [asdict(profile) for profile in profiles]},
    )


def profile_members(tastes: Tastes, chosen_by: Ints, long: int) -> tuple[list[Profile], Floats]:
    """Members that chose in at least `long` rounds, longest first, and what as many random stretches would show.

    The second is an array of shape (draws, genres): the highest lift of each genre among random stretches, one as
    long as each member's.
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


def _each_once(profiles: Iterable[Profile]) -> list[Profile]:
    return list({profile.member: profile for profile in profiles}.values())


def _names_of(profile: Profile, leaning: dict[str, Profile]) -> list[str]:
    return [genre for genre, other in leaning.items() if other.member == profile.member]


def _who(profile: Profile) -> str:
    return f"member {profile.member}\n{profile.rounds:,} rounds, {number_of('user', profile.users)}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"


def _nth(place: int) -> str:
    return ("", "second ", "third ", "fourth ")[place]


def _genres(leaning: dict[str, Profile], best_by_chance: Floats) -> Table:
    cells = []
    for column, (genre, profile) in enumerate(leaning.items()):
        lift, by_chance = profile.genres[genre], best_by_chance[:, column]
        cells.append(
            (
                genre,
                f"{profile.member}",
                f"{profile.rounds:,}",
                f"{profile.users}",
                f"{lift:.1f}",
                f"{np.median(by_chance):.1f}",
                _percent(float(np.mean(by_chance < lift))),
            )
        )
    note = (
        "Lift: how many times as frequent the genre's tags are as among all users. By chance: the highest lift among "
        f"as many stretches of as many rounds drawn at random, median of {DRAWS} draws, and how many draws stay below."
    )
    headings = ("genre", "member", "rounds", "users", "lift", "by chance", "draws below")
    return Table("The member that leans most towards each genre", headings, tuple(cells), note)


def _longest(profiles: Sequence[Profile]) -> Table:
    cells = tuple(
        (
            f"member {profile.member}",
            f"{profile.rounds:,}",
            f"{profile.users}",
            *(f"{profile.genres[genre]:.1f}" for genre in GENRES),
            f"{profile.distance:.2f}",
            _percent(profile.chance),
        )
        for profile in profiles
    )
    note = (
        "Genres: lift. Distance: Kullback-Leibler divergence of the member's tags from everyone's, in bits; the last "
        "column is the share of random stretches of as many rounds that are closer."
    )
    headings = ("", "rounds", "users", *GENRES, "distance", "closer by chance")
    return Table("The members that chose in the most rounds", headings, cells, note)


def _tags(profiles: Sequence[Profile]) -> Table:
    cells = tuple(
        (
            f"member {profile.member}",
            ", ".join(
                f"{tag} {1000.0 * weight:.0f} ({profile.lifts[tag]:.1f}×)"
                for tag, weight in list(profile.weights.items())[:TOP]
            ),
        )
        for profile in _each_once(profiles)
    )
    note = "Weight in thousandths of a bit, and lift."
    return Table("Heaviest tags", ("", "tags"), cells, note, numbers=False)
