"""Fetching an archive and unpacking it, without trusting it.

No name in the archive becomes a path: only expected files are unpacked, under their expected names, and each appears
whole or not at all.
"""

from __future__ import annotations

import http.client
import shutil
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from driftbandit.files import whole_file

MOST_BYTES = 256 << 20
"""Largest size of an archive and of its unpacked files; data sets of this kind have a few MB."""

_PIECE = 1 << 20
_SECONDS = 60.0
_ENCRYPTED = 0x1


def fetch(url: str, target: Path, most: int = MOST_BYTES) -> None:
    """Download a file, whole or not at all.

    Raises
    ------
    OSError, ValueError
        If the download fails, breaks off or is larger than `most` bytes.
    """
    try:
        # The address is ours or the caller's choice.
        with urllib.request.urlopen(url, timeout=_SECONDS) as source, whole_file(target) as partial:
            announced = source.headers.get("Content-Length")
            with open(partial, "wb") as file:
                size = _copy(source, file, most, url)
            if announced is not None and announced.isdigit() and int(announced) != size:
                raise ValueError(f"{url}: the download broke off after {size:,} of {int(announced):,} bytes")
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{url}: could not be downloaded ({error})") from error


def unpack(
    archive: Path, expected: Sequence[str], needed: Sequence[str], folder: Path, most: int = MOST_BYTES
) -> list[Path]:
    """Unpack the expected files of a zip archive into a folder; files that are there already stay as they are.

    The files may lie in a folder inside the archive. Other members are left alone; `needed` must be there.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        If the archive is damaged or larger than `most` bytes, if a member has a path that leads out of the folder, is
        there twice, is encrypted or is not a plain file, or if a needed member is missing; then nothing is written.
    """
    try:
        with zipfile.ZipFile(archive) as packed, tempfile.TemporaryDirectory(prefix="driftbandit-") as scratch:
            wanted = _members(archive, packed, expected, needed, most)
            room = most
            for name, member in wanted.items():  # all must be unpacked, with correct checksums, before any is kept
                with packed.open(member) as source, open(Path(scratch, name), "wb") as file:
                    room -= _copy(source, file, room, str(archive))
            written = []
            for name in wanted:
                if not (folder / name).exists():
                    with whole_file(folder / name) as partial:
                        shutil.copyfile(Path(scratch, name), partial)
                    written.append(folder / name)
            return written
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{archive}: not a whole zip archive ({error})") from error


def _members(
    archive: Path, packed: zipfile.ZipFile, expected: Sequence[str], needed: Sequence[str], most: int
) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for member in packed.infolist():
        path = PurePosixPath(member.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in member.filename:
            raise ValueError(f"{archive}: refused, {member.filename!r} leads out of the folder")
        if member.is_dir() or path.name not in expected:
            continue
        kind = member.external_attr >> 28  # of a Unix mode: 8 is a plain file, 0 where no mode is given
        if kind not in (0, 8) or member.flag_bits & _ENCRYPTED:
            raise ValueError(f"{archive}: refused, {member.filename!r} is not a plain file")
        if path.name in found:
            raise ValueError(f"{archive}: refused, {path.name} is in it twice")
        found[path.name] = member
    if sum(member.file_size for member in found.values()) > most:
        raise ValueError(f"{archive}: refused, it unpacks to more than {most:,} bytes")
    if missing := [name for name in needed if name not in found]:
        raise ValueError(f"{archive}: expected {', '.join(missing)} in it")
    return found


def _copy(source: IO[bytes], target: IO[bytes], most: int, what: str) -> int:
    size = 0
    while piece := source.read(_PIECE):
        size += len(piece)
        if size > most:
            raise ValueError(f"{what}: refused, more than {most:,} bytes")
        target.write(piece)
    return size
