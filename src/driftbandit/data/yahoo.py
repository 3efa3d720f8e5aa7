"""The Yahoo! log: check its day files, convert them, or make up a log in the same format."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.blemishes import Report
from driftbandit.data.shared import PathLike, Progress, cache_hint, found_in, origin
from driftbandit.environments.datasets import DATA_SETS, R6A_DAYS, R6A_LINES, locate, present
from driftbandit.environments.log import Log
from driftbandit.environments.yahoo import read_yahoo
from driftbandit.environments.yahoo_converted import convert_yahoo, recall_yahoo
from driftbandit.environments.yahoo_converted import form as yahoo_form
from driftbandit.environments.yahoo_synthetic import line_times, write_synthetic
from driftbandit.evaluation.results import Table, number_of
from driftbandit.report import Artefact

PLAN = "plan.npz"


def check_yahoo(
    data: PathLike | None = None,
    cache: PathLike | None = None,
    convert: bool = True,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Artefact:
    """Check the day files of the Yahoo! log by reading them, and convert them unless told not to.

    Converted files are not read again, unless `fresh` asks for it or nothing is to be converted.
    """
    data_set = DATA_SETS["yahoo"]
    try:
        folder = locate("yahoo", data)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}; to be had {data_set.terms}; `driftbandit data yahoo --synthetic N` makes one up"
        ) from error
    files = yahoo_form(folder).sources
    kept = recall_yahoo(folder, cache) if convert and not fresh else None
    started = time.perf_counter()
    if kept is not None:
        path, report = yahoo_form(folder).find(cache), kept[1]
    elif convert:
        path, report = convert_yahoo(folder, cache, progress)
    else:
        path, report = None, read_yahoo(folder, progress=progress)[1]
    seconds = time.perf_counter() - started if kept is None else None
    warnings = _yahoo_warnings(folder, files, report)
    facts: dict[str, Any] = {
        "folder": str(folder),
        **origin(data_set),
        "files": list(files),
        "lines": report.lines,
        "events": report.events,
        "skipped": report.skipped,
        "noted": report.noted,
        "warnings": warnings,
        "converted": None,
    }
    text = [*found_in(data_set, folder), *str(report).splitlines(), *(f"warning: {warning}" for warning in warnings)]
    if path is not None:
        started = time.perf_counter()
        Log.load(path)
        loading = time.perf_counter() - started
        facts["converted"] = {"file": str(path), "seconds_from_source": seconds, "seconds_converted": loading}
        how = "already" if seconds is None else f"in {seconds:.2f} s"
        text.append(f"Converted {how}: {path}, which opens in {loading:.3f} s.")
        text += cache_hint(yahoo_form(folder), cache)
    return Artefact("data-yahoo", data_set.title, text=text, data=facts)


def _yahoo_warnings(folder: Path, files: tuple[str, ...], report: Report) -> list[str]:
    warnings: list[str] = []
    if (folder / PLAN).exists():
        return warnings if report.events else ["no line could be used"]
    days = {file.removesuffix(".gz")[-2:] for file in files}
    if missing := [f"{day:02d}" for day in range(1, R6A_DAYS + 1) if f"{day:02d}" not in days]:
        warnings.append(f"{len(days)} of {R6A_DAYS} days, without {', '.join(missing)}")
    elif report.lines != R6A_LINES:
        warnings.append(f"{report.lines:,} lines, officially {R6A_LINES:,}")
    if not report.events:
        warnings.append("no line could be used")
    return warnings


def make_up(lines: int, folder: PathLike, *, seed: int, days: int, changes: int, compress: bool) -> Artefact:
    """Write a made-up Yahoo! log and its plan; parameters as in `write_synthetic`."""
    target = Path(folder)
    if target.is_dir() and present("yahoo", target) and not (target / PLAN).exists():
        raise ValueError(f"{target}: has day files that were not made up; choose another folder with --out")
    created = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    try:
        plan = write_synthetic(target, lines, seed=seed, days=days, changes=changes, compress=compress)
    except ValueError:
        if created:
            target.rmdir()
        raise
    events = np.searchsorted(line_times(lines, days), plan.changes)
    table = Table(
        "Planted changes",
        ("change", "unix time", "first line after it"),
        tuple(
            (str(number), str(when), f"{event + 1:,}")
            for number, (when, event) in enumerate(zip(plan.changes.tolist(), events.tolist(), strict=True), 1)
        ),
        f"{PLAN} holds them with the true click rates; driftbandit.environments.yahoo_plan.Plan.load reads it.",
    )
    facts = {
        "folder": str(target),
        "files": list(plan.files),
        "plan": str(target / PLAN),
        "lines": lines,
        "seed": seed,
        "articles": len(plan.articles),
        "changes": plan.changes.tolist(),
        "first_lines": (events + 1).tolist(),
    }
    text = [f"{lines:,} lines in {number_of('day file', len(plan.files))} under {target}, made up with seed {seed}."]
    return Artefact("data-yahoo", "A made-up Yahoo! log", text=text, tables=[table], data=facts)
