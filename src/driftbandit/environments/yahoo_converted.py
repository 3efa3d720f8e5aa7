"""The Yahoo! R6A log, parsed once, then mapped into memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from driftbandit.blemishes import Report
from driftbandit.environments.converted import Form
from driftbandit.environments.log import Log, note_of
from driftbandit.environments.yahoo import PathLike, day_files, read_yahoo


def form(source: PathLike) -> Form:
    """What `driftbandit data yahoo` converts: the day files of a folder, or one file."""
    files = day_files(source)
    return Form("yahoo", files[0].parent, tuple(file.name for file in files), suffix=".arrow")


def convert_yahoo(
    source: PathLike,
    cache: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[Path, Report]:
    """Parse R6A day files and write the log where `open_yahoo` finds it; parameters as in `read_yahoo`."""
    kept = form(source)  # before reading, so that files that change meanwhile do not match the fingerprint
    log, report = read_yahoo(source, progress=progress)
    return kept.write(lambda path: log.save(path, json.dumps(asdict(report))), cache), report


def open_yahoo(source: PathLike, progress: Callable[[int, int], object] | None = None) -> tuple[Log, Report]:
    """Return the log of R6A day files, from the converted file if there is one, else as `read_yahoo` does.

    Examples
    --------
    >>> import tempfile
    >>> from driftbandit.environments.yahoo_synthetic import write_synthetic
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = write_synthetic(folder, 500)
    ...     file, _ = convert_yahoo(folder)
    ...     log, report = open_yahoo(folder)
    ...     file.name.startswith("yahoo-"), len(log), report.lines
    (True, 500, 500)
    """
    return recall_yahoo(source) or read_yahoo(source, progress=progress)


def recall_yahoo(source: PathLike, cache: str | os.PathLike[str] | None = None) -> tuple[Log, Report] | None:
    """Open the converted file, in `cache` if given; None if the file is missing or damaged."""
    path = form(source).find(cache)
    if path is None:
        return None
    try:
        log = replace(Log.load(path), uniform=True)  # files of earlier versions do not say so
        return log, _report(note_of(path))
    except ValueError:
        return None  # the sources are there, and the next conversion replaces the file


def _report(text: str) -> Report:
    """Read a report back; ValueError if the text is not a report."""
    try:
        parts = json.loads(text)
        examples = {kind: [(str(file), int(line)) for file, line in rows] for kind, rows in parts["examples"].items()}
        skipped, noted = ({str(kind): int(n) for kind, n in parts[name].items()} for name in ("skipped", "noted"))
        return Report(int(parts["lines"]), int(parts["events"]), skipped, noted, examples)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a report ({error})") from error
