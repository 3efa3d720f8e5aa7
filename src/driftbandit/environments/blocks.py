"""One block of features per arm: the classes of a classifier as arms, whose labels are permuted at shifts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints, as_count, as_number
from driftbandit.environments import paths
from driftbandit.environments.drawing import REACH
from driftbandit.environments.rounds import Rounds


@dataclass(frozen=True)
class Blocks:
    """Settings of a world in which every arm is a class, with weights of its own.

    A round shows one context z, a random direction and a constant, to all arms: the features of arm k are z in the k-th
    block and zeros elsewhere. Class k scores z by its weights, a random direction. At a shift the weights are dealt
    anew to the arms, so that no arm keeps its own.

    Attributes
    ----------
    classes, context : int
        Arms, and length of z with its constant; there are classes * context features.
    contexts : int
        Different z, of which every round draws one.
    reward : {'label', 'gaussian'}
        1 for the class of highest score and 0 for others, with some wrong labels; or the score plus noise.
    mislabelled : float
        Share of rounds whose right class is drawn at random; for labels.
    noise : float
        Standard deviation of the noise; for Gaussian rewards.
    period, horizon : int
        Rounds between shifts, and in all.

    Examples
    --------
    >>> rounds = Blocks(classes=3, context=2, period=40, horizon=100).rounds(seed=0)
    >>> rounds.dim, rounds.shifts.tolist()
    (6, [40, 80])
    >>> int((rounds.catalogue[rounds.pools[0, 1]] != 0).argmax())
    2
    """

    classes: int = 5
    context: int = 5
    contexts: int = 1000
    reward: Literal["label", "gaussian"] = "label"
    mislabelled: float = 0.1
    noise: float = 0.1
    period: int = 2000
    horizon: int = 10_000

    def __post_init__(self) -> None:
        if self.reward not in ("label", "gaussian"):
            raise ValueError(f"reward: expected one of label, gaussian, got {self.reward!r}")
        for name in ("classes", "context"):
            object.__setattr__(self, name, as_count(name, getattr(self, name), least=2))
        for name in ("contexts", "period", "horizon"):
            object.__setattr__(self, name, as_count(name, getattr(self, name)))
        object.__setattr__(self, "mislabelled", as_number("mislabelled", self.mislabelled, 0.0, 1.0))
        object.__setattr__(self, "noise", as_number("noise", self.noise, 0.0))

    def rounds(self, seed: int) -> Rounds:
        """All rounds; the same seed and settings give the same rounds, bit for bit."""
        context_rng, class_rng, deal_rng, order_rng, reward_rng = (
            np.random.default_rng([as_count("seed", seed, least=0), part]) for part in range(5)
        )
        free = paths.unit(context_rng.standard_normal((self.contexts, self.context - 1)))
        contexts = np.hstack([free, np.ones((self.contexts, 1))])
        weights = paths.unit(class_rng.standard_normal((self.classes, self.context)))
        shifts = paths.fixed_shifts(self.horizon, self.period)
        dealt = _deals(deal_rng, len(shifts) + 1, self.classes)
        dealt_now = dealt[np.searchsorted(shifts, np.arange(self.horizon), side="right")]
        shown = order_rng.integers(self.contexts, size=self.horizon)
        scores = np.take_along_axis((contexts @ weights.T)[shown], dealt_now, axis=1)
        means, rewards = self._rewards(scores, reward_rng)
        margin = REACH * self.noise
        arms = np.tile(np.arange(self.classes), (self.horizon, 1))
        return Rounds(
            catalogue=_in_blocks(contexts, self.classes),
            pools=self.classes * shown[:, None] + arms,
            arms=arms,
            means=means,
            rewards=rewards,
            shifts=shifts,
            noise=0.5 if self.reward == "label" else self.noise,
            reward_range=(0.0, 1.0) if self.reward == "label" else (-2.0 - margin, 2.0 + margin),
            seed=seed,
        )

    def _rewards(self, scores: Floats, rng: Generator) -> tuple[Floats, Floats]:
        if self.reward == "gaussian":
            return scores, scores + self.noise * rng.standard_normal((len(scores), 1))
        right = scores.argmax(axis=1)
        everyone = np.arange(self.classes)
        means = (1.0 - self.mislabelled) * (right[:, None] == everyone) + self.mislabelled / self.classes
        wrong = rng.random(len(scores)) < self.mislabelled
        labels = np.where(wrong, rng.integers(self.classes, size=len(scores)), right)
        return means, (labels[:, None] == everyone).astype(np.float64)


def _in_blocks(contexts: Floats, classes: int) -> Floats:
    """Features of every context for every class, one row each: the context in the block of the class."""
    count, size = contexts.shape
    blocks = np.zeros((count, classes, classes, size))
    for k in range(classes):
        blocks[:, k, k] = contexts
    return blocks.reshape(count * classes, classes * size)


def _deals(rng: Generator, count: int, classes: int) -> Ints:
    """Permutations of the classes, each of which moves every class of the one before."""
    deals = [rng.permutation(classes)]
    while len(deals) < count:
        deal = rng.permutation(classes)
        if (deal != deals[-1]).all():
            deals.append(deal)
    return np.array(deals)
