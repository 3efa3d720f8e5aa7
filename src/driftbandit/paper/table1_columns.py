"""The six columns of the paper's Table 1 and the numbers that it prints."""

from __future__ import annotations

from dataclasses import dataclass

from driftbandit.environments import Simulated, World


@dataclass(frozen=True)
class Column:
    """One column of Table 1."""

    noise: float
    shift: float
    period: int

    @property
    def name(self) -> str:
        """As in the paper's heading: noise, shift, period."""
        return f"{self.noise:g}, {self.shift:g}, {self.period}"

    @property
    def world(self) -> World:
        """The world of this column."""
        return World(noise=self.noise, shift=self.shift, period=self.period)


COLUMNS = (
    Column(0.1, 0.9, 800),
    Column(0.05, 0.9, 800),
    Column(0.01, 0.9, 800),
    Column(0.01, 0.5, 800),
    Column(0.01, 0.1, 800),
    Column(0.01, 0.9, 400),
)

PAPER: dict[str, tuple[tuple[float, float], ...]] = {
    "dlinucb": (
        (87.46, 3.61),
        (65.94, 2.30),
        (54.07, 3.95),
        (44.94, 2.90),
        (46.12, 4.63),
        (111.72, 4.87),
    ),
    "adts": (
        (360.75, 39.59),
        (249.63, 27.26),
        (207.95, 22.28),
        (189.07, 18.39),
        (177.55, 20.36),
        (412.55, 14.53),
    ),
    "linucb": (
        (436.84, 40.23),
        (386.10, 21.88),
        (347.19, 14.95),
        (264.87, 21.53),
        (226.87, 32.15),
        (405.82, 33.38),
    ),
    "meta-bandit": (
        (1822.31, 80.67),
        (1340.01, 29.94),
        (1354.03, 22.29),
        (1329.51, 18.93),
        (1402.63, 24.85),
        (1388.81, 115.91),
    ),
    "wmducb1": (
        (2219.36, 142.16),
        (1652.99, 21.33),
        (1635.35, 73.96),
        (1464.11, 89.16),
        (1506.55, 41.52),
        (1691.75, 48.09),
    ),
}
"""Mean and standard deviation of ten runs, as printed."""


def printed(world_settings: Simulated) -> dict[str, tuple[float, float]] | None:
    """The paper's numbers for a world that is a column of Table 1, else None."""
    for index, column in enumerate(COLUMNS):
        if column.world == world_settings:
            return {name: cells[index] for name, cells in PAPER.items()}
    return None
