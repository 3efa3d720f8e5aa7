"""All policies by name, ready to be built for an environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from driftbandit.core import Policy
from driftbandit.models.ridge import Radius
from driftbandit.policies.choosing_memory.bob import BOB
from driftbandit.policies.choosing_memory.denband import DenBand
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.choosing_memory.exp_discounts import ExpDiscounts
from driftbandit.policies.clicks.logistic_ucb import LogisticUCB
from driftbandit.policies.clicks.ucb_glm import UCBGLM
from driftbandit.policies.context_free.brownian import BrownianRestless
from driftbandit.policies.context_free.cusum_ucb import CusumUCB
from driftbandit.policies.context_free.d_ucb import DUCB
from driftbandit.policies.context_free.gamma_restart import GammaRestart
from driftbandit.policies.context_free.glr_klucb import GLRklUCB
from driftbandit.policies.context_free.m_ucb import MUCB
from driftbandit.policies.context_free.meta_bandit import MetaBandit
from driftbandit.policies.context_free.pht_ucb import PHTUCB
from driftbandit.policies.context_free.random_choice import RandomChoice
from driftbandit.policies.context_free.sw_ucb import SWUCB
from driftbandit.policies.context_free.ucb1 import UCB1
from driftbandit.policies.context_free.wmducb1 import WMDUCB1
from driftbandit.policies.forgetting.discounted_linucb import DiscountedLinUCB
from driftbandit.policies.forgetting.restart_linucb import RestartLinUCB
from driftbandit.policies.forgetting.sw_linucb import SWLinUCB
from driftbandit.policies.linear.lints import LinTS
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.linear.oracle import OracleLinUCB
from driftbandit.policies.restarting.adts import AdTS
from driftbandit.policies.restarting.dal import DAL
from driftbandit.policies.restarting.master import MASTER
from driftbandit.policies.restarting.ps_linucb import PSLinUCB


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


# Functions rather than lambdas, because these travel between processes.


def _driftucb(brief: Brief) -> Policy:
    return DriftUCB(brief.dim)


def _dlinucb(brief: Brief) -> Policy:
    return DLinUCB.preset("table1", brief.dim, brief.noise, seed=brief.seed)


def _dlinucb_paper(brief: Brief) -> Policy:
    return DLinUCB.preset("paper", brief.dim, brief.noise, seed=brief.seed)


def _dlinucb_released(brief: Brief) -> Policy:
    return DLinUCB.preset("released", brief.dim, brief.noise, seed=brief.seed)


def _dlinucb_auto(brief: Brief) -> Policy:
    return DLinUCB.preset("table1", brief.dim, "auto", seed=brief.seed)


def _denband(brief: Brief) -> Policy:
    return DenBand(brief.dim, brief.noise)


def _adts(brief: Brief) -> Policy:
    return AdTS(brief.dim, seed=brief.seed)


def _linucb(brief: Brief) -> Policy:
    return LinUCB(brief.dim)


def _lints(brief: Brief) -> Policy:
    return LinTS(brief.dim, seed=brief.seed)


# The papers' radii explore far more than pays; the noise itself does well as a width in the simulated worlds.


def _discounted_linucb(brief: Brief) -> Policy:
    return DiscountedLinUCB(brief.dim, brief.noise, ridge=0.1, explore=brief.noise)


def _sw_linucb(brief: Brief) -> Policy:
    return SWLinUCB(brief.dim, brief.noise, ridge=0.1, explore=brief.noise)


def _restart_linucb(brief: Brief) -> Policy:
    return RestartLinUCB(brief.dim, brief.noise, ridge=0.1, explore=brief.noise)


def _ps_linucb(brief: Brief) -> Policy:
    return PSLinUCB(brief.dim, brief.noise, window=50, ridge=0.1, explore=brief.noise)


def _exp_discounts(brief: Brief) -> Policy:
    return ExpDiscounts(
        brief.dim, brief.noise, reward_range=brief.reward_range, ridge=0.1, explore=brief.noise, seed=brief.seed
    )


def _bob(brief: Brief) -> Policy:
    return BOB(brief.dim, brief.noise, reward_range=brief.reward_range, ridge=0.1, explore=brief.noise, seed=brief.seed)


def _dal(brief: Brief) -> Policy:
    # Its test divides by the noise, so there must be some. The published share of forced rounds costs too much.
    return DAL(brief.dim, max(brief.noise, 1e-3), forcing=0.3, ridge=0.1, explore=brief.noise)


def _master(brief: Brief) -> Policy:
    # The published constants cannot restart within any horizon here; these can, and did not where nothing changed.
    low, high = brief.reward_range
    return MASTER(
        brief.dim,
        brief.noise,
        rate=brief.noise * brief.dim**0.5 / (high - low),
        scale=1.0,
        first=None,
        second=25.0,
        reward_range=brief.reward_range,
        ridge=0.1,
        explore=brief.noise,
        seed=brief.seed,
    )


def _meta_bandit(brief: Brief) -> Policy:
    return MetaBandit(reward_range=brief.reward_range, seed=brief.seed)


def _gamma_restart(brief: Brief) -> Policy:
    return GammaRestart(reward_range=brief.reward_range, seed=brief.seed)


def _wmducb1(brief: Brief) -> Policy:
    return WMDUCB1(reward_range=brief.reward_range, seed=brief.seed)


def _d_ucb(brief: Brief) -> Policy:
    return DUCB(reward_range=brief.reward_range, seed=brief.seed)


def _sw_ucb(brief: Brief) -> Policy:
    return SWUCB(reward_range=brief.reward_range, seed=brief.seed)


def _cusum_ucb(brief: Brief) -> Policy:
    return CusumUCB(reward_range=brief.reward_range, seed=brief.seed)


def _pht_ucb(brief: Brief) -> Policy:
    return PHTUCB(reward_range=brief.reward_range, seed=brief.seed)


def _glr_klucb(brief: Brief) -> Policy:
    return GLRklUCB(reward_range=brief.reward_range, seed=brief.seed)


def _m_ucb(brief: Brief) -> Policy:
    return MUCB(reward_range=brief.reward_range, seed=brief.seed)


def _brownian(brief: Brief) -> Policy:
    return BrownianRestless(reward_range=brief.reward_range, seed=brief.seed)


def _ucb1(brief: Brief) -> Policy:
    return UCB1(reward_range=brief.reward_range, seed=brief.seed)


def _random(brief: Brief) -> Policy:
    return RandomChoice(seed=brief.seed)


def _logistic_ucb(brief: Brief) -> Policy:
    return LogisticUCB(brief.dim, reward_range=brief.reward_range)


def _ucb_glm(brief: Brief) -> Policy:
    return UCBGLM(brief.dim, reward_range=brief.reward_range, seed=brief.seed)


def _oracle(brief: Brief) -> Policy:
    return OracleLinUCB(brief.dim, shifts=brief.shifts)


def _oracle_paper(brief: Brief) -> Policy:
    radius = Radius.paper(brief.dim, noise=brief.noise, ridge=0.1, delta=0.01)
    return OracleLinUCB(brief.dim, shifts=brief.shifts, explore=radius)


REGISTRY: dict[str, Entry] = {
    "driftucb": Entry(
        "DriftUCB",
        "younger models challenge the incumbent, experts follow drift; our own",
        "nothing",
        _driftucb,
    ),
    "dlinucb": Entry(
        "dLinUCB",
        "members with a miss-rate test; the settings behind the paper's Table 1",
        "noise",
        _dlinucb,
    ),
    "dlinucb-paper": Entry(
        "dLinUCB (printed)",
        "Algorithm 1 line by line, with epsilon positive",
        "noise",
        _dlinucb_paper,
    ),
    "dlinucb-released": Entry(
        "dLinUCB (released)",
        "the radius and epsilon of the authors' released code",
        "noise",
        _dlinucb_released,
    ),
    "dlinucb-auto": Entry(
        "dLinUCB (auto)",
        "the settings of dlinucb, with the noise estimated; works on clicks",
        "nothing",
        _dlinucb_auto,
    ),
    "denband": Entry(
        "DenBand",
        "members judged arm by arm: a change of some arms is noticed, and old members stay in use for others",
        "noise",
        _denband,
    ),
    "adts": Entry(
        "adTS",
        "Thompson sampling that restarts when two windows drift apart",
        "nothing",
        _adts,
    ),
    "linucb": Entry(
        "LinUCB",
        "ridge regression plus optimism; assumes that nothing changes",
        "nothing",
        _linucb,
    ),
    "lints": Entry(
        "LinTS",
        "linear Thompson sampling; assumes that nothing changes",
        "nothing",
        _lints,
    ),
    "discounted-linucb": Entry(
        "D-LinUCB",
        "LinUCB whose past fades at a constant rate",
        "noise",
        _discounted_linucb,
    ),
    "sw-linucb": Entry(
        "SW-LinUCB",
        "LinUCB on a sliding window",
        "noise",
        _sw_linucb,
    ),
    "restart-linucb": Entry(
        "RestartLinUCB",
        "LinUCB that forgets everything at fixed intervals",
        "noise",
        _restart_linucb,
    ),
    "logistic-ucb": Entry(
        "LogisticUCB",
        "online logistic regression plus optimism, for clicks; assumes that nothing changes",
        "reward range",
        _logistic_ucb,
    ),
    "ucb-glm": Entry(
        "UCB-GLM",
        "logistic regression fitted to all clicks, plus optimism; assumes that nothing changes",
        "reward range",
        _ucb_glm,
    ),
    "ps-linucb": Entry(
        "PSLinUCB",
        "LinUCB that compares its latest rewards with what it knew before",
        "noise",
        _ps_linucb,
    ),
    "exp-discounts": Entry(
        "ExpDiscounts",
        "D-LinUCB that finds its discount by exponential weights",
        "noise, reward range",
        _exp_discounts,
    ),
    "bob": Entry(
        "BOB",
        "SW-LinUCB that tries one window after another",
        "noise, reward range",
        _bob,
    ),
    "dal": Entry(
        "DAL",
        "LinUCB with forced looks in every direction and a test on each",
        "noise",
        _dal,
    ),
    "master": Entry(
        "MASTER",
        "LinUCBs of many lengths that restart when promises are broken; scaled constants",
        "noise, reward range",
        _master,
    ),
    "meta-bandit": Entry(
        "Meta-Bandit",
        "context-free; on an alarm an old and a fresh bandit compete",
        "reward range",
        _meta_bandit,
    ),
    "gamma-restart": Entry(
        "gamma-Restart",
        "context-free; an alarm shrinks all evidence",
        "reward range",
        _gamma_restart,
    ),
    "wmducb1": Entry(
        "WMDUCB1",
        "context-free UCB1 that restarts when an arm's windowed mean shifts",
        "reward range",
        _wmducb1,
    ),
    "d-ucb": Entry(
        "D-UCB",
        "context-free UCB whose evidence fades",
        "reward range",
        _d_ucb,
    ),
    "sw-ucb": Entry(
        "SW-UCB",
        "context-free UCB on the latest rewards only",
        "reward range",
        _sw_ucb,
    ),
    "cusum-ucb": Entry(
        "CUSUM-UCB",
        "context-free UCB; a CUSUM alarm restarts one arm",
        "reward range",
        _cusum_ucb,
    ),
    "pht-ucb": Entry(
        "PHT-UCB",
        "context-free UCB; a Page-Hinkley alarm restarts one arm",
        "reward range",
        _pht_ucb,
    ),
    "glr-klucb": Entry(
        "GLR-klUCB",
        "context-free kl-UCB; a likelihood-ratio alarm restarts all arms",
        "reward range",
        _glr_klucb,
    ),
    "m-ucb": Entry(
        "M-UCB",
        "context-free UCB1 that restarts when an arm's neighbouring windows differ",
        "reward range",
        _m_ucb,
    ),
    "brownian": Entry(
        "Brownian restless",
        "context-free UCB1 in phases, for means that wander",
        "reward range",
        _brownian,
    ),
    "ucb1": Entry(
        "UCB1",
        "context-free optimism; assumes that nothing changes",
        "reward range",
        _ucb1,
    ),
    "random": Entry(
        "Random",
        "a uniformly random arm",
        "nothing",
        _random,
    ),
    "oracle": Entry(
        "OracleLinUCB",
        "LinUCB that is told the true shifts and restarts there",
        "the true shifts",
        _oracle,
    ),
    "oracle-paper": Entry(
        "Oracle (alpha_t)",
        "the same, exploring by the paper's shrinking alpha_t",
        "the true shifts, noise",
        _oracle_paper,
    ),
}

# What `compare` plays unless told otherwise: a field that fits one picture.
USUAL = (
    "driftucb",
    "dlinucb",
    "dlinucb-paper",
    "dlinucb-released",
    "adts",
    "linucb",
    "lints",
    "meta-bandit",
    "gamma-restart",
    "wmducb1",
    "ucb1",
    "random",
    "oracle",
    "oracle-paper",
)


def title_of(name: str) -> str:
    """Name of a policy in tables and plots; a name of your own is its own title."""
    return REGISTRY[name].title if name in REGISTRY else name
