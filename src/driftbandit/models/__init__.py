"""Reward models: a prediction and a confidence width, on a flat row of numbers.

A reward model is the member of a `DLinUCB`, or the whole of a `LinUCB`.
"""

from driftbandit.models.base import RewardModel
from driftbandit.models.logistic import LogisticModel
from driftbandit.models.prior import PriorRidge
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.models.thompson import ThompsonModel
from driftbandit.models.tuned import TunedRidge, TunedThompson

MODELS: dict[str, type[RewardModel]] = {
    "ridge": RidgeModel,
    "logistic": LogisticModel,
    "thompson": ThompsonModel,
}

TUNED: dict[str, type[RewardModel]] = {
    "ridge": TunedRidge,
    "logistic": LogisticModel,
    "thompson": TunedThompson,
}
"""The models that replace those of `MODELS` if the noise is not known."""

__all__ = [
    "MODELS",
    "TUNED",
    "LogisticModel",
    "PriorRidge",
    "Radius",
    "RewardModel",
    "RidgeModel",
    "ThompsonModel",
    "TunedRidge",
    "TunedThompson",
]
