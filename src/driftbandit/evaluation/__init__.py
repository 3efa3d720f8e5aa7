"""Evaluate policies: play them in worlds, keep traces, make tables."""

from driftbandit.evaluation.compare import compare
from driftbandit.evaluation.detection import Detection
from driftbandit.evaluation.results import Row, summarise
from driftbandit.evaluation.simulate import simulate
from driftbandit.evaluation.trace import Trace

__all__ = ["Detection", "Row", "Trace", "compare", "simulate", "summarise"]
