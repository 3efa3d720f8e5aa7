"""The day files of the Yahoo! log, read on all cores, one day at a time on each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from driftbandit.blemishes import Report
from driftbandit.environments.joining import ChangedArticleError, joined
from driftbandit.environments.log import Log, note_of
from driftbandit.environments.yahoo import PathLike, day_files, read_yahoo
from driftbandit.evaluation.workers import work_off


def read_days(
    source: PathLike | Iterable[PathLike], *, processes: int | None = None, progress: bool = False
) -> tuple[Log, Report]:
    """Read R6A day files as `read_yahoo` does, with the same result, on several cores.

    The days are kept in temporary files until all are read, which takes as much disk as the log takes memory. If an
    article has other features on one day than on another, everything is read again, one day after the other, because
    the report counts all such lines.

    Parameters
    ----------
    source : path, or several
        As in `read_yahoo`.
    processes : int, optional
        Number of processes, by default one per core.
    progress : bool
        Show a progress bar.

    Examples
    --------
    >>> from driftbandit.environments.yahoo_synthetic import write_synthetic
    >>> with TemporaryDirectory() as folder:
    ...     plan = write_synthetic(folder, 600, days=3)
    ...     log, report = read_days(folder, processes=1)
    >>> len(log), report.lines
    (600, 600)
    """
    files = day_files(source)
    with TemporaryDirectory(prefix="driftbandit-") as folder:
        days = list(enumerate(files))
        for _ in work_off(
            days,
            _read,
            folder=folder,
            processes=processes,
            progress=progress,
            total=sum(file.stat().st_size for file in files),
            finished=0,
            runs_of=lambda day: day[1].stat().st_size,
        ):
            pass
        kept = [_kept(folder, number) for number, _ in days]
        report = Report()
        for file, path in zip(files, kept, strict=True):
            _add(report, str(file), Report(**json.loads(note_of(path))))
        try:
            return joined([Log.load(path) for path in kept]), report
        except ChangedArticleError:
            return read_yahoo(files)


def _read(day: tuple[int, Path], folder: str) -> None:
    number, file = day
    log, report = read_yahoo([file])
    log.save(_kept(folder, number), json.dumps(asdict(report)))


def _kept(folder: str, number: int) -> Path:
    return Path(folder, f"{number}.arrow")


def _add(report: Report, file: str, day: Report) -> None:
    """Add what was found on one day to the report of all."""
    report.lines += day.lines
    report.events += day.events
    for add, counts in ((report.skip, day.skipped), (report.note, day.noted)):
        for kind, count in counts.items():
            add(kind, file, [line for _, line in day.examples[kind]], count)
