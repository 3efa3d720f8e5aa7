"""driftbandit: contextual bandits for a world that changes.

Everything public can be imported from here. Names are loaded on first use, so that ``import driftbandit`` costs
little more than numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from driftbandit.core import Change, Policy, ScopedPolicy

if TYPE_CHECKING:
    from driftbandit.batch import ManyScopes
    from driftbandit.conformance import check_policy
    from driftbandit.environments import Rounds, World, synthetic
    from driftbandit.evaluation import (
        Trace,
        Valuation,
        compare,
        compare_values,
        evaluate_log,
        replayed_values,
        shadow_values,
        simulate,
        summarise,
    )
    from driftbandit.features import Encoder
    from driftbandit.logs import DecisionLog, read_log
    from driftbandit.models import LogisticModel, Radius, RewardModel, RidgeModel, ThompsonModel
    from driftbandit.policies.choosing_memory.bob import BOB
    from driftbandit.policies.choosing_memory.click_warning import ClickWarning
    from driftbandit.policies.choosing_memory.denband import DenBand
    from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
    from driftbandit.policies.choosing_memory.driftucb import DriftUCB
    from driftbandit.policies.choosing_memory.exp_discounts import ExpDiscounts
    from driftbandit.policies.choosing_memory.members import Member
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
    from driftbandit.policies.linear.diagonal_linucb import DiagonalLinUCB
    from driftbandit.policies.linear.lints import LinTS
    from driftbandit.policies.linear.linucb import LinUCB
    from driftbandit.policies.linear.oracle import OracleLinUCB
    from driftbandit.policies.restarting.adts import AdTS
    from driftbandit.policies.restarting.dal import DAL
    from driftbandit.policies.restarting.master import MASTER
    from driftbandit.policies.restarting.ps_linucb import PSLinUCB
    from driftbandit.policies.saving import load
    from driftbandit.policies.scoped.club import CLUB
    from driftbandit.policies.scoped.dyclu import DyClu
    from driftbandit.policies.scoped.per_arm import PerArm
    from driftbandit.policies.scoped.per_scope import PerScope
    from driftbandit.recommender import Decision, Recommender

__version__ = "0.1.0"

_HOMES = {
    "AdTS": "policies.restarting.adts",
    "BOB": "policies.choosing_memory.bob",
    "BrownianRestless": "policies.context_free.brownian",
    "CLUB": "policies.scoped.club",
    "ClickWarning": "policies.choosing_memory.click_warning",
    "CusumUCB": "policies.context_free.cusum_ucb",
    "DAL": "policies.restarting.dal",
    "DLinUCB": "policies.choosing_memory.dlinucb",
    "DUCB": "policies.context_free.d_ucb",
    "Decision": "recommender",
    "DecisionLog": "logs",
    "DenBand": "policies.choosing_memory.denband",
    "DiagonalLinUCB": "policies.linear.diagonal_linucb",
    "DiscountedLinUCB": "policies.forgetting.discounted_linucb",
    "DriftUCB": "policies.choosing_memory.driftucb",
    "DyClu": "policies.scoped.dyclu",
    "Encoder": "features",
    "ExpDiscounts": "policies.choosing_memory.exp_discounts",
    "GLRklUCB": "policies.context_free.glr_klucb",
    "GammaRestart": "policies.context_free.gamma_restart",
    "LinTS": "policies.linear.lints",
    "LinUCB": "policies.linear.linucb",
    "LogisticModel": "models",
    "LogisticUCB": "policies.clicks.logistic_ucb",
    "MASTER": "policies.restarting.master",
    "MUCB": "policies.context_free.m_ucb",
    "ManyScopes": "batch",
    "Member": "policies.choosing_memory.members",
    "MetaBandit": "policies.context_free.meta_bandit",
    "OracleLinUCB": "policies.linear.oracle",
    "PHTUCB": "policies.context_free.pht_ucb",
    "PSLinUCB": "policies.restarting.ps_linucb",
    "PerArm": "policies.scoped.per_arm",
    "PerScope": "policies.scoped.per_scope",
    "Radius": "models",
    "RandomChoice": "policies.context_free.random_choice",
    "Recommender": "recommender",
    "RestartLinUCB": "policies.forgetting.restart_linucb",
    "RewardModel": "models",
    "RidgeModel": "models",
    "Rounds": "environments",
    "SWLinUCB": "policies.forgetting.sw_linucb",
    "SWUCB": "policies.context_free.sw_ucb",
    "ThompsonModel": "models",
    "Trace": "evaluation",
    "UCB1": "policies.context_free.ucb1",
    "UCBGLM": "policies.clicks.ucb_glm",
    "Valuation": "evaluation",
    "WMDUCB1": "policies.context_free.wmducb1",
    "World": "environments",
    "check_policy": "conformance",
    "compare": "evaluation",
    "compare_values": "evaluation",
    "evaluate_log": "evaluation",
    "load": "policies.saving",
    "replayed_values": "evaluation",
    "shadow_values": "evaluation",
    "read_log": "logs",
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
    "Decision",
    "DecisionLog",
    "DenBand",
    "DiagonalLinUCB",
    "DiscountedLinUCB",
    "DriftUCB",
    "DyClu",
    "Encoder",
    "ExpDiscounts",
    "GLRklUCB",
    "GammaRestart",
    "LinTS",
    "LinUCB",
    "LogisticModel",
    "LogisticUCB",
    "ManyScopes",
    "Member",
    "MetaBandit",
    "OracleLinUCB",
    "PSLinUCB",
    "PerArm",
    "PerScope",
    "Policy",
    "Radius",
    "RandomChoice",
    "Recommender",
    "RestartLinUCB",
    "RewardModel",
    "RidgeModel",
    "Rounds",
    "SWLinUCB",
    "ScopedPolicy",
    "ThompsonModel",
    "Trace",
    "Valuation",
    "World",
    "check_policy",
    "compare",
    "compare_values",
    "evaluate_log",
    "load",
    "read_log",
    "replayed_values",
    "shadow_values",
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
