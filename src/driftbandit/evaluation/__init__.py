"""Evaluate policies: play them in worlds, run them through logs, keep traces, make tables."""

from driftbandit.evaluation.compare import compare
from driftbandit.evaluation.detection import Detection
from driftbandit.evaluation.logged import Valuation, compare_values, evaluate_log, replayed_values, shadow_values
from driftbandit.evaluation.results import Row, summarise
from driftbandit.evaluation.simulate import simulate
from driftbandit.evaluation.trace import Trace

__all__ = [
    "Detection",
    "Row",
    "Trace",
    "Valuation",
    "compare",
    "compare_values",
    "evaluate_log",
    "replayed_values",
    "shadow_values",
    "simulate",
    "summarise",
]
