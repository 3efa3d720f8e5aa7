"""All policies by name, ready to be built for an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driftbandit.core import Policy
from driftbandit.models.ridge import Radius
from driftbandit.policies.adts import AdTS
from driftbandit.policies.dlinucb import DLinUCB
from driftbandit.policies.gamma_restart import GammaRestart
from driftbandit.policies.lints import LinTS
from driftbandit.policies.linucb import LinUCB
from driftbandit.policies.meta_bandit import MetaBandit
from driftbandit.policies.oracle import OracleLinUCB
from driftbandit.policies.random_choice import RandomChoice
from driftbandit.policies.ucb1 import UCB1
from driftbandit.policies.wmducb1 import WMDUCB1


@dataclass(frozen=True, slots=True)
class Brief:
    """What a policy may be told about the world it is built for."""

    dim: int
    noise: float
    reward_range: tuple[float, float] = (0.0, 1.0)
    shifts: Sequence[int] = ()
    seed: int = 0


Builder = Callable[[Brief], Policy]


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy of the registry.

    Attributes
    ----------
    title : str
        Its name in tables and plots.
    summary : str
        One line about it.
    told : str
        What it must know of the world beyond features and rewards.
    build : callable
        Makes it from a `Brief`.
    """

    title: str
    summary: str
    told: str
    build: Builder


def _paper_oracle(brief: Brief) -> OracleLinUCB:
    radius = Radius.paper(brief.dim, noise=brief.noise, ridge=0.1, delta=0.01)
    return OracleLinUCB(brief.dim, shifts=brief.shifts, explore=radius)


REGISTRY: dict[str, Entry] = {
    "dlinucb": Entry(
        "dLinUCB",
        "members with a miss-rate test; the settings behind the paper's Table 1",
        "noise",
        lambda brief: DLinUCB.preset("table1", brief.dim, brief.noise, seed=brief.seed),
    ),
    "dlinucb-paper": Entry(
        "dLinUCB (printed)",
        "Algorithm 1 line by line, with epsilon positive",
        "noise",
        lambda brief: DLinUCB.preset("paper", brief.dim, brief.noise, seed=brief.seed),
    ),
    "dlinucb-released": Entry(
        "dLinUCB (released)",
        "the radius and epsilon of the authors' released code",
        "noise",
        lambda brief: DLinUCB.preset("released", brief.dim, brief.noise, seed=brief.seed),
    ),
    "adts": Entry(
        "adTS",
        "Thompson sampling that restarts when two windows drift apart",
        "nothing",
        lambda brief: AdTS(brief.dim, seed=brief.seed),
    ),
    "linucb": Entry(
        "LinUCB",
        "ridge regression plus optimism; assumes that nothing changes",
        "nothing",
        lambda brief: LinUCB(brief.dim),
    ),
    "lints": Entry(
        "LinTS",
        "linear Thompson sampling; assumes that nothing changes",
        "nothing",
        lambda brief: LinTS(brief.dim, seed=brief.seed),
    ),
    "meta-bandit": Entry(
        "Meta-Bandit",
        "context-free; on an alarm an old and a fresh bandit compete",
        "reward range",
        lambda brief: MetaBandit(reward_range=brief.reward_range, seed=brief.seed),
    ),
    "gamma-restart": Entry(
        "gamma-Restart",
        "context-free; an alarm shrinks all evidence",
        "reward range",
        lambda brief: GammaRestart(reward_range=brief.reward_range, seed=brief.seed),
    ),
    "wmducb1": Entry(
        "WMDUCB1",
        "context-free UCB1 that restarts when an arm's windowed mean shifts",
        "reward range",
        lambda brief: WMDUCB1(reward_range=brief.reward_range, seed=brief.seed),
    ),
    "ucb1": Entry(
        "UCB1",
        "context-free optimism; assumes that nothing changes",
        "reward range",
        lambda brief: UCB1(reward_range=brief.reward_range, seed=brief.seed),
    ),
    "random": Entry(
        "Random",
        "a uniformly random arm",
        "nothing",
        lambda brief: RandomChoice(seed=brief.seed),
    ),
    "oracle": Entry(
        "OracleLinUCB",
        "LinUCB that is told the true shifts and restarts there",
        "the true shifts",
        lambda brief: OracleLinUCB(brief.dim, shifts=brief.shifts),
    ),
    "oracle-paper": Entry(
        "Oracle (alpha_t)",
        "the same, exploring by the paper's shrinking alpha_t",
        "the true shifts, noise",
        _paper_oracle,
    ),
}


def title_of(name: str) -> str:
    """Name of a policy in tables and plots; a name of your own is its own title."""
    return REGISTRY[name].title if name in REGISTRY else name
