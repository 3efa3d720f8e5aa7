"""Where rounds come from: simulated worlds, LastFM, Delicious, and logs in the format of the Yahoo! log."""

from driftbandit.environments.blocks import Blocks
from driftbandit.environments.people import People
from driftbandit.environments.presets import PRESETS, TWINS, Simulated
from driftbandit.environments.rounds import Rounds
from driftbandit.environments.synthetic import synthetic, world
from driftbandit.environments.world import World

__all__ = ["PRESETS", "TWINS", "Blocks", "People", "Rounds", "Simulated", "World", "synthetic", "world"]
