"""LinUCB: ridge regression plus a bonus for what is not yet known.

The policy plays the arm with the highest x'theta + explore * sqrt(x' A^-1 x): arms in directions with little data get
the benefit of the doubt. It assumes that tastes never change, which makes it the yardstick for everything else here.
Li, Chu, Langford and Schapire, WWW 2010; the lines marked below are those of their Algorithm 1, with one theta for all
arms.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import as_belief, as_dim, as_number
from driftbandit.models.prior import PriorRidge
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, Variants, from_brief, with_strength


class LinUCB(ModelPolicy):
    """LinUCB with one theta shared by all arms.

    Parameters
    ----------
    dim : int
        Number of features.
    ridge : float
        Regularisation; the bonus of an unknown direction is ``explore * |x| / sqrt(ridge)``.
    explore : float or Radius
        Multiplier of the bonus, constant or growing with the number of rewards.

    Examples
    --------
    >>> import numpy as np
    >>> policy = LinUCB(2)
    >>> pool = np.eye(2)
    >>> policy.choose(pool)  # both arms tie, the lowest index wins
    0
    >>> policy.learn(pool[0], reward=0.0)
    ()
    >>> policy.choose(pool)
    1
    """

    def __init__(self, dim: int, *, ridge: float = 0.1, explore: float | Radius = 0.6) -> None:
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.ridge, self.explore = ridge, explore
        # lines 4 to 6: A = ridge * I, b = 0, in `kernels.ridge.reset`
        super().__init__(dim, RidgeModel(as_dim(dim), ridge=ridge, explore=explore))

    # Compiled, in `kernels.ridge.optimistic_arm`:
    # line 2: the candidates x_a are the rows of `features`
    # line 8: theta = A^-1 b, which the row holds up to date
    # line 9: p_a = theta'x_a + explore * sqrt(x_a' A^-1 x_a), in full only for arms that may have the highest
    # line 11: the arm with the highest p_a; the lowest index on a tie, which the paper leaves open
    choose = ModelPolicy.choose

    # Compiled, in `kernels.ridge.update`:
    # line 11: the reward r of the arm x that was played
    # line 12: A += x x'. What is kept is A^-1 -= w w', with z = A^-1 x and w = z / sqrt(1 + x'z)
    # line 13: b += r x. What is kept is theta += z (r - x'theta) / (1 + x'z)
    learn = ModelPolicy.learn

    can_pool: ClassVar[bool] = True

    def believe(self, mean: ArrayLike, spread: ArrayLike, noise: float) -> None:
        """Take a prior instead of `ridge`; exact, also for rewards that were learned before.

        From now on A^-1 is the posterior's covariance in units of `noise`, and the bonus is `explore` times the
        posterior's standard deviation of an arm's mean reward.

        Parameters
        ----------
        mean : array of shape (dim,)
            Mean of the weights before any reward.
        spread : array of shape (dim, dim)
            Covariance of the weights before any reward.
        noise : float
            Variance of a reward around its mean.

        Examples
        --------
        >>> import numpy as np
        >>> policy = LinUCB(2)
        >>> policy.believe(mean=[0.0, 1.0], spread=np.eye(2), noise=0.01)
        >>> policy.choose(np.eye(2))
        1
        """
        mean, spread, noise = as_belief(mean, spread, noise, self.dim)
        model, row = self._model, self._row
        if not isinstance(model, PriorRidge):
            model = _under_prior(self.dim, self.ridge, self.explore)
            row = model.take_over(row)
        if not model.believe(row, mean, spread, noise):
            raise ValueError("spread: expected a positive definite matrix")
        self._model, self._bank = model, row[np.newaxis]
        self._row = self._bank[0]


@lru_cache(maxsize=64)
def _under_prior(dim: int, ridge: float, explore: float | Radius) -> PriorRidge:
    """The model of a policy that was given a belief; it holds settings only, so that all of a pool share it."""
    return PriorRidge(dim, ridge=ridge, explore=explore)


_GRID = {"strength": ("noise", "half", ".3", ".1", "1/.5")}

ENTRIES = (
    Entry(
        name="linucb",
        title="LinUCB",
        summary="ridge regression plus optimism; assumes that nothing changes",
        policy=LinUCB,
        settings=from_brief("dim"),
        page="linucb",
        place=80,
        variants=(Variants("linucb-tuned", "LinUCB, tuned", _GRID, with_strength, place=20),),
    ),
)
