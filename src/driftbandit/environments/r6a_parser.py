"""From the bytes of R6A files to a log, in constant memory beyond the log itself; `yahoo` has the public functions."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from driftbandit.blemishes import EXAMPLES
from driftbandit.environments.log import Log
from driftbandit.kernels import r6a, r6a_log
from driftbandit.kernels.arms import index_slots

_EVENTS = 1 << 14
"""Events parsed before they are moved to the log."""

_EVENT = np.dtype(
    [
        ("times", np.int64),
        ("pools", np.int32),
        ("shown", np.int32),
        ("rewards", np.float64),
        ("users", np.float64, (r6a.FEATURES,)),
    ]
)

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_PIECE = 1 << 12
"""Compressed bytes unpacked at a time; everything before a damaged piece is still read."""


class BrokenFileError(Exception):
    """A compressed file cannot be read any further; the message says why."""


def blocks(stream: BinaryIO, size: int, *, packed: bool = False) -> Iterator[bytes]:
    """Contents of a file, unpacked if it starts like a gzip file, about `size` bytes at a time.

    >>> import gzip, io
    >>> list(blocks(io.BytesIO(gzip.compress(b"a line")), 1024))
    [b'a line']

    Raises
    ------
    BrokenFileError
        If the compressed data are damaged or break off, or `packed` says that they are compressed but they are not.
        Everything readable has been yielded before.
    """
    first = stream.read(len(_GZIP_MAGIC))
    stream.seek(0)
    if first != _GZIP_MAGIC:
        if packed and first:
            raise BrokenFileError("not a gzip file")
        while block := stream.read(size):
            yield block
        return
    pieces: list[bytes] = []
    length = 0
    problem = ""
    try:
        for piece in _unpacked(stream):
            pieces.append(piece)
            length += len(piece)
            if length >= size:
                yield b"".join(pieces)
                pieces.clear()
                length = 0
    except zlib.error as error:
        problem = f"the gzip data are damaged ({error})"
    except EOFError:
        problem = "the gzip data break off"
    yield b"".join(pieces)
    if problem:
        raise BrokenFileError(problem)


def _unpacked(stream: BinaryIO) -> Iterator[bytes]:
    """Pieces of a gzip file, which may have several members and zeros behind the last (RFC 1952)."""
    rest = b""
    while True:
        unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        while not unpacker.eof:
            rest = rest or stream.read(_GZIP_PIECE)
            if not rest:
                raise EOFError
            yield unpacker.decompress(rest)
            rest = unpacker.unused_data
        while not rest.lstrip(b"\0"):
            rest = stream.read(_GZIP_PIECE)
            if not rest:
                return
        rest = rest.lstrip(b"\0")


class Parser:
    """Parses text block by block, keeps the events, and returns them as a log."""

    def __init__(self) -> None:
        self.events = 0
        self._state = np.zeros(r6a_log.STATES, dtype=np.int64)
        self._same = np.zeros(r6a.LONGEST, dtype=np.int8)
        self._ids = np.zeros(r6a.MOST_CANDIDATES, dtype=np.int64)
        self._values = np.zeros((r6a.MOST_CANDIDATES, r6a.FEATURES))
        self._rows = np.zeros(r6a.MOST_CANDIDATES, dtype=np.int32)
        self._articles = np.zeros(256, dtype=np.int64)
        self._features = np.zeros((256, r6a.FEATURES))
        self._offsets = np.zeros(256, dtype=np.int64)
        self._members = np.zeros(4096, dtype=np.int32)
        self._index()
        self._times = np.zeros(_EVENTS, dtype=np.int64)
        self._pools = np.zeros(_EVENTS, dtype=np.int32)
        self._shown = np.zeros(_EVENTS, dtype=np.int32)
        self._rewards = np.zeros(_EVENTS)
        self._users = np.zeros((_EVENTS, r6a.FEATURES))
        self._done: list[NDArray[np.void]] = []
        self.start_file()

    def start_file(self) -> None:
        """Forget the lines and blemishes of the file before."""
        self.counts = np.zeros(len(r6a.KINDS), dtype=np.int64)
        self.examples = np.zeros((len(r6a.KINDS), EXAMPLES), dtype=np.int64)
        self.fed = False
        self._state[r6a_log.LINES] = 0
        self._carry = b""
        self._overlong = False

    @property
    def lines(self) -> int:
        """Lines of this file that were read."""
        return int(self._state[r6a_log.LINES])

    def feed(self, block: bytes) -> None:
        """Read the lines that end in this block."""
        self.fed = self.fed or bool(block)
        if self._overlong:
            end = block.find(b"\n")
            if end < 0:
                return
            self._blame(r6a.LONG)
            self._overlong = False
            block = block[end + 1 :]
        text = self._carry + block
        stop = text.rfind(b"\n") + 1
        if stop:
            self._read(np.frombuffer(text, dtype=np.int8), stop)
        self._carry = text[stop:]
        if len(self._carry) > r6a.LONGEST:  # too long to be read; keeping it would use more and more memory
            self._carry = b""
            self._overlong = True

    def end_file(self, kind: int) -> None:
        """Close a file; if its last line has no line end, count it as this kind of blemish."""
        if self._carry or self._overlong or kind == r6a.TRUNCATED:
            self._blame(kind)

    def _blame(self, kind: int) -> None:
        self._state[r6a_log.LINES] += 1
        r6a_log.note(kind, self.lines, self.counts, self.examples)

    def _read(self, text: r6a.Text, stop: int) -> None:
        at = 0
        while at < stop:
            self._state[r6a_log.NEEDED] = 0
            at = r6a_log.read_lines(
                text,
                at,
                stop,
                self._same,
                self._ids,
                self._values,
                self._rows,
                self._articles,
                self._features,
                self._article_slots,
                self._offsets,
                self._members,
                self._pool_slots,
                self._times,
                self._pools,
                self._shown,
                self._rewards,
                self._users,
                self._state,
                self.counts,
                self.examples,
            )
            if needed := int(self._state[r6a_log.NEEDED]):
                self._grow(needed)
            else:
                self._put_away()

    def _put_away(self) -> None:
        count = int(self._state[r6a_log.EVENTS])
        if count:
            # Separate memory, which returns to the system as soon as `log` frees it; freed parts of the heap would stay
            # with the process, and reading would take twice the memory of the log.
            piece = np.frombuffer(mmap.mmap(-1, count * _EVENT.itemsize), dtype=_EVENT)
            for name in _EVENT.names or ():
                piece[name] = getattr(self, f"_{name}")[:count]
            self._done.append(piece)
        self._state[r6a_log.EVENTS] = 0
        self.events += count

    def _grow(self, needed: int) -> None:
        articles, pools = self._state[[r6a_log.ARTICLES, r6a_log.POOLS]].tolist()
        self._articles = _with_room(self._articles, articles + needed)
        self._features = _with_room(self._features, articles + needed)
        self._offsets = _with_room(self._offsets, pools + 2)
        self._members = _with_room(self._members, int(self._offsets[pools]) + needed)
        self._index()

    def _index(self) -> None:
        """Make hash tables, at most half full, of the articles and pools so far."""
        articles, pools = self._state[[r6a_log.ARTICLES, r6a_log.POOLS]].tolist()
        self._article_slots = np.zeros(_twice(len(self._articles)), dtype=np.int64)
        self._pool_slots = np.zeros(_twice(len(self._offsets)), dtype=np.int64)
        index_slots(self._article_slots, self._articles, articles)
        r6a_log.index_pools(self._pool_slots, self._offsets, self._members, pools)

    def log(self) -> Log:
        """Return everything read as a log; the parser cannot be used afterwards."""
        articles, pools = self._state[[r6a_log.ARTICLES, r6a_log.POOLS]].tolist()
        offsets = self._offsets[: pools + 1].copy()
        columns: dict[str, NDArray[Any]] = {
            name: np.empty((self.events, *_EVENT[name].shape), dtype=_EVENT[name].base) for name in _EVENT.names or ()
        }
        self._done.reverse()
        at = 0
        while self._done:  # piece by piece, so that at most one piece is in memory twice
            piece = self._done.pop()
            for name, column in columns.items():
                column[at : at + len(piece)] = piece[name]
            at += len(piece)
        return Log(
            articles=self._articles[:articles].copy(),
            features=self._features[:articles].copy(),
            pool_offsets=offsets,
            pool_members=self._members[: offsets[-1]].copy(),
            uniform=True,  # by construction: see the paper that `yahoo` names
            **columns,
        )


def _with_room(table: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return the table, or, if it has fewer than `rows` rows, a copy of at least twice the length."""
    if rows <= len(table):
        return table
    larger = np.zeros((max(rows, 2 * len(table)), *table.shape[1:]), dtype=table.dtype)
    larger[: len(table)] = table
    return larger


def _twice(size: int) -> int:
    """Return the power of two that is at least twice this size."""
    return 1 << (2 * size - 1).bit_length()
