"""What is true in a made-up Yahoo! log: who the users are, which articles live when, and how often they are clicked."""

from __future__ import annotations

import math
import os
import zipfile
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints
from driftbandit.files import whole_file

START = 1241160900
"""Time of the first line of the real log, in unix seconds."""
DAY = 86_400
_HOUR = 3600
_FIRST_ARTICLE = 109_453

_SPREAD = 0.5
"""Dirichlet parameter of article features: below 1, so that most articles have one or two strong features."""
_CENTRE_SPREAD = 0.3
_CENTRE_DRAWS = 1000
_TASTES = 5


@dataclass(frozen=True, eq=False)
class Plan:
    """The truth behind a made-up log.

    A user of group g clicks article a in segment s with probability ``rates[a, g, s]``; segments are the times between
    the planted changes.

    Attributes
    ----------
    files : tuple of str
        Names of the files written.
    articles, features : arrays of shape (A,) and (A, 6)
        Ids and features of all articles; column 0 is the constant.
    born, died : arrays of shape (A,)
        An article is a candidate from `born` to before `died`, in unix seconds.
    changes : array of shape (S - 1,)
        First second of each new segment.
    rates : array of shape (A, G, S)
        Click probabilities.
    centres, weights : arrays of shape (G, 6) and (G,)
        Mean features of each group's users, and the group's share of the users.
    groups : array of int8, one for each line
        Group of the user.
    blemishes : array of int8, one for each line
        What was done to the line, as an index into `driftbandit.kernels.r6a.KINDS`; -1 for nothing.

    Examples
    --------
    >>> plan = draw_plan(np.random.default_rng(0), days=1, candidates=3, groups=2, changes=1)
    >>> plan.rates.shape == (len(plan.articles), 2, 2), plan.segment([plan.changes[0] - 1, plan.changes[0]]).tolist()
    (True, [0, 1])
    """

    files: tuple[str, ...]
    articles: Ints
    features: Floats
    born: Ints
    died: Ints
    changes: Ints
    rates: Floats
    centres: Floats
    weights: Floats
    groups: NDArray[np.int8]
    blemishes: NDArray[np.int8]

    def segment(self, times: Any) -> Ints:
        """Segment in which each of these times lies."""
        segments: Ints = np.searchsorted(self.changes, times, side="right")
        return segments

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to an .npz file, whole or not at all."""
        with whole_file(path) as partial, open(partial, "wb") as file:
            np.savez_compressed(file, **{part.name: getattr(self, part.name) for part in fields(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan back.

        Raises
        ------
        ValueError
            If the file was not written by `save`.
        """
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                parts = {part.name: arrays[part.name] for part in fields(cls)}
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{path}: no such file") from error
        except (OSError, KeyError, TypeError, AttributeError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path}: not the plan of a made-up log ({error})") from error
        return cls(**{**parts, "files": tuple(parts["files"].tolist())})


def draw_plan(
    rng: Generator,
    *,
    days: int,
    candidates: int,
    groups: int,
    changes: int,
    share: float = 1.0,
    clicks: tuple[float, float] = (0.02, 0.10),
    lifetime: tuple[float, float] = (6.0, 36.0),
    common: float = 0.5,
    reverse: bool = False,
) -> Plan:
    """Draw articles, users and click rates; see `write_synthetic` for the parameters."""
    born, died = _lives(rng, candidates, days * DAY, lifetime)
    topics = rng.dirichlet(np.full(_TASTES, _SPREAD), size=len(born))
    centres = _centres(rng, groups)
    # A change lies in the middle half of its share of the time, so that no segment is short.
    spots = (np.arange(changes) + 0.5 + rng.uniform(0.25, 0.75, size=changes)) / (changes + 1)
    rates = _rates(rng, topics, groups, changes + 1, share, common, reverse)
    low, high = clicks
    return Plan(
        files=(),
        articles=_FIRST_ARTICLE + np.cumsum(rng.integers(1, 4, size=len(born))),
        features=with_constant(topics),
        born=born,
        died=died,
        changes=START + (spots * days * DAY).astype(np.int64),
        rates=low + (high - low) * rates,
        centres=with_constant(centres),
        weights=rng.dirichlet(np.full(groups, 5.0)),
        groups=np.empty(0, dtype=np.int8),
        blemishes=np.empty(0, dtype=np.int8),
    )


def with_constant(tastes: Floats) -> Floats:
    """Put the constant before the five features, all rounded as they are written."""
    rounded: Floats = np.round(np.column_stack([np.ones(len(tastes)), tastes]), 6).astype(np.float64)
    return rounded


def _lives(rng: Generator, candidates: int, span: int, lifetime: tuple[float, float]) -> tuple[Ints, Ints]:
    """Births and deaths, in order of birth: in each place among the candidates, one article follows another."""
    low, high = (max(1, round(_HOUR * hours)) for hours in lifetime)
    lengths = rng.integers(low, high, size=(candidates, math.ceil(span / low) + 1), endpoint=True)
    ends = np.cumsum(lengths, axis=1) - (rng.random(candidates) * lengths[:, 0]).astype(np.int64)[:, None]
    begins = ends - lengths
    lived = (ends > 0) & (begins < span)
    order = np.argsort(begins[lived], kind="stable")
    return START + begins[lived][order], START + ends[lived][order]


def _centres(rng: Generator, groups: int) -> Floats:
    """Points of the simplex that are far apart: each is the farthest from the points before it."""
    draws = rng.dirichlet(np.full(_TASTES, _CENTRE_SPREAD), size=max(_CENTRE_DRAWS, groups))
    chosen = [0]
    distance = np.linalg.norm(draws - draws[0], axis=1)
    while len(chosen) < groups:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(draws - draws[chosen[-1]], axis=1))
    centres: Floats = draws[chosen]
    return centres


def _rates(
    rng: Generator, topics: Floats, groups: int, segments: int, share: float, common: float, reverse: bool
) -> Floats:
    """Appeal of every article to every group in every segment, from 0 to 1.

    Appeal is linear in the article's features. A share of a group's taste is common to everyone, the rest is its own. A
    change moves every weight of a taste to another feature, or turns the taste around.
    """
    everyone = rng.permutation(np.linspace(0.0, 1.0, _TASTES))
    own = rng.permuted(np.tile(np.linspace(0.0, 1.0, _TASTES), (groups, 1)), axis=1)
    rates = np.empty((len(topics), groups, segments))
    for segment in range(segments):
        if segment and reverse:
            everyone, own = 1.0 - everyone, 1.0 - own
        elif segment:
            everyone = np.roll(everyone, rng.integers(1, _TASTES))
            own = np.stack([np.roll(taste, rng.integers(1, _TASTES)) for taste in own])
        rates[:, :, segment] = topics @ (common * everyone + (1.0 - common) * own).T
        if segment:
            stays = rng.random(len(topics)) >= share
            rates[stays, :, segment] = rates[stays, :, segment - 1]
    return rates
