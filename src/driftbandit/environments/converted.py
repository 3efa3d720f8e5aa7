"""Data sets converted to the arrays that are used, in a cache folder, so that the next start is faster.

The name of a converted file holds a fingerprint of its source files (name, size and time of each), of the settings and
of the packages that made it. If any of these changes, no file has that name and the sources are read again: a converted
file is never out of date. A damaged file is not used either.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from platformdirs import user_cache_path

from driftbandit.files import whole_file

LAYOUT = 1
"""Version of the layout of converted files; part of their fingerprint."""

CACHE_VARIABLE = "DRIFTBANDIT_CACHE"

_HIDDEN = ".driftbandit"


@dataclass(frozen=True)
class Form:
    """What is converted: the files of a folder, under some settings.

    Attributes
    ----------
    name : str
        Name of the data set.
    folder : Path
        Where its files are.
    sources : tuple of str
        Names of the files that are read; the fingerprint also records which are missing.
    settings : str
        Settings that the result depends on, as part of a file name.
    suffix : str
        Suffix of the converted file.
    packages : tuple of str
        Installed packages whose version the result depends on.
    """

    name: str
    folder: Path
    sources: tuple[str, ...]
    settings: str = ""
    suffix: str = ".parquet"
    packages: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """Name of the converted file before its fingerprint."""
        return f"{self.name}-{self.settings}" if self.settings else self.name

    def file_name(self) -> str:
        """Name of the converted file for the present sources."""
        facts: list[Any] = [LAYOUT, self.stem]
        for source in self.sources:
            try:
                found = (self.folder / source).stat()
                facts.append([source, found.st_size, found.st_mtime_ns])
            except OSError:
                facts.append([source, None])
        facts += [[package, _version(package)] for package in self.packages]
        return f"{self.stem}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]}{self.suffix}"

    def find(self, cache: str | os.PathLike[str] | None = None) -> Path | None:
        """The converted file for the present sources, if there is one; if `cache` is given, only there."""
        name = self.file_name()
        places = [_place_in(Path(cache), self.name, self.folder)] if cache else cache_folders(self.name, self.folder)
        return next((place / name for place in places if (place / name).is_file()), None)

    def write(self, save: Callable[[Path], object], cache: str | os.PathLike[str] | None = None) -> Path:
        """Have `save` write the converted file, whole or not at all, and remove files of earlier sources beside it."""
        place = cache_folder(self.name, self.folder, cache)
        target = place / self.file_name()
        with whole_file(target) as partial:
            save(partial)
        older = re.compile(rf"{re.escape(self.stem)}-[0-9a-f]{{16}}{re.escape(self.suffix)}")
        for file in place.iterdir():
            if older.fullmatch(file.name) and file != target:
                file.unlink(missing_ok=True)
        return target


def cache_folder(name: str, folder: Path, cache: str | os.PathLike[str] | None = None) -> Path:
    """Where to keep a data set's converted files.

    In `cache` or `$DRIFTBANDIT_CACHE` if given, else in the data's own folder, or in the user's cache if that folder is
    read-only.
    """
    chosen = cache if cache is not None else os.environ.get(CACHE_VARIABLE)
    if chosen:
        return _place_in(Path(chosen), name, folder)
    return folder / _HIDDEN if _may_write(folder) else _place_in(_user_cache(), name, folder)


def cache_folders(name: str, folder: Path) -> list[Path]:
    """Where to look for a data set's converted files."""
    chosen = os.environ.get(CACHE_VARIABLE)
    outside = [Path(chosen)] if chosen else []
    return [_place_in(place, name, folder) for place in (*outside, _user_cache())] + [folder / _HIDDEN]


def _place_in(cache: Path, name: str, folder: Path) -> Path:
    """Folder for one copy of a data set, since copies in different folders do not share converted files."""
    return cache / f"{name}-{hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8]}"


def _user_cache() -> Path:
    return user_cache_path("driftbandit", appauthor=False)


def _may_write(folder: Path) -> bool:
    """Whether the folder's mode allows writing: the superuser could write to any folder, but should not."""
    return os.access(folder, os.W_OK) and bool(folder.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays, flattened, to a Parquet file of one row whose columns are lists."""
    import pyarrow as pa  # noqa: PLC0415 - only files need it, and it is slow to import
    from pyarrow import parquet  # noqa: PLC0415

    columns = [
        pa.LargeListArray.from_arrays(pa.array([0, array.size], pa.int64()), pa.array(array.reshape(-1)))
        for array in arrays.values()
    ]
    parquet.write_table(pa.table(columns, names=list(arrays)), path, compression="zstd", use_dictionary=False)


def load_arrays(path: Path, types: Mapping[str, type]) -> dict[str, NDArray[Any]]:
    """Read arrays that `save_arrays` wrote, flat.

    Raises
    ------
    ValueError
        If the file is damaged, or has other columns or types than these.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above
    from pyarrow import parquet  # noqa: PLC0415

    try:
        table = parquet.read_table(path)
        expected = pa.schema([(name, pa.large_list(pa.from_numpy_dtype(kind))) for name, kind in types.items()])
        if table.num_rows != 1 or not _same_types(table.schema, expected):
            raise ValueError("other columns than expected")
        return {name: table[name].combine_chunks().flatten().to_numpy(zero_copy_only=True) for name in types}
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path}: not a converted data set ({error})") from error


def _same_types(found: Any, expected: Any) -> bool:
    def kinds(schema: Any) -> Sequence[tuple[str, Any]]:
        return [(part.name, getattr(part.type, "value_type", None)) for part in schema]

    return kinds(found) == kinds(expected)
