"""What has to be known before policies can run on a log: how its features are made, and what policies are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from driftbandit.core import Floats, as_count
from driftbandit.features import Encoder
from driftbandit.logs.learning import SAMPLE, dim_of, fit_encoder
from driftbandit.policies.registry import Brief

if TYPE_CHECKING:
    from driftbandit.logs import DecisionLog


@dataclass(frozen=True)
class Preparation:
    """What the beginning of a log settled.

    Attributes
    ----------
    encoder : Encoder or None
        What makes the features; None if the log has numeric features of its own.
    brief : Brief
        What policies are told: the number of features; as noise, the standard deviation of the rewards; as reward
        range, the smallest one that holds 0, 1 and all of these rewards.
    decisions : int
        How many decisions were looked at.
    """

    encoder: Encoder | None
    brief: Brief
    decisions: int


def prepare(
    log: DecisionLog,
    *,
    encoder: Encoder | None = None,
    dim: int | None = None,
    count: int = SAMPLE,
    seed: int = 0,
) -> Preparation:
    """Look at the first decisions of a log: fit an encoder if it has no features, and see what rewards are like.

    Parameters
    ----------
    log : DecisionLog
        The log, as `read_log` opens it.
    encoder : Encoder, optional
        An encoder that is ready, to be used instead of the log's features or of one fitted here.
    dim : int, optional
        Most features that the fitted encoder may make.
    count : int
        How many decisions to look at.
    seed : int
        Seed in the brief.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from driftbandit.logs import read_log
    >>> table = pa.table({
    ...     "device": ["phone", "desk"] * 4, "arms": [["tea", "cup"]] * 8, "arm": ["tea"] * 8,
    ...     "reward": [0, 0, 1, 1] * 2,
    ... })
    >>> found = prepare(read_log(table, logged="uniform"))
    >>> found.encoder.columns["context"][0].name, found.brief.noise, found.brief.reward_range
    ('device', 0.5, (0.0, 1.0))
    """
    rewards = _beginning(log, as_count("count", count))
    if encoder is not None and dim is not None:
        raise ValueError("dim: expected none beside an encoder, which has its own number of features")
    encoder = encoder or fit_encoder(log, dim)
    low, high = min(float(rewards.min()), 0.0), max(float(rewards.max()), 1.0)
    brief = Brief(
        dim=dim_of(log, encoder),
        # Rewards that are all alike so far say nothing; half the range is the most that the deviation can be.
        noise=float(rewards.std()) or (high - low) / 2.0,
        reward_range=(low, high),
        seed=seed,
    )
    return Preparation(encoder, brief, len(rewards))


def _beginning(log: DecisionLog, count: int) -> Floats:
    """The first rewards."""
    parts, seen = [], 0
    for found in log:
        parts.append(found.rewards[: count - seen])
        seen += len(parts[-1])
        if seen == count:
            break
    return np.concatenate(parts)
