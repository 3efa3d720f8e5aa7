"""RestartLinUCB: LinUCB that forgets everything at fixed intervals.

The simplest way to live with change: whatever happens, nothing older than one period can mislead. The price is to start
from nothing every time. Zhao, Zhang, Jiang and Zhou, AISTATS 2020, whose steps are marked below.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_count, as_dim, as_number
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, Variants, noise_as_width, with_strength


class RestartLinUCB(ModelPolicy):
    """LinUCB reset every `period` rewards.

    It reports no changes: a restart that was due anyway reveals nothing.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean; used by the paper's radius only.
    period : int
        Rewards between two restarts (H); a period as long as the horizon is LinUCB.
    ridge : float
        Regularisation (lambda).
    explore : float or Radius, optional
        Multiplier of sqrt(x' A^-1 x); by default the paper's radius in the rewards since the restart, which takes
        |theta| <= 1 and |x| <= 1 for granted and explores far more than pays in practice.
    delta : float
        Error probability of that radius.

    Examples
    --------
    >>> import numpy as np
    >>> policy = RestartLinUCB(2, noise=0.1, period=2, explore=0.1)
    >>> for reward in (0.0, -1.0):
    ...     changes = policy.learn(np.array([1.0, 0.0]), reward)
    >>> policy.choose(np.eye(2))  # what was learned is gone
    0
    """

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        period: int = 400,
        ridge: float = 1.0,
        explore: float | Radius | None = None,
        delta: float = 0.01,
    ) -> None:
        dim = as_dim(dim)
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        radius = Radius.abbasi_yadkori(dim, noise=noise, ridge=ridge, delta=delta)
        super().__init__(dim, RidgeModel(dim, ridge=ridge, explore=explore, radius=radius))
        self.period = as_count("period", period)
        self.noise, self.ridge, self.explore, self.delta = noise, ridge, explore, delta

    # Play argmax x'theta + radius * sqrt(x' A^-1 x), compiled in `kernels.ridge.optimistic_arm`.
    choose = ModelPolicy.choose

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn as `LinUCB` does; the last reward of a period is forgotten with everything else."""
        changes = super().learn(features, reward, arm)  # A += x x', b += r x, theta = A^-1 b: `kernels.ridge.update`
        if self.rounds % self.period == 0:  # every H rewards: A = ridge * I, b = 0
            self._model.reset(self._row)
        return changes


# No world has one of these periods: restarts that coincide with the shifts would make this policy an oracle.
_GRID = {"period": (150, 300, 600, 1000), "strength": ("noise", ".1")}

ENTRIES = (
    Entry(
        name="restart-linucb",
        title="RestartLinUCB",
        summary="LinUCB that forgets everything at fixed intervals",
        policy=RestartLinUCB,
        settings=noise_as_width(),
        told=("noise",),
        page="restart-linucb",
        place=120,
        variants=(Variants("restart-tuned", "RestartLinUCB, tuned", _GRID, with_strength, place=50),),
    ),
)
