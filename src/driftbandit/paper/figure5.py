"""Figure 5: the tags of the users that each long-lived dLinUCB member served on LastFM."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from matplotlib.font_manager import findfont
from numpy.typing import ArrayLike

from driftbandit.core import Floats
from driftbandit.environments.lastfm import LastFM, load_tagging
from driftbandit.environments.tables import data_folder
from driftbandit.evaluation.compare import CompareOptions
from driftbandit.evaluation.results import Table, number_of
from driftbandit.evaluation.simulate import simulate
from driftbandit.extras import pip_install
from driftbandit.paper.figure4_policies import EXPLORE
from driftbandit.paper.figure5_tastes import DRAWS, GENRES, LEAST_USERS, Profile, Tastes, profile_members
from driftbandit.paper.verdicts import Claim, judged, verdict_table
from driftbandit.plots import COLOURS, Picture
from driftbandit.policies.choosing_memory.click_warning import ClickWarning
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.report import Artefact

LONG = 1000
"""Rounds in which a member must have chosen to count as long-lived."""

_CLEAR = 0.95  # share of random draws that a member must beat

SHOWN = 4
TOP = 8


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


def run(
    *,
    data: str | None = None,
    seeds: Sequence[int],
    **_: Unpack[CompareOptions],
) -> Artefact:
    """Play dLinUCB on LastFM and draw the tags of the users that each member served; uses the first of `seeds`.

    `data` is the folder that holds the data sets, by default `$DRIFTBANDIT_DATA` or one in the user's home.
    """
    folder = data_folder("lastfm", None if data is None else Path(data) / "lastfm")
    tagging = load_tagging(folder)
    world = LastFM(folder=str(folder))
    rounds = world.rounds(seeds[0])
    policy = Watched.preset("released", rounds.dim, rounds.noise, explore=EXPLORE)
    with warnings.catch_warnings():
        # The noise was chosen for these clicks (docs/paper/figure4.md), so the warning would not help the user.
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
    claim = _claim(leaning, best_by_chance)
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
        tables=[
            _genres(leaning, best_by_chance),
            _longest(longest),
            _tags([*leaning.values(), *longest]),
            verdict_table([claim]),
        ],
        figures={"figure5": cloud_figure([above, below])},
        data={
            "seed": seeds[0],
            "members": [asdict(profile) for profile in profiles],
            "claims": [claim.as_dict()],
        },
    )


def _claim(leaning: dict[str, Profile], best_by_chance: Floats) -> Claim:
    """Whether members lean further towards the paper's genres than random stretches of the stream do."""
    clear = [
        genre
        for column, (genre, profile) in enumerate(leaning.items())
        if np.mean(best_by_chance[:, column] < profile.genres[genre]) >= _CLEAR
    ]
    return Claim(
        "The members' tags clearly correspond to rock, metal, pop and hip-hop.",
        f"{len(clear)} of {len(leaning)} genres: some member leans further than in {_percent(_CLEAR)} of random draws.",
        judged(len(clear) == len(leaning), bool(clear)),
    )


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


@dataclass(frozen=True)
class Cloud:
    """One panel of `cloud_figure`: its title, and words with their weights."""

    title: str
    weights: Mapping[str, float]


def cloud_figure(rows: Sequence[Sequence[Cloud]]) -> Picture:
    """Word clouds: the heavier a word, the larger it is set. The same words give the same picture.

    Parameters
    ----------
    rows : sequence of sequences of Cloud
        Panels; a row has one colour.
    """
    try:
        from wordcloud import WordCloud
    except ImportError as error:
        raise ImportError(f"word clouds need wordcloud: {pip_install('data')}") from error
    columns = max(len(row) for row in rows)
    figure = Picture(figsize=(3.4 * columns, 3.5 * len(rows)), layout="constrained")
    for line, place, cloud in (
        (line, place, cloud) for line, row in enumerate(rows) for place, cloud in enumerate(row)
    ):
        axes = figure.add_subplot(len(rows), columns, line * columns + place + 1)
        axes.set_title(cloud.title.replace("$", r"\$"), fontsize=10)
        axes.set_axis_off()
        if not cloud.weights:
            axes.text(0.5, 0.5, "nothing stands out", ha="center", va="center", color="#666666")
            continue
        colour = COLOURS[line % len(COLOURS)]
        words = WordCloud(
            font_path=findfont("DejaVu Sans"),  # this font comes with Matplotlib, and has accents
            width=850,
            height=720,
            background_color="white",
            color_func=lambda *_, colour=colour, **__: colour,
            prefer_horizontal=1.0,
            relative_scaling=0.5,
            max_font_size=130,
            min_font_size=26,
            margin=16,  # otherwise a small word could end up inside a larger tag of two words
            random_state=0,
        ).generate_from_frequencies(dict(cloud.weights))
        axes.imshow(words.to_array(), interpolation="bilinear")
    return figure
