"""Results of runs as Parquet files: one row per round or event, and facts about the run beside them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driftbandit.files import whole_file


def save_result(
    path: str | os.PathLike[str], mark: bytes, columns: Mapping[str, Any], facts: Mapping[str, object]
) -> None:
    """Write columns and facts, whole or not at all; `mark` names the kind of result."""
    import pyarrow as pa  # noqa: PLC0415 - only files need it, and it is slow to import
    from pyarrow import parquet  # noqa: PLC0415

    table = pa.table(dict(columns)).replace_schema_metadata({mark: json.dumps(facts)})
    with whole_file(path) as partial:
        parquet.write_table(table, partial, write_page_checksum=True)


@contextmanager
def loaded_result(path: str | os.PathLike[str], mark: bytes, kind: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield what `save_result` wrote: the table and the facts; errors call it a `kind`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is not whole or of another kind, or if the code that uses it finds it so.
    """
    import pyarrow as pa  # noqa: PLC0415 - as in `save_result`
    from pyarrow import parquet  # noqa: PLC0415

    try:
        # Arrow gets bytes, not a file whose methods its threads would call: if one of them is inside Python while
        # workers are forked, a worker may hang.
        whole = pa.BufferReader(Path(path).read_bytes())
        table = parquet.read_table(whole, page_checksum_verification=True, use_threads=False, pre_buffer=False)
        yield table, json.loads((table.schema.metadata or {})[mark])
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not a driftbandit {kind} ({error})") from error
