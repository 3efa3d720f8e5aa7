"""DAL: detection-augmented learning, a LinUCB with a watch on a few directions.

Now and then the policy plays arms that together cover all directions, whether or not they look good. A change of theta
must show in the rewards of at least one direction; a likelihood-ratio test on each direction's rewards raises the
alarm, and everything restarts. Gerogiannis, Huang, Bose and Veeravalli, arXiv 2501.19401 (2025).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    TIE,
    Change,
    Floats,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_pool,
    as_reward,
    not_finite,
)
from driftbandit.detection.glr import check_splits, glr_threshold
from driftbandit.kernels import glr
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import jit
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Brief, Entry, noise_as_width

_MOST_SPLITS = 200
_FLAT = 1e-9
"""A coordinate smaller than this, relative to the largest feature, is taken for rounding."""


class DAL(ModelPolicy):
    """LinUCB with forced exploration of `dim` directions and a Gaussian GLR test on each.

    In episode k (after k - 1 alarms) a share alpha_k = forcing * sqrt(k d ln(T) / T) of the rounds is forced: d of
    every ceil(d / alpha_k). In the paper the covering arms are always in the pool and their rewards are tested as they
    come. Here pools may change: the i-th forced arm is the one in the pool that reaches furthest along feature i once
    the features before i are eliminated (Gaussian elimination with pivoting; on a fixed pool always the same arms), and
    what is tested is its reward minus the prediction of a model frozen after the first `burn_in` rounds of the episode,
    with the sign of feature i.

    A reward counts as forced by its place in the order of arrival, so rewards that come late blur the test.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean, above 0.
    horizon : int
        Rewards expected in all (T); more may follow.
    forcing : float
        Multiplier of the published share of forced rounds; 0 never forces, and so never detects.
    false_alarm : float, optional
        Delta_F, shared by the directions: an alarm after n forced rewards in one of them needs a statistic above
        ln(dim * n^1.5 / delta_F); by default 1 / sqrt(horizon).
    burn_in : int, optional
        Rounds of an episode before the reference is frozen and tests start, by default 10 * dim; 0 tests the rewards
        themselves.
    feed : bool
        Whether LinUCB learns from forced rewards too; in the paper's analysis it learns from its own choices only.
    ridge, explore, delta :
        LinUCB's; the default radius is that of Abbasi-Yadkori et al. at error probability `delta`.

    Examples
    --------
    >>> import numpy as np
    >>> policy = DAL(dim=2, noise=0.1, horizon=1000)
    >>> pool = np.eye(2)
    >>> for t in range(1000):
    ...     arm = policy.choose(pool)
    ...     changes = policy.learn(pool[arm], float(arm == (t >= 500)))  # after 500 rounds the other arm pays
    >>> [(change.kind, change.round) for change in policy.changes]
    [('restarted', 505)]
    """

    evidence = ("statistic", "threshold", "direction", "samples")
    _parts = (*ModelPolicy._parts, "_episode", "_since", "_reference", "_streams")

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        horizon: int = 10_000,
        forcing: float = 1.0,
        false_alarm: float | None = None,
        burn_in: int | None = None,
        feed: bool = True,
        ridge: float = 1.0,
        explore: float | Radius | None = None,
        delta: float = 0.01,
    ) -> None:
        dim = as_dim(dim)
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.noise = as_number("noise", noise, 0.0, open_low=True)
        radius = Radius.abbasi_yadkori(dim, noise=self.noise, ridge=ridge, delta=delta)
        super().__init__(dim, RidgeModel(dim, ridge=ridge, explore=explore, radius=radius))
        self.ridge, self.explore, self.delta = ridge, explore, delta
        self.horizon = as_count("horizon", horizon, least=2)
        self.forcing = as_number("forcing", forcing, 0.0)
        alarm = 1.0 / math.sqrt(self.horizon) if false_alarm is None else false_alarm
        self.false_alarm = as_number("false_alarm", alarm, 0.0, 1.0, open_low=True)
        self.burn_in = 10 * dim if burn_in is None else as_count("burn_in", burn_in, least=0)
        self.feed = bool(feed)
        self._episode = 1
        self._since = 0  # rewards in this episode
        self._reference = np.zeros(dim)
        self._streams = np.zeros((dim, glr.row_size(_MOST_SPLITS)))

    @property
    def share(self) -> float:
        """Share of the rounds of this episode that are forced (alpha_k)."""
        published = math.sqrt(self._episode * self.dim * math.log(self.horizon) / self.horizon)
        return min(self.forcing * published, 1.0)

    @property
    def forced(self) -> int | None:
        """The direction in which the next round is forced to explore, or None."""
        if self.share == 0.0:
            return None
        direction = self._since % math.ceil(self.dim / self.share)
        return direction if direction < self.dim else None

    @property
    def is_random(self) -> bool:
        """False: the number of rewards determines which rounds are forced, and in which direction."""
        return False

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None) -> int:
        """Index of the arm that LinUCB would play; in a forced round, of the arm for the round's direction."""
        direction = self.forced
        if direction is not None:
            pool = as_pool(features, self.dim)
            if not kernel.usable(pool, self.ridge):
                raise not_finite(pool)
            arm = _covering_arm(pool, direction)
            if arm >= 0:
                return arm
        return super().choose(features, arms)

    scores = ModelPolicy.scores

    @property
    def ranks_by_scores(self) -> bool:
        """Whether the next round is not forced."""
        return self.forced is None

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm with these features; if it was forced, test its direction."""
        x = as_example(features, self.dim)
        reward = as_reward(reward)
        if not kernel.usable(x[np.newaxis], self.ridge):
            raise not_finite(x)
        direction = self.forced
        if direction is None or self.feed:
            self._model.update(self._row, x, reward)
        self.rounds += 1
        self._since += 1
        if self._since == self.burn_in:
            self._reference[:] = self._row[kernel.THETA : kernel.THETA + self.dim]
        if direction is None or self._since <= self.burn_in:
            return ()
        return self._watch(direction, x, reward)

    def _watch(self, direction: int, x: Floats, reward: float) -> tuple[Change, ...]:
        residual = reward - float(self._reference @ x)
        stream = self._streams[direction]
        glr.add(stream, -residual if x[direction] < 0.0 else residual, self.rounds)
        samples = float(stream[glr.SAMPLES])
        statistic = glr.gaussian_evidence(stream) / self.noise**2
        threshold = glr_threshold(samples, self.false_alarm / self.dim)
        if statistic <= threshold:
            return ()
        self._episode += 1
        self._since = 0
        self._reference[:] = 0.0
        self._streams[:] = 0.0
        self._model.reset(self._row)
        evidence = {
            "statistic": statistic,
            "threshold": threshold,
            "direction": float(direction),
            "samples": samples,
        }
        return self._report(Change(self.rounds, "restarted", 0, evidence))

    def _after_restore(self) -> None:
        super()._after_restore()
        check_splits(self._streams, _MOST_SPLITS)
        if self._episode < 1:
            raise ValueError(f"state: episode: expected at least 1, got {self._episode}")


@jit
def _covering_arm(features: Floats, direction: int) -> int:
    """The arm that reaches furthest along a feature once earlier features are eliminated; -1 if none reaches at all."""
    work = features.copy()
    count, d = work.shape
    largest = np.abs(work).max()
    for i in range(direction + 1):
        reach = 0.0
        for k in range(count):
            reach = max(reach, abs(work[k, i]))
        best = -1
        for k in range(count):
            if reach > _FLAT * largest and abs(work[k, i]) >= reach - TIE:
                best = k
                break
        if i == direction:
            return best
        if best < 0:
            continue
        line = work[best].copy()
        for k in range(count):
            factor = work[k, i] / line[i]
            for j in range(i, d):
                work[k, j] -= factor * line[j]
    return -1


def _settings(brief: Brief) -> dict[str, Any]:
    # The test divides by the noise, which must be positive. The published share of forced rounds costs too much.
    return {**noise_as_width(forcing=0.3)(brief), "noise": max(brief.noise, 1e-3)}


ENTRIES = (
    Entry(
        name="dal",
        title="DAL",
        summary="LinUCB with forced looks in every direction and a test on each",
        policy=DAL,
        settings=_settings,
        told=("noise",),
        page="dal",
        place=180,
    ),
)
