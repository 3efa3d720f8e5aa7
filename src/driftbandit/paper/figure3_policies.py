"""The policies of Figure 3.

They have a module of their own, because replays are repeated when the module of their policy changes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from driftbandit.core import Scope
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.context_free.wmducb1 import WMDUCB1
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.restarting.adts import AdTS
from driftbandit.policies.scoped.club import CLUB
from driftbandit.policies.scoped.per_arm import PerArm
from driftbandit.policies.scoped.per_scope import PerScope

GROUPS = 5
DIM = 6
EXPLORE = 1.0
"""Exploration of LinUCB on the users' side; dLinUCB's follows the noise."""
ARTICLE_EXPLORE = 0.6
"""Exploration of LinUCB and of dLinUCB on the articles' side."""
CLUB_EXPLORE = 0.6
V = 0.4
"""Scale of adTS's posterior, as in Figure 4."""
EXPLORES = (0.3, 0.6, 2.0)
"""Another exploration of LinUCB, shown for comparison."""
NOISE = 0.3
"""Noise that the paper's own dLinUCB is told, chosen on other logs; docs/paper/figure3.md says how."""
TOLD = (0.25, 0.28, 0.32, 0.35)
"""Other noise levels that dLinUCB is told for comparison."""


def linucb(seed: int, explore: float = EXPLORE) -> LinUCB:
    """LinUCB; the seed is not used, since it draws nothing."""
    return LinUCB(DIM, explore=explore)


def adts(seed: int) -> AdTS:
    """adTS with the settings of the authors' library."""
    return AdTS(DIM, explore=V, seed=seed)


def dlinucb(seed: int, explore: float | None = None, noise: float | Literal["auto"] = NOISE) -> DLinUCB:
    """The paper's own dLinUCB, told a noise: Algorithm 1, which judges every click by itself."""
    policy = DLinUCB(DIM, noise, explore=explore)
    policy.warned.first("clicks")  # mark the warning as given: a filter would also silence other policies
    return policy


def lr_member(seed: int, explore: float | None = None) -> DLinUCB:
    """What ``noise='auto'`` is on clicks: one member, replaced when a likelihood ratio over many clicks says so."""
    return dlinucb(seed, explore, "auto")


def wmducb1(seed: int) -> WMDUCB1:
    """WMDUCB1, which knows articles by their ids only."""
    return WMDUCB1(seed=seed)


def adts_of_group(seed: int, group: Scope) -> AdTS:
    """adTS of a group of users, with its own seed."""
    return adts(seed + int(group))


def by_group(build: Any, seed: int) -> PerScope:
    """One policy per group of users."""
    return PerScope(partial(adts_of_group, seed) if build is adts else build(seed))


def by_article(build: Any, seed: int) -> PerArm:
    """One model per article."""
    return PerArm(build(seed), seed=seed)


def club(seed: int, groups: int = GROUPS) -> CLUB:
    """CLUB, whose users are the groups."""
    return CLUB(DIM, users=groups, explore=CLUB_EXPLORE, seed=seed)


USERS: dict[str, Any] = {
    "uniform-dLinUCB": dlinucb,
    "N-dLinUCB": partial(by_group, dlinucb),
    "uniform-LR member": lr_member,
    "N-LR member": partial(by_group, lr_member),
    "uniform-LinUCB": linucb,
    "N-LinUCB": partial(by_group, linucb),
    "uniform-adTS": adts,
    "N-adTS": partial(by_group, adts),
    "CLUB": club,
    "WMDUCB1": wmducb1,
}
UNIFORM = ("uniform-dLinUCB", "uniform-LR member", "uniform-LinUCB", "uniform-adTS", "WMDUCB1")
"""Policies that also play the other plans of change."""
ARTICLES: dict[str, Any] = {
    "dLinUCB": partial(by_article, partial(dlinucb, explore=ARTICLE_EXPLORE)),
    "LR member": partial(by_article, partial(lr_member, explore=ARTICLE_EXPLORE)),
    "LinUCB": partial(by_article, partial(linucb, explore=ARTICLE_EXPLORE)),
    "adTS": partial(by_article, adts),
}
OTHERS: dict[str, Any] = {
    **{f"uniform-LinUCB, exploration {explore:g}": partial(linucb, explore=explore) for explore in EXPLORES},
    **{f"uniform-dLinUCB, told noise {noise:g}": partial(dlinucb, noise=noise) for noise in TOLD},
}
