"""Where rounds come from."""

from driftbandit.environments.rounds import Rounds
from driftbandit.environments.synthetic import PRESETS, World, synthetic, world

__all__ = ["PRESETS", "Rounds", "World", "synthetic", "world"]
