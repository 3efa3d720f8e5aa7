"""Events as a Parquet table, written piece by piece."""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable
from typing import Any

import msgspec

AS_TEXT = ("config", "context", "records", "models")
"""Fields that are JSON in Parquet."""

_ROW_GROUP = 50_000
_GROUP_BYTES = 4 << 20
"""Most rows of a row group, and how many bytes they may have in the store: as Python objects they have ten times as
many."""


def parquet_pieces(rows: Iterable[tuple[dict[str, Any], int]]) -> Generator[bytes]:
    """A Parquet file of events, given as rows (`export.as_row`), each with its bytes in the store."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    text, whole, real = pa.string(), pa.int64(), pa.float64()
    schema = pa.schema(
        {
            **{"seq": whole, "loop": text, "shard": whole, "kind": text, "time": whole, "version": whole},
            **{"config": text, "ids": pa.list_(text), "features": pa.list_(pa.list_(real)), "id": text},
            **{"scope": text, "arms": pa.list_(text), "index": whole, "arm": text, "propensity": real},
            **{"votes": pa.list_(whole), "shadow": whole, "learned": whole, "expires": whole},
            **{"value": real, "reward_id": text, "model": text, "context": text, "records": text},
            **{"decision": pa.bool_(), "until": whole, "scope_hash": text, "dropped": pa.list_(whole)},
            **{"tally": text, "models": text},
        }
    )
    sink = _Sink()
    with pq.ParquetWriter(sink, schema) as writer:
        group: list[dict[str, Any]] = []
        held = 0

        def flush() -> bytes:
            writer.write_table(pa.Table.from_pylist(group, schema))
            group.clear()
            return sink.drain()

        for row, size in rows:
            for field in AS_TEXT:
                if row.get(field) is not None:
                    row[field] = msgspec.json.encode(row[field]).decode()
            group.append(row)
            held += size
            if len(group) == _ROW_GROUP or held >= _GROUP_BYTES:
                held = 0
                yield flush()
        yield flush()
    yield sink.drain()


class _Sink(io.RawIOBase):
    """A file in memory that is only appended to, and emptied by `drain`."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        """Always True."""
        return True

    def tell(self) -> int:
        """How many bytes were written so far."""
        return self._length

    def write(self, data: Any) -> int:
        """Append."""
        piece = bytes(data)
        self._pieces.append(piece)
        self._length += len(piece)
        return len(piece)

    def drain(self) -> bytes:
        """What was written since the last call."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
