"""A made-up log to audit: the shop's, as files."""

from __future__ import annotations

import os
from pathlib import Path

from driftbandit.environments.shop import Shop

_DECISIONS = 40_000
"""Enough for both changes to be found, few enough for a minute."""


def write_example(folder: str | os.PathLike[str], seed: int = 0) -> tuple[Path, Path]:
    """Write a log (CSV) and its item table (CSV) into a folder; returns the two files.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log, items = write_example(folder)
    ...     print(log.name, items.name, log.read_text().splitlines()[0])
    shop-log.csv shop-items.csv "time","segment","device","hour","arms","arm","propensity","reward"
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.compute as pc  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    made = Shop(decisions=_DECISIONS).log(seed)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    log, items = place / "shop-log.csv", place / "shop-items.csv"
    decisions: pa.Table = made.decisions
    at = decisions.column_names.index("arms")
    csv.write_csv(decisions.set_column(at, "arms", pc.binary_join(decisions["arms"], "|")), log)
    csv.write_csv(made.items, items)
    return log, items
