"""The Yahoo! Today Module log (R6A): ten days of May 2009 in which a random article was displayed to each user.

Its terms forbid passing the files on; if you have them (``ydata-fp-td-clicks-v1_0.20090501`` to ``10``, plain or .gz),
give their folder to `read_yahoo`. `driftbandit.environments.yahoo_synthetic` writes files of the same format.

References
----------
Li, Chu, Langford, Schapire: A contextual-bandit approach to personalized news article recommendation. WWW 2010.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from driftbandit.blemishes import Report
from driftbandit.core import as_count
from driftbandit.environments.log import Log
from driftbandit.environments.r6a_parser import BrokenFileError, Parser, blocks
from driftbandit.kernels import r6a

PathLike = str | os.PathLike[str]

DAY_FILE = re.compile(r"ydata-fp-td-clicks-v1_0\.200905\d\d(\.gz)?")
"""Names of the day files; other files are only read if they are named one by one."""

_BLOCK = 4 << 20


def _add(report: Report, file: Path, parser: Parser) -> None:
    """Add what the parser found in a file to the report."""
    report.lines += parser.lines
    report.events = parser.events
    for kind, count, lines in zip(r6a.KINDS, parser.counts.tolist(), parser.examples.tolist(), strict=True):
        add = report.note if kind == r6a.KINDS[r6a.CHANGED] else report.skip
        add(kind, str(file), lines[:count], count)


def day_files(source: PathLike | Iterable[PathLike]) -> list[Path]:
    """Files to read, in order: a folder's day files by date, or the named files as they come.

    A day that lies in a folder both plain and compressed is taken once, plain.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file or folder is missing, or a folder has no day files.

    Examples
    --------
    >>> day_files("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: nowhere: no such file or folder
    """
    if not isinstance(source, str | os.PathLike):
        files = [Path(name) for name in source]
        if not files:
            raise ValueError("source: expected at least one file, got none")
        for file in files:
            if file.is_dir():
                raise ValueError(f"{file}: expected a file, got a folder")
            if not file.exists():
                raise FileNotFoundError(f"{file}: no such file")
        return files
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if not path.is_dir():
        return [path]
    days: dict[str, Path] = {}
    for file in sorted(path.iterdir()):  # a plain name comes before the same with .gz
        if DAY_FILE.fullmatch(file.name) and file.is_file():
            days.setdefault(file.name.removesuffix(".gz"), file)
    if not days:
        raise ValueError(f"{path}: no day files, expected names like ydata-fp-td-clicks-v1_0.20090501 or ...01.gz")
    return list(days.values())


def read_yahoo(
    source: PathLike | Iterable[PathLike],
    *,
    lenient: bool = False,
    block_bytes: int = _BLOCK,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[Log, Report]:
    """Read R6A day files into a log.

    Memory beyond the log itself does not grow with the files. Feature columns, of users and of articles, are in order
    of their ids, 1 to 6: column 0 is the constant. Candidates keep the order of the line. An article keeps the features
    it was first seen with.

    Lines with a blemish are skipped, counted and reported. So is a last line without a line end, because any part of it
    may be missing. A file whose lines are all bad gives an empty log and a long report.

    Parameters
    ----------
    source : path, or several
        A day file, a folder with day files, or files in the order in which to read them.
    lenient : bool
        Whether a compressed file that breaks off or is damaged counts as one more blemish, and is read up to there.
    block_bytes : int
        Bytes read at a time; the result does not depend on it.
    progress : callable, optional
        Called now and then with the number of bytes read and the number of bytes in all.

    Raises
    ------
    FileNotFoundError, ValueError
        If a file is missing or empty, a folder has no day files, or a compressed file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> line = "1241160900 109513 1 |user 2:0.1 3:0 4:0 5:0.2 6:0.7 1:1 |109513 2:0.3 3:0 4:0.1 5:0.2 6:0.4 1:1"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "day")
    ...     _ = file.write_text(line + "\\n" + line.replace(":1 ", ":one ") + "\\n")
    ...     log, report = read_yahoo(file)
    >>> log.articles.tolist(), log.rewards.tolist(), log.users.tolist()
    ([109513], [1.0], [[1.0, 0.1, 0.0, 0.0, 0.2, 0.7]])
    >>> report.skipped
    {'not a number': 1}
    """
    as_count("block_bytes", block_bytes)
    files = day_files(source)
    total = sum(file.stat().st_size for file in files)
    before = 0
    parser = Parser()
    report = Report()
    for file in files:
        with open(file, "rb") as stream:
            parser.start_file()
            try:
                for block in blocks(stream, block_bytes, packed=file.suffix == ".gz"):
                    parser.feed(block)
                    if progress is not None:
                        progress(before + stream.tell(), total)
            except BrokenFileError as error:
                if not lenient:
                    raise ValueError(f"{file}: {error}, at line {parser.lines + 1}") from error
                parser.end_file(r6a.TRUNCATED)
            else:
                if not parser.fed:
                    raise ValueError(f"{file}: the file is empty")
                parser.end_file(r6a.HALF)
            before += stream.tell()
        _add(report, file, parser)
    return parser.log(), report
