"""LinUCB: ridge regression plus a bonus for what is not yet known.

The policy plays the arm with the highest x'theta + explore * sqrt(x' A^-1 x): arms in directions with little data get
the benefit of the doubt. It assumes that tastes never change, which makes it the yardstick for everything else here.
Li, Chu, Langford and Schapire, WWW 2010.
"""

from __future__ import annotations

from driftbandit.core import as_dim, as_number
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.policies.base import ModelPolicy


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
        super().__init__(dim, RidgeModel(as_dim(dim), ridge=ridge, explore=explore))
