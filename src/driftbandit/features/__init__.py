"""Features: from named things to arrays."""

from driftbandit.features.categories import Category, Tags
from driftbandit.features.columns import Column
from driftbandit.features.encoder import Encoder
from driftbandit.features.numbers import Cycle, Flag, Number, Vector

__all__ = ["Category", "Column", "Cycle", "Encoder", "Flag", "Number", "Tags", "Vector"]
