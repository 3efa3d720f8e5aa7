"""LinTS: ridge regression that explores by drawing theta from its posterior.

Each `choose` draws one theta from N(theta, explore^2 A^-1) and plays the arm that is best under it. It assumes that
tastes never change. Agrawal and Goyal, ICML 2013, Algorithm 1, whose steps are marked below; their B is A, their f is
b, and their v is `explore`.
"""

from __future__ import annotations

from driftbandit.core import as_dim, as_number
from driftbandit.models.thompson import ThompsonModel
from driftbandit.policies.base import ModelPolicy
from driftbandit.policies.entry import Entry, from_brief


class LinTS(ModelPolicy):
    """Linear Thompson sampling with one sample per round.

    Parameters
    ----------
    dim : int
        Number of features.
    ridge : float
        Precision of the prior on theta.
    explore : float
        Scale of the posterior's standard deviation; the noise level is a sensible value, 0 is greedy.
    seed : int
        Seed of the policy's own generator.

    Examples
    --------
    >>> import numpy as np
    >>> policy = LinTS(2, seed=1)
    >>> policy.learn(np.array([0.0, 1.0]), reward=1.0)
    ()
    >>> sum(policy.choose(np.eye(2)) for _ in range(100))
    100
    """

    def __init__(self, dim: int, *, ridge: float = 1.0, explore: float = 0.1, seed: int = 0) -> None:
        ridge = as_number("ridge", ridge, 0.0, open_low=True)
        explore = as_number("explore", explore, 0.0)
        self.ridge, self.explore = ridge, explore
        # B = ridge * I (theirs is I), f = 0, in `kernels.ridge.reset`
        super().__init__(dim, ThompsonModel(as_dim(dim), ridge=ridge, explore=explore), seed)

    # Compiled, in `kernels.ridge.sampled_theta_arm`:
    # sample theta~ from N(theta, v^2 B^-1): theta~ = theta + v L z, with B^-1 = L L' and z standard normal
    # play argmax x'theta~
    choose = ModelPolicy.choose

    # Compiled, in `kernels.ridge.update`, as in LinUCB:
    # B += x x', f += r x, theta = B^-1 f
    learn = ModelPolicy.learn


ENTRIES = (
    Entry(
        name="lints",
        title="LinTS",
        summary="linear Thompson sampling; assumes that nothing changes",
        policy=LinTS,
        settings=from_brief("dim", "seed"),
        page="lints",
        place=90,
    ),
)
