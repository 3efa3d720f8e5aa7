"""OracleLinUCB: LinUCB that is told when the world shifts and starts afresh there.

No detector can be earlier than the truth, so change detection is measured against this policy: its only cost is to
learn each new regime from nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from driftbandit.core import Change, as_count
from driftbandit.models.ridge import Radius
from driftbandit.policies.entry import Brief, Entry, Variants, from_brief, with_strength
from driftbandit.policies.linear.linucb import LinUCB


class OracleLinUCB(LinUCB):
    """LinUCB reset at every true shift.

    It reports no changes, because it detects none.

    Parameters
    ----------
    dim : int
        Number of features.
    shifts : sequence of int
        First round of each new regime, counted from 0 in rewards learned.
    ridge, explore :
        As in `LinUCB`.

    Examples
    --------
    >>> import numpy as np
    >>> policy = OracleLinUCB(2, shifts=[1])
    >>> policy.learn(np.array([1.0, 0.0]), reward=-1.0)
    ()
    >>> policy.choose(np.eye(2))  # round 1 starts a new regime: what was learned is gone
    0
    """

    def __init__(
        self,
        dim: int,
        *,
        shifts: Sequence[int] = (),
        ridge: float = 0.1,
        explore: float | Radius = 0.6,
    ) -> None:
        super().__init__(dim, ridge=ridge, explore=explore)
        self.shifts = tuple(as_count("shifts", shift, least=0) for shift in shifts)
        self._shifts = frozenset(self.shifts)

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn as `LinUCB` does; the last reward before a shift is forgotten with everything else."""
        changes = super().learn(features, reward, arm)
        if self.rounds in self._shifts:
            self._model.reset(self._row)
        return changes


def _paper(brief: Brief) -> dict[str, Any]:
    radius = Radius.paper(brief.dim, noise=brief.noise, ridge=0.1, delta=0.01)
    return from_brief("dim", "shifts", explore=radius)(brief)


ENTRIES = (
    Entry(
        name="oracle",
        title="OracleLinUCB",
        summary="LinUCB that is told the true shifts and restarts there",
        policy=OracleLinUCB,
        settings=from_brief("dim", "shifts"),
        told=("shifts",),
        page="oracle",
        place=320,
        variants=(  # with the ridge and exploration that Bayes' rule asks for if the noise is known: hard to beat
            Variants("oracle-bayes", "Oracle (Bayes)", {"strength": ("noise",)}, with_strength, place=10),
        ),
    ),
    Entry(
        name="oracle-paper",
        title="Oracle (alpha_t)",
        summary="the same, exploring by the paper's shrinking alpha_t",
        policy=OracleLinUCB,
        settings=_paper,
        told=("shifts", "noise"),
        page="oracle",
        place=330,
    ),
)
