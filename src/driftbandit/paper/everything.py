"""All tables and figures of the paper by name, and how to redo one or all of them.

Light to import: an artefact's module is loaded when it is redone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftbandit.report import Artefact


class PaperArtefact(StrEnum):
    """The tables and figures that can be redone."""

    TABLE1 = "table1"
    FIGURE2 = "figure2"
    RHO = "rho"
    GROWTH = "growth"
    SENSITIVITY = "sensitivity"
    LEMMAS = "lemmas"
    FIGURE3 = "figure3"
    FIGURE4 = "figure4"
    FIGURE5 = "figure5"
    ALL = "all"


_SEEDS = range(100, 110)
_ON_DATA = {
    PaperArtefact.FIGURE3: range(200, 205),
    PaperArtefact.FIGURE4: range(200, 203),
    PaperArtefact.FIGURE5: range(200, 201),
}
"""Artefacts made from data sets, with their usual seeds, on none of which settings were chosen."""


@dataclass
class Redone:
    """What `redo` made.

    Attributes
    ----------
    artefacts : list of Artefact
        In the order of the paper.
    left_out : dict of str to str
        Artefacts that could not be made, because a data set or an extra is missing, and why.
    report : Path or None
        The page with all artefacts, if all were asked for.
    """

    artefacts: list[Artefact] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    report: Path | None = None


def _files(data: str | os.PathLike[str] | None) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all files of data sets that an artefact may read."""
    from driftbandit.environments.tables import data_places

    places = data_places() if data is None else [Path(data)]
    found = [path for place in places for path in sorted(place.rglob("*")) if path.is_file()]
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found]


def redo(
    wanted: PaperArtefact,
    *,
    out: str | os.PathLike[str],
    first_seed: int | None = None,
    seeds: int | None = None,
    lines: int | None = None,
    data: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Redone:
    """Redo one artefact, or all for which there is data.

    Parameters
    ----------
    wanted : PaperArtefact
        The artefact. `PaperArtefact.ALL` also writes `report.html`, and leaves out what cannot be made.
    out : path
        Folder for traces (one folder per artefact) and for the report.
    first_seed, seeds : int, optional
        First seed and number of seeds; by default those that the documentation reports.
    lines : int, optional
        For figure 3: lines of the log.
    data : path, optional
        Folder of the data sets.
    **options :
        As in `driftbandit.evaluation.compare`: processes, progress, fresh, on.

    Raises
    ------
    FileNotFoundError, ImportError
        If a single artefact is wanted and needs a data set or an extra that is missing.
    """
    from driftbandit.paper.kept import kept_or_made

    everything = wanted is PaperArtefact.ALL
    done = Redone()
    for name in [name for name in PaperArtefact if name is not PaperArtefact.ALL] if everything else [wanted]:
        usual = _ON_DATA.get(name, _SEEDS)
        first = usual.start if first_seed is None else first_seed
        extra: dict[str, Any] = {"data": None if data is None else str(data)} if name in _ON_DATA else {}
        if name is PaperArtefact.FIGURE3:
            extra["lines"] = lines
        try:
            module = import_module(f"driftbandit.paper.{name}")
            played = range(first, first + (seeds or len(usual)))
            make = partial(module.run, seeds=played, out=Path(out, name), **options, **extra)
            given = {"name": name.value, "seeds": [*played], **extra, "files": _files(data) if name in _ON_DATA else []}
            kept = Path(out, name, "artefact.json")
            done.artefacts.append(kept_or_made(make, kept, given, fresh=bool(options.get("fresh"))))
        except (FileNotFoundError, ImportError) as error:
            if not everything:
                raise
            done.left_out[name.value] = str(error)
    if everything:
        from driftbandit.report import page

        done.report = Path(out, "report.html")
        done.report.write_text(page("The dLinUCB paper, redone", done.artefacts, done.left_out), encoding="utf-8")
    return done
