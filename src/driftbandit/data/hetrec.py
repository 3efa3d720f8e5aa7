"""LastFM and Delicious: check a copy, convert it, or fetch it from GroupLens."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from driftbandit.data.shared import PathLike, cache_hint, found_in, origin
from driftbandit.environments import delicious, lastfm
from driftbandit.environments.converted import Form
from driftbandit.environments.datasets import DATA_SETS, Found, check_tables, locate
from driftbandit.environments.download import fetch, unpack
from driftbandit.environments.hetrec import Interactions
from driftbandit.environments.tables import default_folder
from driftbandit.evaluation.results import Table
from driftbandit.report import Artefact

COMPONENTS = 25
"""Features that LastFM and Delicious are converted with, as the paper has them."""


def check_hetrec(
    name: str,
    data: PathLike | None = None,
    cache: PathLike | None = None,
    convert: bool = True,
    fresh: bool = False,
) -> Artefact:
    """Check LastFM or Delicious, and convert it unless told not to; `fresh` converts even if a converted file exists.

    Raises
    ------
    FileNotFoundError, ValueError
        If the data set is not there, or files are missing or cannot be read; the message names all of them.
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
        **origin(data_set),
        "files": {file.file: {"rows": file.rows, "official": file.official, "remark": file.remark} for file in found},
        "warnings": [f"{file.file}: {file.remark}" for file in found if file.remark],
        "converted": None,
    }
    text = found_in(data_set, folder)
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


def hetrec_forms(name: str, folder: Path) -> list[Form]:
    """What a copy can be converted to: with groups of users and, in case none can be found, without."""
    if name == "lastfm":
        return [lastfm.form(folder, components=COMPONENTS)]
    return [delicious.form(folder, components=COMPONENTS, groups=with_groups) for with_groups in (True, False)]


def _convert_hetrec(name: str, folder: Path, cache: PathLike | None, fresh: bool) -> tuple[list[str], dict[str, Any]]:
    """Convert the data set unless that was done; returns a message and the facts."""
    forms = hetrec_forms(name, folder)
    done = None if fresh else next((form for form in forms if _opens(form, cache)), None)
    if done is not None:
        facts = {"file": str(done.find(cache)), "seconds_from_source": None, "seconds_converted": _opens(done, cache)}
        text = f"Converted already: {facts['file']}, which opens in {facts['seconds_converted']:.2f} s."
        return [text, *cache_hint(done, cache)], facts
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
    return [text, *([remark] if remark else []), *cache_hint(form, cache)], facts


def _read(name: str, folder: Path, groups: bool = True) -> Interactions:
    if name == "lastfm":
        return lastfm.read(folder, components=COMPONENTS)
    return delicious.read(folder, components=COMPONENTS, groups=groups)


def _opens(form: Form, cache: PathLike | None) -> float | None:
    """Seconds to open the converted file; None if there is no good one."""
    started = time.perf_counter()
    found = Interactions.recall(form, COMPONENTS, cache)
    return None if found is None else time.perf_counter() - started


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
