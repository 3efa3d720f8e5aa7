"""BOB: bandits over bandits, SW-LinUCB that tries one window after another.

Time is cut into blocks. At the start of each block an adversarial bandit (EXP3) draws a window, and a fresh SW-LinUCB
plays the block with it; what it earns is the window's reward. The speed of the world need not be known, but a horizon
has few blocks and each block starts from nothing. Cheung, Simchi-Levi and Zhu, AISTATS 2019.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    Change,
    Floats,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_reward,
    not_finite,
)
from driftbandit.models.ridge import Radius
from driftbandit.models.windowed import WindowedModel, window_radius
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, noise_as_width


class BOB(ModelPolicy):
    """SW-LinUCB with EXP3 over its window.

    BOB reports no changes: the end of a block reveals nothing.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean.
    horizon : int
        Rewards expected in all (T); more may follow.
    block : int, optional
        Rewards in a block (H), by default floor(dim * sqrt(horizon)).
    windows : sequence of int, optional
        The windows to choose from, by default floor(H^(j / D)) for j = 0 .. D with D = ceil(ln H).
    mixing : float, optional
        Share of the draws that is uniform (the paper's gamma), by default sqrt(n ln n / ((e - 1) ceil(T / H))) for n
        windows, at most 1.
    reward_range : (float, float)
        Mapped to [-1, 1], the range that the paper takes mean rewards to have.
    ridge, explore, delta :
        As in `SWLinUCB`.
    seed : int
        Seed of the generator that draws the windows.

    Examples
    --------
    >>> policy = BOB(dim=5, noise=0.1, horizon=10_000)
    >>> policy.block, policy.windows, round(policy.mixing, 8)
    (500, (1, 2, 5, 14, 34, 84, 205, 500), 0.69575471)
    """

    _parts = (*ModelPolicy._parts, "_pick", "_scores", "_earned")

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        horizon: int = 10_000,
        block: int | None = None,
        windows: Sequence[int] | None = None,
        mixing: float | None = None,
        reward_range: tuple[float, float] = (-1.0, 1.0),
        ridge: float = 1.0,
        explore: float | Radius | None = None,
        delta: float = 0.01,
        seed: int = 0,
    ) -> None:
        dim = as_dim(dim)
        noise = as_number("noise", noise, 0.0)
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.horizon = horizon = as_count("horizon", horizon)
        self.block = max(1, int(dim * math.sqrt(horizon))) if block is None else as_count("block", block)
        chosen = _spread(self.block) if windows is None else windows
        self.windows = tuple(as_count("windows", window) for window in chosen)
        if not self.windows:
            raise ValueError("windows: expected at least one, got none")
        models = [
            WindowedModel(
                dim,
                window=window,
                ridge=ridge,
                explore=explore,
                radius=window_radius(dim, window, noise=noise, ridge=ridge, delta=delta),
            )
            for window in self.windows
        ]
        # A row for the longest window has room for every other window.
        super().__init__(dim, max(models, key=lambda model: model.window), seed)
        self._models = models
        count, blocks = len(models), math.ceil(horizon / self.block)
        if mixing is None:
            mixing = min(1.0, math.sqrt(count * math.log(count) / ((math.e - 1.0) * blocks)))
        self.mixing = as_number("mixing", mixing, 0.0, 1.0)
        self._least = as_number("reward_range", reward_range[0])
        most = as_number("reward_range", reward_range[1], self._least, open_low=True)
        self._span = most - self._least
        self.reward_range = (self._least, most)
        self.noise, self.ridge, self.explore, self.delta = noise, ridge, explore, delta
        # Most that a block earns, but for a rare excess of noise: H + 2 R sqrt(H ln(T / sqrt(H))).
        spread = 2.0 * noise / self._span
        logarithm = max(math.log(horizon / math.sqrt(self.block)), 0.0)
        self._most = self.block + 2.0 * spread * math.sqrt(self.block * logarithm)
        self._scores = np.zeros(count)  # logarithms of the paper's s_j
        self._earned = np.zeros(1)
        self._pick = 0
        self._draw()

    @property
    def probabilities(self) -> Floats:
        """How likely each window is to be drawn for the next block."""
        shares = np.exp(self._scores - self._scores.max())
        mixed: Floats = (1.0 - self.mixing) * shares / shares.sum() + self.mixing / len(shares)
        return mixed

    @property
    def window(self) -> int:
        """The window of this block."""
        return self.windows[self._pick]

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn as `SWLinUCB` does; after the last reward of a block, weigh its window and draw the next."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        if not self._model.update(self._row, x, reward):
            raise not_finite(x)
        self.rounds += 1
        self._earned[0] += 2.0 * (reward - self._least) / self._span - 1.0
        if self.rounds % self.block == 0:
            share = min(max(0.5 + float(self._earned[0]) / (2.0 * self._most), 0.0), 1.0)
            probability = float(self.probabilities[self._pick])
            self._scores[self._pick] += self.mixing / (len(self.windows) * probability) * share
            self._draw()
        return ()

    def _draw(self) -> None:
        """Start a block: draw a window and forget everything else."""
        edges = np.cumsum(self.probabilities)
        pick = int(np.searchsorted(edges, self._generator.random() * edges[-1], side="right"))
        self._pick = min(pick, len(edges) - 1)
        self._model = self._models[self._pick]
        self._model.reset(self._row)
        self._earned[0] = 0.0

    def _after_restore(self) -> None:
        super()._after_restore()
        if not self._pick < len(self._models):
            raise ValueError(f"state: pick: expected less than {len(self._models)}, got {self._pick}")
        self._model = self._models[self._pick]


def _spread(block: int) -> list[int]:
    """floor(H^(j / D)) for j = 0 .. D; the last one must not fall short of H by rounding."""
    steps = math.ceil(math.log(block))
    return [1, *(int(block ** (j / steps) + 1e-9) for j in range(1, steps + 1))]


ENTRIES = (
    Entry(
        name="bob",
        title="BOB",
        summary="SW-LinUCB that tries one window after another",
        policy=BOB,
        settings=noise_as_width("reward_range", "seed"),
        told=("noise", "reward_range"),
        page="bob",
        place=170,
    ),
)
