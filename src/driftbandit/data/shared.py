"""What every report on a data set says: its origin, its folder, and where its converted files are looked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from driftbandit.environments.converted import CACHE_VARIABLE, Form, cache_folder
from driftbandit.environments.datasets import DataSet

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int], object]


def origin(data_set: DataSet) -> dict[str, Any]:
    """Where a data set comes from and on which terms, for JSON."""
    return {"source": data_set.source, "terms": data_set.terms}


def found_in(data_set: DataSet, folder: Path) -> list[str]:
    """Where a copy was found, and where it comes from, in words."""
    return [f"Found in {folder}.", f"From {data_set.source}; {data_set.terms}."]


def cache_hint(form: Form, cache: PathLike | None) -> list[str]:
    """How to make the readers find a converted file in another folder."""
    if cache is None or cache_folder(form.name, form.folder) == cache_folder(form.name, form.folder, cache):
        return []
    return [f"Set {CACHE_VARIABLE}={Path(cache).resolve()} for it to be used."]
