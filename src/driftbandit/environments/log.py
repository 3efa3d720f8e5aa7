"""Logged bandit data: what was offered, what was shown, and the rewards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints
from driftbandit.environments.log_checks import CHUNK, Rows, as_array, check_below, repeated
from driftbandit.files import whole_file

VERSION = 1
"""Version of the layout of saved logs; files with another version are refused."""

_VERSION_KEY, _NOTE_KEY, _UNIFORM_KEY = b"driftbandit log", b"note", b"uniform"

_OPTIONAL = "propensities"

UNIFORM_WITHIN = 1e-6
"""How far a propensity may be from 1 / K, relative to it, and still be called uniform."""


@dataclass(frozen=True, eq=False)
class Log:
    """Events in which one of several candidates was displayed, as arrays.

    Candidate sets repeat from event to event, so each distinct set is kept once, and so are the features of each
    article. The arrays are read-only, whether the log was made or loaded, so that kernels see one type of array.

    Attributes
    ----------
    articles : array of shape (A,)
        Ids of the articles, all different.
    features : array of shape (A, d)
        Their features.
    pool_offsets : array of shape (P + 1,)
        Where each candidate set starts in `pool_members`, and the end of the last.
    pool_members : array of int32
        The candidate sets, one after the other, as rows of `articles`.
    times : array of shape (n,)
        Time of each event, in seconds.
    pools : array of int32, shape (n,)
        Its candidate set.
    shown : array of int32, shape (n,)
        Position of the displayed article in that set.
    rewards : array of shape (n,)
        1 for a click, 0 for none; any finite number is taken.
    users : array of shape (n, du)
        Features of the user.
    uniform : bool
        Whether every candidate was equally likely to be displayed. Say so only of a log that was made in this way.
    propensities : array of shape (n,), optional
        Probability with which the displayed article was displayed.

    Examples
    --------
    >>> log = Log(
    ...     articles=[101, 102, 103], features=[[1.0], [2.0], [3.0]],
    ...     pool_offsets=[0, 2, 5], pool_members=[0, 1, 2, 0, 1],
    ...     times=[60, 61], pools=[0, 1], shown=[1, 0], rewards=[0.0, 1.0], users=[[0.5], [0.7]],
    ... )
    >>> len(log), log.candidates(1).tolist(), log.articles[log.displayed()].tolist()
    (2, [2, 0, 1], [102, 103])
    """

    articles: Ints
    features: Floats
    pool_offsets: Ints
    pool_members: Rows
    times: Ints
    pools: Rows
    shown: Rows
    rewards: Floats
    users: Floats
    uniform: bool = False
    propensities: Floats | None = None

    _TYPES: ClassVar[dict[str, tuple[type[np.generic], int]]] = {
        "articles": (np.int64, 1),
        "features": (np.float64, 2),
        "pool_offsets": (np.int64, 1),
        "pool_members": (np.int32, 1),
        "times": (np.int64, 1),
        "pools": (np.int32, 1),
        "shown": (np.int32, 1),
        "rewards": (np.float64, 1),
        "users": (np.float64, 2),
    }

    def __post_init__(self) -> None:
        for name, (dtype, dimensions) in self._TYPES.items():
            self._set(name, as_array(name, getattr(self, name), np.dtype(dtype), dimensions))
        if self.propensities is not None:
            self._set(_OPTIONAL, as_array(_OPTIONAL, self.propensities, np.dtype(np.float64), 1))
        self._check_tables()
        self._check_events()
        if self.uniform and not self._says_uniform():
            raise ValueError("uniform: expected propensities of 1 / size of the candidate set, got others")

    def _set(self, name: str, array: NDArray[Any]) -> None:
        view = array.view()
        view.flags.writeable = False
        object.__setattr__(self, name, view)

    def _check_tables(self) -> None:
        count = len(self.articles)
        if repeated(self.articles):
            raise ValueError("articles: expected different ids, got one twice")
        if len(self.features) != count:
            raise ValueError(f"features: expected one row for each of {count} articles, got {len(self.features)}")
        offsets, members = self.pool_offsets, self.pool_members
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(members) or (offsets[1:] <= offsets[:-1]).any():
            raise ValueError(
                f"pool_offsets: expected numbers that rise from 0 to {len(members)}, the size of all pools"
            )
        check_below("pool_members", members, count, "articles")
        pool = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        if repeated(pool * max(count, 1) + members):
            raise ValueError("pool_members: expected different articles in a pool, got one twice")

    def _check_events(self) -> None:
        count = len(self.times)
        for name in ("pools", "shown", "rewards", "users", *([] if self.propensities is None else [_OPTIONAL])):
            if len(getattr(self, name)) != count:
                raise ValueError(f"{name}: expected one for each of {count} times, got {len(getattr(self, name))}")
        check_below("pools", self.pools, len(self.pool_offsets) - 1, "candidate sets")
        sizes = np.diff(self.pool_offsets)
        for start in range(0, count, CHUNK):
            part = slice(start, start + CHUNK)
            wrong = (self.shown[part] < 0) | (self.shown[part] >= sizes[self.pools[part]])
            if wrong.any():
                event = start + int(wrong.argmax())
                size = sizes[self.pools[event]]
                raise ValueError(
                    f"shown: expected a position among {size} candidates, got {self.shown[event]} at {event}"
                )

        if self.propensities is not None and not ((self.propensities > 0) & (self.propensities <= 1)).all():
            raise ValueError("propensities: expected numbers above 0 and at most 1")

    def _says_uniform(self) -> bool:
        """False if a propensity differs from one divided by the number of candidates."""
        if self.propensities is None:
            return True
        sizes = np.diff(self.pool_offsets)[self.pools]
        return bool((np.abs(self.propensities * sizes - 1) <= UNIFORM_WITHIN).all())

    def __len__(self) -> int:
        return len(self.times)

    @property
    def is_uniform(self) -> bool:
        """Whether every candidate was equally likely: the log is said to be so, or its propensities say so."""
        return self.uniform or (self.propensities is not None and self._says_uniform())

    @property
    def dim(self) -> int:
        """Number of article features."""
        return int(self.features.shape[1])

    @property
    def user_dim(self) -> int:
        """Number of user features."""
        return int(self.users.shape[1])

    def candidates(self, event: int) -> Rows:
        """Rows of the articles that could have been displayed."""
        pool = self.pools[event]
        return self.pool_members[self.pool_offsets[pool] : self.pool_offsets[pool + 1]]

    def displayed(self) -> Rows:
        """Row of the displayed article, for every event."""
        rows: Rows = self.pool_members[self.pool_offsets[self.pools] + self.shown]
        return rows

    def slice(self, start: int, stop: int) -> Log:
        """Return the events from `start` to before `stop`, with the same articles and pools, sharing memory."""
        return self._part(slice(start, stop))

    def take(self, events: Ints) -> Log:
        """Return the events with these numbers, in this order, with the same articles and pools."""
        return self._part(events)

    def _part(self, part: Any) -> Log:
        piece: Log = object.__new__(Log)  # a part of a checked log needs no checking
        for name in self._TYPES:
            array = getattr(self, name)
            piece._set(name, array[part] if name in ("times", "pools", "shown", "rewards", "users") else array)
        object.__setattr__(piece, "uniform", self.uniform)
        object.__setattr__(piece, _OPTIONAL, None)
        if self.propensities is not None:
            piece._set(_OPTIONAL, self.propensities[part])
        return piece

    def lifetimes(self) -> Ints:
        """Seconds between the first and the last event at which an article was a candidate; 0 if it never was."""
        late, early = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        first = np.full(len(self.pool_offsets) - 1, late)
        last = np.full(len(self.pool_offsets) - 1, early)
        np.minimum.at(first, self.pools, self.times)
        np.maximum.at(last, self.pools, self.times)
        pool = np.repeat(np.arange(len(first)), np.diff(self.pool_offsets))
        born, died = np.full(len(self.articles), late), np.full(len(self.articles), early)
        np.minimum.at(born, self.pool_members, first[pool])
        np.maximum.at(died, self.pool_members, last[pool])
        ages: Ints = np.where(born <= died, np.maximum(died, born) - born, 0)
        return ages

    def only(self, keep: NDArray[np.bool_]) -> Log:
        """Return the events that displayed one of these articles, with all other articles removed from the candidate
        sets.

        An article that was drawn uniformly among all candidates was also drawn uniformly among the remaining ones. The
        propensities of a log that is not uniform are lost, because those of the other candidates are not known.
        """
        if keep.dtype != np.bool_ or keep.shape != self.articles.shape:
            raise ValueError(f"keep: expected {len(self.articles)} truth values, got {keep.dtype} of {keep.shape}")
        stays = keep[self.pool_members]
        before = np.append(0, np.cumsum(stays))  # how many members before each place stay
        sizes = np.diff(before[self.pool_offsets])
        left = sizes > 0
        events = np.flatnonzero(keep[self.displayed()])
        pools = self.pools[events]
        starts = self.pool_offsets[pools]
        return Log(
            articles=self.articles[keep],
            features=self.features[keep],
            pool_offsets=np.append(0, np.cumsum(sizes[left])),
            pool_members=(np.cumsum(keep) - 1)[self.pool_members[stays]],
            times=self.times[events],
            pools=(np.cumsum(left) - 1)[pools],
            shown=before[starts + self.shown[events]] - before[starts],
            rewards=self.rewards[events],
            users=self.users[events],
            uniform=self.is_uniform,
        )

    def save(self, path: str | os.PathLike[str], note: str = "") -> None:
        """Write the log to an Arrow IPC file, whole or not at all, with a note that `note_of` reads.

        The file has one row, whose columns hold the arrays as lists. Its schema names the version of this layout.
        """
        import pyarrow as pa  # noqa: PLC0415 - only files need it, and it is slow to import

        columns = []
        names = [*self._TYPES, *([] if self.propensities is None else [_OPTIONAL])]
        for name in names:
            array = getattr(self, name)
            values = pa.array(array.reshape(-1))
            if array.ndim == 2:
                values = pa.FixedSizeListArray.from_arrays(values, array.shape[1])
            columns.append(pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), values))
        metadata = {_VERSION_KEY: str(VERSION).encode(), _NOTE_KEY: note.encode()}
        metadata |= {_UNIFORM_KEY: b"true"} if self.uniform else {}
        batch = pa.record_batch(columns, names=names, metadata=metadata)
        with (
            whole_file(path) as partial,
            pa.OSFile(str(partial), "wb") as file,
            pa.ipc.new_file(file, batch.schema) as writer,
        ):
            writer.write_batch(batch)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Log:
        """Map a saved log into memory; its numbers are checked once, not copied.

        Raises
        ------
        ValueError
            If the file is not a whole Arrow file written by `save`.
        """
        import pyarrow as pa  # noqa: PLC0415 - as in `save`

        try:
            with pa.memory_map(os.fspath(path), "r") as file:
                reader = pa.ipc.open_file(file)
                version = (reader.schema.metadata or {}).get(_VERSION_KEY)
                if version != str(VERSION).encode():
                    found = "none" if version is None else version.decode(errors="replace")
                    raise ValueError(f"expected version {VERSION} of the layout, got {found}; convert it anew")
                names = reader.schema.names
                if reader.num_record_batches != 1 or names not in (list(cls._TYPES), [*cls._TYPES, _OPTIONAL]):
                    raise ValueError("other columns than a log has")
                batch = reader.get_batch(0)
            batch.validate(full=True)
            if batch.num_rows != 1:
                raise ValueError(f"expected 1 row, got {batch.num_rows}")
            arrays = {name: _from_arrow(batch.column(name)) for name in names}
            return cls(**arrays, uniform=_UNIFORM_KEY in reader.schema.metadata)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{path}: no such file") from error
        except (pa.ArrowException, OSError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: not a driftbandit log ({error})") from error


def note_of(path: str | os.PathLike[str]) -> str:
    """Read the note on a saved log.

    Raises
    ------
    ValueError
        If the file is not an Arrow file.
    """
    import pyarrow as pa  # noqa: PLC0415 - as in `save`

    try:
        with pa.memory_map(os.fspath(path), "r") as file:
            note: bytes = (pa.ipc.open_file(file).schema.metadata or {}).get(_NOTE_KEY, b"")
        return note.decode()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path}: not a driftbandit log ({error})") from error


def _from_arrow(column: Any) -> NDArray[Any]:
    """Unpack the list in the only row, without a copy."""
    values = column.flatten()
    width = getattr(values.type, "list_size", None)
    if width is None:
        array: NDArray[Any] = values.to_numpy(zero_copy_only=True)
        return array
    return np.asarray(values.flatten().to_numpy(zero_copy_only=True)).reshape(len(values), width)
