"""Features: from named things to arrays."""

from driftbandit.features.adapters import Transformed
from driftbandit.features.columns.base import Column
from driftbandit.features.columns.categories import Category, Tags
from driftbandit.features.columns.numbers import Cycle, Flag, Number, Vector
from driftbandit.features.encoder import Encoder

__all__ = ["Category", "Column", "Cycle", "Encoder", "Flag", "Number", "Tags", "Transformed", "Vector"]
