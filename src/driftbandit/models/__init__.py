"""Reward models: a prediction and a confidence width, on a flat row of numbers.

One of these is the member of a `DLinUCB`, or the whole of a `LinUCB`.
"""

from driftbandit.models.base import RewardModel
from driftbandit.models.logistic import LogisticModel
from driftbandit.models.ridge import Radius, RidgeModel
from driftbandit.models.thompson import ThompsonModel

MODELS: dict[str, type[RewardModel]] = {
    "ridge": RidgeModel,
    "logistic": LogisticModel,
    "thompson": ThompsonModel,
}

__all__ = ["MODELS", "LogisticModel", "Radius", "RewardModel", "RidgeModel", "ThompsonModel"]
