"""The Yahoo! log (R6A), in which every candidate was equally likely."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from driftbandit.blemishes import Report
from driftbandit.environments.yahoo import DAY_FILE
from driftbandit.environments.yahoo_converted import open_yahoo
from driftbandit.logs.catalogue import Catalogue, spans
from driftbandit.logs.decisions import Piece
from driftbandit.logs.sources.base import vectors

USER, ARTICLE = "user", "article"


def is_yahoo(path: Path) -> bool:
    """Whether a path is a day file, or a folder with day files."""
    names = [path.name] if not path.is_dir() else [file.name for file in path.iterdir()]
    return any(DAY_FILE.fullmatch(name) for name in names)


class Yahoo:
    """Day files, from the converted file if there is one, else parsed into memory.

    Features without an encoder are those of the articles; the context is one vector, `user`.
    """

    roles = frozenset({"time", "arms", "arm", "propensity", "reward", "features"})

    def __init__(self, path: Path, batch_rows: int) -> None:
        self.name = str(path)
        self._batch_rows = batch_rows
        self._log, self._report = open_yahoo(path)

    def pieces(self, report: Report, catalogue: Catalogue) -> Iterator[Piece]:
        """Some events at a time."""
        log = self._log
        report.lines += self._report.lines - self._report.events
        report.skipped |= self._report.skipped
        report.noted |= self._report.noted
        report.examples |= {kind: list(places) for kind, places in self._report.examples.items()}
        names = pa.array([str(article) for article in log.articles.tolist()])
        for name, row in zip(names.to_pylist(), log.features.tolist(), strict=True):
            catalogue.describe(name, {ARTICLE: row})
        all_sizes = np.diff(log.pool_offsets)
        for start in range(0, len(log), self._batch_rows):
            part = log.slice(start, start + self._batch_rows)
            sizes = all_sizes[part.pools]
            members = pa.array(log.pool_members[spans(log.pool_offsets[part.pools], sizes)])
            ends = pa.array(np.append(0, np.cumsum(sizes)), pa.int32())
            yield Piece(
                {
                    "time": pa.array(part.times),
                    "arms": pa.ListArray.from_arrays(ends, names.take(members)),
                    "arm": names.take(pa.array(part.displayed())),
                    "propensity": pa.array(1.0 / sizes),
                    "reward": pa.array(part.rewards),
                    "features": pa.ListArray.from_arrays(ends, vectors(log.features[members.to_numpy()])),
                },
                {USER: vectors(part.users)},
                self.name,
                np.arange(start + 1, start + 1 + len(part)),
                -1,
            )
