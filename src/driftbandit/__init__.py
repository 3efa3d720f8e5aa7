"""driftbandit: contextual bandits for a world that changes.

Everything public can be imported from here. Names are loaded on first use, so that ``import driftbandit`` costs
little more than numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from driftbandit.core import Change, Policy

if TYPE_CHECKING:
    from driftbandit.conformance import check_policy
    from driftbandit.environments import Rounds, World, synthetic
    from driftbandit.evaluation import Trace, compare, simulate, summarise
    from driftbandit.models import LogisticModel, Radius, RewardModel, RidgeModel, ThompsonModel
    from driftbandit.policies.adts import AdTS
    from driftbandit.policies.bob import BOB
    from driftbandit.policies.brownian import BrownianRestless
    from driftbandit.policies.clicks import ClickWarning
    from driftbandit.policies.club import CLUB
    from driftbandit.policies.cusum_ucb import CusumUCB
    from driftbandit.policies.d_ucb import DUCB
    from driftbandit.policies.dal import DAL
    from driftbandit.policies.denband import DenBand
    from driftbandit.policies.discounted_linucb import DiscountedLinUCB
    from driftbandit.policies.dlinucb import DLinUCB, Member
    from driftbandit.policies.driftucb import DriftUCB
    from driftbandit.policies.dyclu import DyClu
    from driftbandit.policies.exp_discounts import ExpDiscounts
    from driftbandit.policies.gamma_restart import GammaRestart
    from driftbandit.policies.glr_klucb import GLRklUCB
    from driftbandit.policies.lints import LinTS
    from driftbandit.policies.linucb import LinUCB
    from driftbandit.policies.logistic_ucb import LogisticUCB
    from driftbandit.policies.m_ucb import MUCB
    from driftbandit.policies.master import MASTER
    from driftbandit.policies.meta_bandit import MetaBandit
    from driftbandit.policies.oracle import OracleLinUCB
    from driftbandit.policies.per_arm import PerArm
    from driftbandit.policies.per_scope import PerScope
    from driftbandit.policies.pht_ucb import PHTUCB
    from driftbandit.policies.ps_linucb import PSLinUCB
    from driftbandit.policies.random_choice import RandomChoice
    from driftbandit.policies.restart_linucb import RestartLinUCB
    from driftbandit.policies.sw_linucb import SWLinUCB
    from driftbandit.policies.sw_ucb import SWUCB
    from driftbandit.policies.ucb1 import UCB1
    from driftbandit.policies.ucb_glm import UCBGLM
    from driftbandit.policies.wmducb1 import WMDUCB1

__version__ = "0.1.0"

_HOMES = {
    "AdTS": "policies.adts",
    "BOB": "policies.bob",
    "BrownianRestless": "policies.brownian",
    "CLUB": "policies.club",
    "ClickWarning": "policies.clicks",
    "CusumUCB": "policies.cusum_ucb",
    "DAL": "policies.dal",
    "DLinUCB": "policies.dlinucb",
    "DUCB": "policies.d_ucb",
    "DenBand": "policies.denband",
    "DiscountedLinUCB": "policies.discounted_linucb",
    "DriftUCB": "policies.driftucb",
    "DyClu": "policies.dyclu",
    "ExpDiscounts": "policies.exp_discounts",
    "GLRklUCB": "policies.glr_klucb",
    "GammaRestart": "policies.gamma_restart",
    "LinTS": "policies.lints",
    "LinUCB": "policies.linucb",
    "LogisticModel": "models",
    "LogisticUCB": "policies.logistic_ucb",
    "MASTER": "policies.master",
    "MUCB": "policies.m_ucb",
    "Member": "policies.dlinucb",
    "MetaBandit": "policies.meta_bandit",
    "OracleLinUCB": "policies.oracle",
    "PHTUCB": "policies.pht_ucb",
    "PSLinUCB": "policies.ps_linucb",
    "PerArm": "policies.per_arm",
    "PerScope": "policies.per_scope",
    "Radius": "models",
    "RandomChoice": "policies.random_choice",
    "RestartLinUCB": "policies.restart_linucb",
    "RewardModel": "models",
    "RidgeModel": "models",
    "Rounds": "environments",
    "SWLinUCB": "policies.sw_linucb",
    "SWUCB": "policies.sw_ucb",
    "ThompsonModel": "models",
    "Trace": "evaluation",
    "UCB1": "policies.ucb1",
    "UCBGLM": "policies.ucb_glm",
    "WMDUCB1": "policies.wmducb1",
    "World": "environments",
    "check_policy": "conformance",
    "compare": "evaluation",
    "simulate": "evaluation",
    "summarise": "evaluation",
    "synthetic": "environments",
}

__all__ = [
    "BOB",
    "CLUB",
    "DAL",
    "DUCB",
    "MASTER",
    "MUCB",
    "PHTUCB",
    "SWUCB",
    "UCB1",
    "UCBGLM",
    "WMDUCB1",
    "AdTS",
    "BrownianRestless",
    "Change",
    "ClickWarning",
    "CusumUCB",
    "DLinUCB",
    "DenBand",
    "DiscountedLinUCB",
    "DriftUCB",
    "DyClu",
    "ExpDiscounts",
    "GLRklUCB",
    "GammaRestart",
    "LinTS",
    "LinUCB",
    "LogisticModel",
    "LogisticUCB",
    "Member",
    "MetaBandit",
    "OracleLinUCB",
    "PSLinUCB",
    "PerArm",
    "PerScope",
    "Policy",
    "Radius",
    "RandomChoice",
    "RestartLinUCB",
    "RewardModel",
    "RidgeModel",
    "Rounds",
    "SWLinUCB",
    "ThompsonModel",
    "Trace",
    "World",
    "check_policy",
    "compare",
    "simulate",
    "summarise",
    "synthetic",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'driftbandit' has no attribute {name!r}")
    value = getattr(import_module(f"driftbandit.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
