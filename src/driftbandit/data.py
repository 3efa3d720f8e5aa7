"""What `driftbandit data` does: find a copy of a data set, check it, convert it; fetch it, or make one up."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from driftbandit.environments import delicious, lastfm
from driftbandit.environments.converted import CACHE_VARIABLE, Form, cache_folder
from driftbandit.environments.datasets import (
    DATA_SETS,
    R6A_DAYS,
    R6A_LINES,
    DataSet,
    Found,
    check_tables,
    locate,
    present,
)
from driftbandit.environments.download import fetch, unpack
from driftbandit.environments.hetrec import Interactions
from driftbandit.environments.log import Log
from driftbandit.environments.tables import default_folder
from driftbandit.environments.yahoo import Report, read_yahoo
from driftbandit.environments.yahoo_converted import convert_yahoo, recall_yahoo
from driftbandit.environments.yahoo_converted import form as yahoo_form
from driftbandit.environments.yahoo_synthetic import line_times, write_synthetic
from driftbandit.evaluation.results import Table, number_of
from driftbandit.report import Artefact

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], object]

PLAN = "plan.npz"
COMPONENTS = 25
"""Features that LastFM and Delicious are converted with, as the paper has them."""


def overview(data: PathLike | None = None) -> Artefact:
    """All data sets and their state; opens no file."""
    rows, facts = [], {}
    for name, data_set in DATA_SETS.items():
        try:
            folder = locate(name, data)
        except FileNotFoundError:
            state, where = "not here", ""
        else:
            state, where = _state(data_set, folder), str(folder)
        rows.append((name, data_set.title, state, where))
        facts[name] = {"title": data_set.title, "state": state, "folder": where or None, **_origin(data_set)}
    return Artefact(
        "data",
        "Data sets",
        text=[f"{name}: {said.source}; {said.terms}." for name, said in DATA_SETS.items()],
        tables=[
            Table(
                "State",
                ("name", "data set", "state", "folder"),
                tuple(rows),
                "`driftbandit data NAME` checks and converts one.",
                numbers=False,
            )
        ],
        data=facts,
    )


def _state(data_set: DataSet, folder: Path) -> str:
    here = present(data_set.name, folder)
    if data_set.name == "yahoo":
        if not here:
            return "no day files"
        made = "made up, " if (folder / PLAN).exists() else ""
        return f"{made}{number_of('day file', len(here))}{_converted([yahoo_form(folder)])}"
    missing = [
        file.name
        for file in data_set.files
        if file.name not in here and not file.only_for and not (file.unless and file.unless in here)
    ]
    return f"missing {', '.join(missing)}" if missing else f"here{_converted(_hetrec_forms(data_set.name, folder))}"


def _converted(forms: list[Form]) -> str:
    return ", converted" if any(form.find() for form in forms) else ", not converted"


def _origin(data_set: DataSet) -> dict[str, Any]:
    return {"source": data_set.source, "terms": data_set.terms}


def _said(data_set: DataSet, folder: Path) -> list[str]:
    return [f"Found in {folder}.", f"From {data_set.source}; {data_set.terms}."]


# LastFM and Delicious


def check_hetrec(
    name: str,
    data: PathLike | None = None,
    cache: PathLike | None = None,
    convert: bool = True,
    fresh: bool = False,
) -> Artefact:
    """Check LastFM or Delicious, and convert it unless told not to; `fresh` converts again what was converted.

    Raises
    ------
    FileNotFoundError, ValueError
        If it is not there, or a file is missing or cannot be read; names all of them.
    """
    data_set = DATA_SETS[name]
    try:
        folder = locate(name, data)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}; `driftbandit data {name} --download` fetches it") from error
    found = check_tables(data_set, folder)
    if problems := [f"{file.file}: {file.problem}" for file in found if file.problem]:
        raise ValueError(f"{folder}: {'; '.join(problems)}")
    facts: dict[str, Any] = {
        "folder": str(folder),
        **_origin(data_set),
        "files": {file.file: {"rows": file.rows, "official": file.official, "remark": file.remark} for file in found},
        "warnings": [f"{file.file}: {file.remark}" for file in found if file.remark],
        "converted": None,
    }
    text = _said(data_set, folder)
    if convert:
        said, facts["converted"] = _convert_hetrec(name, folder, cache, fresh)
        text += said
    return Artefact(f"data-{name}", data_set.title, text=text, tables=[_files_table(found)], data=facts)


def _files_table(found: list[Found]) -> Table:
    def count(rows: int | None) -> str:
        return "–" if rows is None else f"{rows:,}"

    cells = tuple((file.file, count(file.rows), count(file.official), file.remark or "good") for file in found)
    note = "Rows below the header; – under officially: the readme does not say, or the file is not part of the set."
    return Table("Files", ("file", "rows", "officially", ""), cells, note, numbers=False)


def _hetrec_forms(name: str, folder: Path) -> list[Form]:
    """The converted form with all that it can have, and the one without groups where that may be impossible."""
    if name == "lastfm":
        return [lastfm.form(folder, components=COMPONENTS)]
    return [delicious.form(folder, components=COMPONENTS, groups=with_groups) for with_groups in (True, False)]


def _convert_hetrec(name: str, folder: Path, cache: PathLike | None, fresh: bool) -> tuple[list[str], dict[str, Any]]:
    """Convert it unless that was done; returns what to say of it, and the facts."""
    forms = _hetrec_forms(name, folder)
    done = None if fresh else next((form for form in forms if _opens(form, cache)), None)
    if done is not None:
        facts = {"file": str(done.find(cache)), "seconds_from_source": None, "seconds_converted": _opens(done, cache)}
        text = f"Converted already: {facts['file']}, which opens in {facts['seconds_converted']:.2f} s."
        return [text, *_hint(done, cache)], facts
    started = time.perf_counter()
    form, *without = forms
    try:
        read = _read(name, folder)
        remark = ""
    except (ValueError, FileNotFoundError) as error:
        if not without:
            raise
        form, read, remark = without[0], _read(name, folder, groups=False), f"Without groups of users: {error}."
    seconds = time.perf_counter() - started
    path = read.convert(form, cache)
    opening = _opens(form, cache)
    if opening is None:
        raise OSError(f"{path}: written, but cannot be read back")
    text = (
        f"Converted into {path}. Read from its own files in {seconds:.2f} s, from the converted one in {opening:.2f} s."
    )
    facts = {"file": str(path), "seconds_from_source": seconds, "seconds_converted": opening}
    return [text, *([remark] if remark else []), *_hint(form, cache)], facts


def _read(name: str, folder: Path, groups: bool = True) -> Interactions:
    if name == "lastfm":
        return lastfm.read(folder, components=COMPONENTS)
    return delicious.read(folder, components=COMPONENTS, groups=groups)


def _opens(form: Form, cache: PathLike | None) -> float | None:
    """Seconds to open the converted file; None if there is no good one."""
    started = time.perf_counter()
    found = Interactions.recall(form, COMPONENTS, cache)
    return None if found is None else time.perf_counter() - started


def _hint(form: Form, cache: PathLike | None) -> list[str]:
    """How the readers find a converted file, where they would not."""
    if cache is None or cache_folder(form.name, form.folder) == cache_folder(form.name, form.folder, cache):
        return []
    return [f"Set {CACHE_VARIABLE}={Path(cache).resolve()} for it to be used."]


def download(name: str, data: PathLike | None = None) -> list[Path]:
    """Fetch LastFM or Delicious from GroupLens, for a user who accepts its terms; returns the files written.

    Files that are there already are left alone, and nothing is fetched if none is missing.

    Raises
    ------
    OSError, ValueError
        If it cannot be fetched, is not what it should be, or may not be fetched at all.
    """
    data_set = DATA_SETS[name]
    if not data_set.archive:
        raise ValueError(f"{name}: cannot be downloaded: {data_set.terms}; ask at {data_set.source}")
    folder = (Path(data) if data is not None else default_folder()) / name
    needed = [file.name for file in data_set.files if file.name in data_set.members]
    if all((folder / file).exists() for file in needed):
        return []
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="driftbandit-") as scratch:
        archive = Path(scratch, data_set.archive.rsplit("/", 1)[1])
        fetch(data_set.archive, archive)
        try:
            return unpack(archive, data_set.members, needed, folder)
        except ValueError as error:
            raise ValueError(str(error).replace(str(archive), data_set.archive)) from error


# Yahoo! R6A


def check_yahoo(
    data: PathLike | None = None,
    cache: PathLike | None = None,
    convert: bool = True,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Artefact:
    """Check the day files of the Yahoo! log by reading them, and convert them unless told not to.

    Files that were converted are not read again, unless `fresh` asks for it or nothing is to be converted.
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
        **_origin(data_set),
        "files": list(files),
        "lines": report.lines,
        "events": report.events,
        "skipped": report.skipped,
        "noted": report.noted,
        "warnings": warnings,
        "converted": None,
    }
    text = [*_said(data_set, folder), *str(report).splitlines(), *(f"warning: {warning}" for warning in warnings)]
    if path is not None:
        started = time.perf_counter()
        Log.load(path)
        loading = time.perf_counter() - started
        facts["converted"] = {"file": str(path), "seconds_from_source": seconds, "seconds_converted": loading}
        how = "already" if seconds is None else f"in {seconds:.2f} s"
        text.append(f"Converted {how}: {path}, which opens in {loading:.3f} s.")
        text += _hint(yahoo_form(folder), cache)
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
