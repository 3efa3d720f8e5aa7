"""Made-up files in the format of the Yahoo! Today Module log (R6A), with known truth."""

from __future__ import annotations

import gzip
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints, as_count, as_number
from driftbandit.environments.yahoo import DAY_FILE
from driftbandit.environments.yahoo_plan import DAY, START, Plan, draw_plan
from driftbandit.kernels import r6a
from driftbandit.state import new_generator

_CHUNK = 10_000
_MOST_DAYS = 31
_MOST_GROUPS = 100
_CONCENTRATION = 60.0
"""How close users are to the centre of their group (sum of Dirichlet parameters)."""

_FEATURES = "2:{:.6f} 3:{:.6f} 4:{:.6f} 5:{:.6f} 6:{:.6f} 1:{:.6f}"
_LINE = b"%d %d %d |user 2:%.6f 3:%.6f 4:%.6f 5:%.6f 6:%.6f 1:1.000000%b"
_USER = b" |user 2:"
_LAST_FEATURE = b" 1:1.000000"


def _replace_byte(line: bytes, rng: Generator) -> bytes:
    at = int(rng.integers(len(line)))
    return line[:at] + b"\xff" + line[at + 1 :]


def _replace_number(line: bytes, rng: Generator) -> bytes:
    wrong = (b"nan ", b"inf ", b"1e999 ", b"0,5 ", b"", b"--")[rng.integers(6)]
    if not wrong:
        return b"x" + line
    return line.replace(_USER, _USER + wrong, 1)


def _repeat_candidate(line: bytes, _: Generator) -> bytes:
    return line + b" |" + line.split(b" |", 3)[2]


BLEMISHES: dict[str, Callable[[bytes, Generator], bytes]] = {
    r6a.KINDS[kind]: spoil
    for kind, spoil in {
        r6a.EMPTY: lambda line, _: b"",
        r6a.WINDOWS: lambda line, _: line + b"\r",
        r6a.BYTES: _replace_byte,
        r6a.COLUMNS: lambda line, _: line.replace(_USER, b" 7" + _USER, 1),
        r6a.NUMBER: _replace_number,
        r6a.CLICK: lambda line, _: line.replace(_USER, b"2" + _USER, 1),
        r6a.BLOCK: lambda line, _: line[: line.index(b"|")] + line[line.index(b"|", line.index(b"|") + 1) :],
        r6a.FEW: lambda line, _: line.removesuffix(_LAST_FEATURE),
        r6a.FEATURE: lambda line, _: line.replace(_USER, b" |user 7:", 1),
        r6a.TWICE: lambda line, _: line.replace(_USER, b" |user 3:", 1),
        r6a.AGAIN: _repeat_candidate,
        r6a.ABSENT: lambda line, _: b" ".join([line.split(b" ", 1)[0], b"1", line.split(b" ", 2)[2]]),
        r6a.LONG: lambda line, _: line.replace(_USER, b" " * r6a.LONGEST + _USER, 1),
        r6a.CHANGED: lambda line, _: line.removesuffix(_LAST_FEATURE) + b" 1:0.500000",
        r6a.HALF: lambda line, rng: line[: rng.integers(1, len(line))],
    }.items()
}
"""How each kind of blemish is made from a good line without its line end; 'half a last line' is only for the last."""


def write_synthetic(
    path: str | os.PathLike[str],
    lines: int,
    *,
    seed: int = 0,
    days: int = 1,
    candidates: int = 20,
    groups: int = 5,
    changes: int = 3,
    share: float = 1.0,
    clicks: tuple[float, float] = (0.02, 0.10),
    lifetime: tuple[float, float] = (6.0, 36.0),
    common: float = 0.5,
    reverse: bool = False,
    compress: bool = False,
    blemishes: Mapping[str, float] | None = None,
) -> Plan:
    """Write files in the R6A format, and their plan beside them.

    Users come in groups. At any time there are `candidates` articles, one of which, drawn uniformly, is displayed; at
    the end of its life an article is replaced by a new one. How often a group clicks an article is linear in the
    article's features, and changes at planted times.

    Parameters
    ----------
    path : path
        A folder, which gets day files and ``plan.npz``, if it is one or `days` is more than 1; else a file (with
        ``.gz`` at the end: a compressed one), which gets its plan beside it as ``<file>.plan.npz``.
    lines : int
        Lines in all, evenly spaced over the days.
    seed : int
        The same seed and parameters give the same bytes; blemishes leave the other lines as they are.
    days, candidates, groups, changes : int
        Days of 24 hours, articles to choose from, groups of users, planted changes over the whole time.
    share : float
        Share of the articles whose click rates a change affects.
    clicks : (float, float)
        Bounds of the click rates.
    lifetime : (float, float)
        Shortest and longest life of an article, in hours.
    common : float
        How much of a group's taste is everyone's; the rest is its own.
    reverse : bool
        Whether a change turns tastes around, so that what was liked most is liked least; else it moves every weight of
        a taste to another feature.
    compress : bool
        Whether to write the day files of a folder as .gz.
    blemishes : dict of str to float, optional
        Share of lines to spoil, by kind (the keys of `BLEMISHES`). The first line with a new candidate set is spared.

    Returns
    -------
    Plan
        The truth.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = write_synthetic(Path(folder, "day.gz"), lines=100, candidates=5)
    ...     first = gzip.open(Path(folder, "day.gz")).readline()
    >>> first[:10], first.count(b"|"), len(plan.groups)
    (b'1241160900', 6, 100)
    """
    lines = as_count("lines", lines)
    days = as_count("days", days)
    if days > min(_MOST_DAYS, lines):
        raise ValueError(f"days: expected at most {_MOST_DAYS}, and a line for each, got {days}")
    groups = as_count("groups", groups)
    if groups > _MOST_GROUPS:
        raise ValueError(f"groups: expected at most {_MOST_GROUPS}, got {groups}")
    kinds, chances = _chances(blemishes or {})
    rng = new_generator(seed)
    plan = draw_plan(
        rng,
        days=days,
        candidates=as_count("candidates", candidates),
        groups=groups,
        changes=as_count("changes", changes, least=0),
        share=as_number("share", share, 0.0, 1.0),
        clicks=_pair("clicks", clicks, 0.0, 1.0),
        lifetime=_pair("lifetime", lifetime, 0.1, 24.0 * 365),
        common=as_number("common", common, 0.0, 1.0),
        reverse=bool(reverse),
    )
    target = Path(path)
    folder = days > 1 or target.is_dir()
    files = _day_names(target, days, ".gz" if compress else "") if folder else [target]
    times = line_times(lines, days)
    edges = np.searchsorted(times, START + DAY * np.arange(days + 1))
    written = _Writer(plan, rng, kinds, chances)
    for file, start, stop in zip(files, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        with _whole_file(file) as stream:
            for at in range(start, stop, _CHUNK):
                stream.write(written.text(times[at : min(at + _CHUNK, stop)], at + _CHUNK >= stop))
    plan = replace(
        plan,
        files=tuple(file.name for file in files),
        groups=np.concatenate(written.groups),
        blemishes=np.concatenate(written.blemishes),
    )
    plan.save(target / "plan.npz" if folder else target.with_name(f"{target.name}.plan.npz"))
    return plan


def line_times(lines: int, days: int) -> Ints:
    """Times of the lines of a made-up log, in unix seconds."""
    times: Ints = START + np.arange(lines) * (days * DAY) // lines
    return times


class _Writer:
    """Lines of a plan, in order of time."""

    def __init__(self, plan: Plan, rng: Generator, kinds: Ints, chances: Floats) -> None:
        self.groups: list[NDArray[np.int8]] = []
        self.blemishes: list[NDArray[np.int8]] = []
        self._plan, self._rng, self._kinds = plan, rng, kinds
        self._spoiler = rng.spawn(1)[0]  # a separate generator, so that the other lines are those of a clean file
        self._bounds = np.cumsum(chances)
        self._cuts_last = r6a.HALF in kinds
        self._blocks = [
            f" |{article} {_FEATURES.format(*row[1:], row[0])}".encode()
            for article, row in zip(plan.articles.tolist(), plan.features.tolist(), strict=True)
        ]
        self._members: Ints = np.empty(0, dtype=np.int64)
        self._pool = -1
        self._text = b""

    def text(self, times: Ints, last: bool) -> bytes:
        """The next lines; `last` if the file ends with them."""
        plan, rng = self._plan, self._rng
        count = len(times)
        group = rng.choice(len(plan.weights), size=count, p=plan.weights)
        users = rng.standard_gamma(_CONCENTRATION * plan.centres[group, 1:] + 1e-3)
        users /= users.sum(axis=1, keepdims=True)
        pools = np.searchsorted(plan.born, times, side="right")  # a new candidate set with every birth
        first = np.diff(pools, prepend=self._pool) != 0
        position = rng.integers(np.count_nonzero((plan.born <= START) & (plan.died > START)), size=count)
        shown = np.empty(count, dtype=np.int64)
        texts: list[bytes] = []
        starts = [*np.flatnonzero(first).tolist(), count]
        texts += [self._text] * starts[0]
        shown[: starts[0]] = self._members[position[: starts[0]]] if starts[0] else 0
        for start, stop in itertools.pairwise(starts):
            self._members = np.flatnonzero((plan.born <= times[start]) & (plan.died > times[start]))
            self._text = b"".join(self._blocks[row] for row in self._members.tolist())
            texts += [self._text] * (stop - start)
            shown[start:stop] = self._members[position[start:stop]]
        self._pool = int(pools[-1])
        click = rng.random(count) < plan.rates[shown, group, plan.segment(times)]
        rows = zip(times.tolist(), plan.articles[shown].tolist(), click.tolist(), *users.T.tolist(), texts, strict=True)
        lines = [_LINE % row for row in rows]
        blemish = self._spoil(lines, first, last)
        self.groups.append(group.astype(np.int8))
        self.blemishes.append(blemish)
        end = b"" if last and self._cuts_last else b"\n"
        return b"\n".join(lines) + end

    def _spoil(self, lines: list[bytes], first: NDArray[np.bool_], last: bool) -> NDArray[np.int8]:
        """Plant blemishes; returns the kind of each line."""
        blemish = np.full(len(lines), -1, dtype=np.int8)
        if len(self._kinds):
            drawn = np.searchsorted(self._bounds, self._spoiler.random(len(lines)), side="right")
            hit = (drawn < len(self._kinds)) & ~first
            blemish[hit] = self._kinds[drawn[hit]]
            blemish[blemish == r6a.HALF] = -1
            if last and self._cuts_last:
                blemish[-1] = r6a.HALF
        for at in np.flatnonzero(blemish >= 0).tolist():
            lines[at] = BLEMISHES[r6a.KINDS[blemish[at]]](lines[at], self._spoiler)
        return blemish


def _chances(blemishes: Mapping[str, float]) -> tuple[Ints, Floats]:
    for kind in blemishes:
        if kind not in BLEMISHES:
            raise ValueError(f"blemishes: expected kinds among {', '.join(BLEMISHES)}, got {kind!r}")
    chances = [as_number(f"blemishes[{kind!r}]", chance, 0.0, 1.0) for kind, chance in blemishes.items()]
    if sum(chances) > 1.0:
        raise ValueError(f"blemishes: expected shares that sum to at most 1, got {sum(chances):g}")
    return np.array([r6a.KINDS.index(kind) for kind in blemishes], dtype=np.int64), np.array(chances)


def _pair(name: str, given: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"{name}: expected a lowest and a highest number, got {given!r}")
    least = as_number(name, given[0], low, high)
    return least, as_number(name, given[1], least, high)


def _day_names(folder: Path, days: int, suffix: str) -> list[Path]:
    """Names of the day files; refuses a folder with other days, which would be read as part of this log."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: expected a folder for {days} days, got a file")
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"ydata-fp-td-clicks-v1_0.200905{day:02d}{suffix}" for day in range(1, days + 1)]
    for file in sorted(folder.iterdir()):
        if DAY_FILE.fullmatch(file.name) and file not in files:
            raise ValueError(f"{file}: is in the way of a log of {days} days without it")
    return files


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open a file for writing that appears only once it is complete, compressed if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as raw:
            if path.suffix == ".gz":  # no name and no time inside, so that the same lines give the same bytes
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=1) as stream:
                    yield stream
            else:
                yield raw
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
