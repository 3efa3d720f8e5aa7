"""Artefacts that are kept, so that redoing what has not changed takes no time: neither code, settings nor data."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from driftbandit.evaluation.fingerprints import code_fingerprint
from driftbandit.evaluation.results import Table
from driftbandit.files import whole_file
from driftbandit.report import Artefact, png

_LIBRARIES = ("matplotlib", "numba", "numpy", "scipy")


def kept_or_made(make: Callable[[], Artefact], path: Path, settings: Mapping[str, Any], *, fresh: bool) -> Artefact:
    """The artefact kept in a file, if it was made by the same code from the same settings; else a new one, kept there.

    Parameters
    ----------
    make : callable
        Makes the artefact.
    path : Path
        The file.
    settings : mapping
        All that the artefact depends on besides the code, for JSON.
    fresh : bool
        Whether to make it in any case.
    """
    key = _key(settings)
    found = None if fresh else _read(path, key)
    if found is not None:
        return found
    artefact = make()
    record = {
        "key": key,
        "name": artefact.name,
        "title": artefact.title,
        "text": artefact.text,
        "tables": [[table.title, table.headings, table.cells, table.note, table.numbers] for table in artefact.tables],
        "figures": {name: base64.b64encode(png(figure)).decode() for name, figure in artefact.figures.items()},
        "data": artefact.data,
    }
    with whole_file(path) as partial:
        partial.write_text(json.dumps(record), encoding="utf-8")
    return artefact


def _read(path: Path, key: str) -> Artefact | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["key"] != key:
            return None
        tables = [
            Table(title, tuple(headings), tuple(tuple(row) for row in cells), note, numbers)
            for title, headings, cells, note, numbers in record["tables"]
        ]
        pictures = {name: base64.b64decode(picture) for name, picture in record["figures"].items()}
        return Artefact(record["name"], record["title"], record["text"], tables, pictures, record["data"])
    except (OSError, ValueError, KeyError, TypeError):  # missing, or not whole: it is made again
        return None


def _key(settings: Mapping[str, Any]) -> str:
    """Hash of the settings, of all code of this package, and of the versions of what it computes and draws with."""
    versions = {name: version(name) for name in _LIBRARIES} | {"python": platform.python_version()}
    text = json.dumps([settings, code_fingerprint("."), versions], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
