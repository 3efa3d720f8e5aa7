"""All that `driftbandit bench` measures, as one artefact."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict

from driftbandit.benchmarks import loading as data_loading
from driftbandit.benchmarks import many_scopes, speed, wide
from driftbandit.report import Artefact


def read_sizes(text: str) -> list[tuple[int, int]]:
    """Sizes as a user writes them: features x arms per round.

    >>> read_sizes("6x10,25x25")
    [(6, 10), (25, 25)]
    """
    try:
        pairs = [tuple(int(part) for part in size.split("x")) for size in text.split(",")]
        shapes = [(dim, arms) for dim, arms in pairs if dim > 0 and arms > 0]
    except ValueError as error:
        raise ValueError(f"--sizes: expected something like 6x10,25x25, got {text!r}") from error
    if len(shapes) != len(pairs):
        raise ValueError(f"--sizes: expected positive numbers, got {text!r}")
    return shapes


def run(
    shapes: Sequence[tuple[int, int]],
    *,
    rounds: int,
    peers: bool,
    loading: bool,
    many_features: bool,
    scopes: int,
    data: str | os.PathLike[str] | None,
    seed: int,
) -> Artefact:
    """Time choose + learn, the import and, on request, the reading of data and choose + learn at many features.

    Parameters
    ----------
    shapes : sequence of (int, int)
        Features and arms per round.
    rounds : int
        Rounds per run.
    peers, loading : bool
        Whether to time other packages, and data.
    many_features : bool
        Whether to compare LinUCB with NumPy and DriftUCB with LinUCB at sizes up to 1,024 features.
    scopes : int
        Scopes that are timed at once beside one by one; 0 for none.
    data : path, optional
        Folder of the data sets.
    seed : int
        Seed of the rounds.
    """
    times = speed.measure(shapes, seed=seed, peers=peers, rounds=rounds)
    crowd = many_scopes.measure(scopes=scopes, seed=seed) if scopes else {}
    imports = speed.import_ratio()
    figures = data_loading.measure_loading(data, seed=seed) if loading else []
    found = wide.measure(rounds, seed=seed) if many_features else None
    return Artefact(
        "bench",
        "Speed",
        text=[f"import driftbandit takes {imports:.1f} times as long as import numpy."],
        tables=[
            speed.speed_table(times, rounds),
            *(wide.tables(found) if found else []),
            *([many_scopes.many_scopes_table(crowd, scopes=scopes)] if crowd else []),
            *([data_loading.loading_table(figures)] if figures else []),
        ],
        data={
            "microseconds": {
                name: {f"{dim}x{arms}": value for (dim, arms), value in row.items()} for name, row in times.items()
            },
            "many_scopes": crowd,
            "import_ratio": imports,
            "loading": {figure.name: asdict(figure) for figure in figures},
            "many_features": found.as_data() if found else {},
        },
    )
