"""Policies on people's own logs: what they would have earned, by name of the question, with intervals."""

from driftbandit.evaluation.logged.comparison import ValueRow, compare_values, value_table
from driftbandit.evaluation.logged.evaluate import LogEvaluation, evaluate_log
from driftbandit.evaluation.logged.making import make_log
from driftbandit.evaluation.logged.preparing import Preparation, prepare
from driftbandit.evaluation.logged.runs import replayed_values, shadow_values
from driftbandit.evaluation.logged.valuation import Valuation

__all__ = [
    "LogEvaluation",
    "Preparation",
    "Valuation",
    "ValueRow",
    "compare_values",
    "evaluate_log",
    "make_log",
    "prepare",
    "replayed_values",
    "shadow_values",
    "value_table",
]
