"""Where rounds come from: simulated worlds, LastFM, Delicious, and logs in the format of the Yahoo! log."""

from driftbandit.environments.rounds import Rounds
from driftbandit.environments.synthetic import PRESETS, World, synthetic, world

__all__ = ["PRESETS", "Rounds", "World", "synthetic", "world"]
