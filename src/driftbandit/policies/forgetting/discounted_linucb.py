"""D-LinUCB: LinUCB whose past fades at a constant rate.

Every reward weighs `discount` times what it did a round ago, so that the estimate follows tastes that drift, and old
regimes fade after shifts, without any test. The bonus uses a second matrix with the weights squared, because the noise
of a weighted sum adds up with squared weights. Russac, Vernade and Cappe, NeurIPS 2019, Algorithm 1, whose steps are
marked below. Not to be confused with dLinUCB, which tests for shifts.
"""

from __future__ import annotations

from driftbandit.core import as_dim, as_number
from driftbandit.models.discounted import DiscountedModel
from driftbandit.models.ridge import Radius
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, Variants, noise_as_width, with_strength


class DiscountedLinUCB(ModelPolicy):
    """Discounted LinUCB (D-LinUCB).

    V <- discount * V + x x' + (1 - discount) * ridge * I, the same for W with the discount squared, and the width is
    sqrt(x' V^-1 W V^-1 x). The authors' released code makes W from the freshly updated V instead of from W, which
    widens the bonus; this is the paper's recursion. It reports no changes, because it detects none.

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float
        Standard deviation of a reward around its mean; used by the paper's radius only.
    discount : float
        What remains of a reward's weight after a round (gamma), in (0, 1]; 1 is LinUCB. About 1 / (1 - discount) rounds
        are remembered.
    ridge : float
        Regularisation, which is not discounted (lambda).
    explore : float or Radius, optional
        Multiplier of the width; by default the paper's radius, which takes |theta| <= 1 and |x| <= 1 for granted and
        explores far more than pays in practice.
    delta : float
        Error probability of that radius.

    Examples
    --------
    >>> import numpy as np
    >>> policy = DiscountedLinUCB(2, noise=0.1, discount=0.9, explore=0.1)
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
        discount: float = 0.99,
        ridge: float = 1.0,
        explore: float | Radius | None = None,
        delta: float = 0.01,
    ) -> None:
        dim = as_dim(dim)
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        radius = Radius.abbasi_yadkori(dim, noise=noise, ridge=ridge, delta=delta)
        self.noise, self.discount, self.ridge, self.explore, self.delta = noise, discount, ridge, explore, delta
        # V = W = ridge * I, b = 0, in `kernels.discounted.reset`
        super().__init__(dim, DiscountedModel(dim, discount=discount, ridge=ridge, explore=explore, radius=radius))

    # Compiled, in `kernels.ridge.optimistic_arm`:
    # play argmax x'theta + radius * sqrt(x' V^-1 W V^-1 x)
    choose = ModelPolicy.choose

    # Compiled, in `kernels.discounted.update`, with gamma = `discount` and lambda = `ridge`:
    # V = gamma V + x x' + (1 - gamma) lambda I
    # W = gamma^2 W + x x' + (1 - gamma^2) lambda I
    # b = gamma b + r x, theta = V^-1 b
    learn = ModelPolicy.learn


_GRID = {"discount": (0.95, 0.98, 0.99, 0.995, 0.998), "strength": ("noise", ".1")}

ENTRIES = (
    Entry(
        name="discounted-linucb",
        title="D-LinUCB",
        summary="LinUCB whose past fades at a constant rate",
        policy=DiscountedLinUCB,
        settings=noise_as_width(),
        told=("noise",),
        page="discounted-linucb",
        place=100,
        variants=(Variants("discounted-tuned", "D-LinUCB, tuned", _GRID, with_strength, place=30),),
    ),
)
