"""PHT-UCB: CUSUM-UCB with Page-Hinkley tests, which need no calibration.

An arm's rewards are compared with the running mean of all its rewards since the last alarm, the current one included.
The mean follows a change, too: a small change that is not noticed soon is never noticed. Liu, Lee and Shroff, AAAI
2018, who give no theory for this test.
"""

from __future__ import annotations

from driftbandit.policies.context_free.cusum_ucb import CusumUCB
from driftbandit.policies.entry import Entry, from_brief


class PHTUCB(CusumUCB):
    """UCB with a two-sided Page-Hinkley test for every arm.

    Parameters
    ----------
    threshold, slack, random_share, explore, reward_range, max_arms, seed :
        As in `CusumUCB`.

    Examples
    --------
    >>> policy = PHTUCB(threshold=5.0, slack=0.005)
    >>> for reward in [1.0] * 50 + [0.0] * 6:
    ...     changes = policy.learn(None, reward, arm=7)
    >>> changes[0].round, round(changes[0].evidence["statistic"], 8), changes[0].evidence["changed_at"]
    (56, 5.58320082, 50.0)
    """

    def __init__(
        self,
        *,
        threshold: float = 12.0,
        slack: float = 0.1,
        random_share: float = 0.05,
        explore: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        max_arms: int = 1_000_000,
        seed: int = 0,
    ) -> None:
        super().__init__(
            threshold=threshold,
            slack=slack,
            calibration=0,
            random_share=random_share,
            explore=explore,
            reward_range=reward_range,
            max_arms=max_arms,
            seed=seed,
        )


ENTRIES = (
    Entry(
        name="pht-ucb",
        title="PHT-UCB",
        summary="context-free UCB; a Page-Hinkley alarm restarts one arm",
        policy=PHTUCB,
        settings=from_brief("reward_range", "seed"),
        told=("reward_range",),
        page="pht-ucb",
        place=260,
        contextual=False,
    ),
)
