"""SW-LinUCB: LinUCB on a sliding window.

The last `window` rewards count fully and earlier ones not at all, so what happened longer ago cannot mislead.
It needs no test, and never knows more than one window. Cheung, Simchi-Levi and Zhu, AISTATS 2019; the steps of their
SW-UCB are marked below.
"""

from __future__ import annotations

from driftbandit.core import as_dim, as_number
from driftbandit.models.ridge import Radius
from driftbandit.models.windowed import WindowedModel, window_radius
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, Variants, noise_as_width, with_strength


class SWLinUCB(ModelPolicy):
    """LinUCB on the last `window` rewards.

    It reports no changes, because it detects none. It keeps the window: `window` * (`dim` + 1) numbers.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean; used by the paper's radius only.
    window : int
        Rewards remembered (w); a window as long as the horizon is LinUCB.
    ridge : float
        Regularisation (lambda).
    explore : float or Radius, optional
        Multiplier of sqrt(x' A^-1 x); by default the paper's constant radius, which takes |theta| <= 1 and |x| <= 1 for
        granted and explores far more than pays in practice.
    delta : float
        Error probability of that radius.

    Examples
    --------
    >>> import numpy as np
    >>> policy = SWLinUCB(2, noise=0.1, window=20, explore=0.1)
    >>> pool = np.eye(2)
    >>> for t in range(60):
    ...     arm = policy.choose(pool)
    ...     changes = policy.learn(pool[arm], float(arm == (t >= 30)))  # after 30 rounds the other arm pays
    >>> policy.choose(pool)
    1
    """

    def __init__(
        self,
        dim: int,
        noise: float,
        *,
        window: int = 200,
        ridge: float = 1.0,
        explore: float | Radius | None = None,
        delta: float = 0.01,
    ) -> None:
        dim = as_dim(dim)
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        radius = window_radius(dim, window, noise=noise, ridge=ridge, delta=delta)
        self.noise, self.window, self.ridge, self.explore, self.delta = noise, window, ridge, explore, delta
        # A = ridge * I, b = 0, in `kernels.ridge.reset`
        super().__init__(dim, WindowedModel(dim, window=window, ridge=ridge, explore=explore, radius=radius))

    # Compiled, in `kernels.ridge.optimistic_arm`:
    # play argmax x'theta + radius * sqrt(x' A^-1 x), with the constant radius of `models.windowed.window_radius`
    choose = ModelPolicy.choose

    # Compiled, in `kernels.windowed.update`:
    # A += x x' and b += r x for the new reward, A -= x x' and b -= r x for the one that leaves the window
    # theta = A^-1 b
    learn = ModelPolicy.learn


_GRID = {"window": (50, 100, 200, 400, 1000), "strength": ("noise", ".1")}

ENTRIES = (
    Entry(
        name="sw-linucb",
        title="SW-LinUCB",
        summary="LinUCB on a sliding window",
        policy=SWLinUCB,
        settings=noise_as_width(),
        told=("noise",),
        page="sw-linucb",
        place=110,
        variants=(Variants("sw-tuned", "SW-LinUCB, tuned", _GRID, with_strength, place=40),),
    ),
)
