"""Files and folders of this machine, or of S3-compatible storage (``s3://BUCKET/PREFIX``), through pyarrow."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from posixpath import basename
from typing import Any

from driftbandit.files import sync
from driftbandit.serving.stores.base import without_password

_REMOTE = "s3://"
_PARTIAL = ".partial"


def check_place(name: str, address: str | os.PathLike[str]) -> None:
    """Raise ValueError if this is no address of a file or folder. Nothing is opened.

    >>> check_place("--archive", "s3://bucket/old?region=eu-west-1")
    >>> check_place("--archive", "ftp://me:secret@host/old")
    Traceback (most recent call last):
    ValueError: --archive: expected a path or s3://BUCKET/PREFIX, got 'ftp://me:***@host/old'
    """
    text = os.fspath(address)
    bucket = text.removeprefix(_REMOTE).partition("?")[0].rpartition("@")[2].partition("/")[0]
    if "://" in text and not (text.startswith(_REMOTE) and bucket):
        raise ValueError(f"{name}: expected a path or s3://BUCKET/PREFIX, got {without_password(text)!r}")


@dataclass(frozen=True, slots=True)
class Place:
    """A file or a folder.

    Attributes
    ----------
    system : pyarrow.fs.FileSystem
        Where it is.
    path : str
        Its path there.
    shown : str
        What people know it by.
    """

    system: Any
    path: str
    shown: str

    @classmethod
    def of(cls, address: str | os.PathLike[str] | Place) -> Place:
        """The place of an address: a path of this machine, or ``s3://BUCKET/PREFIX?OPTION=VALUE``.

        The options are those of pyarrow's S3FileSystem, such as ``region`` and ``endpoint_override``. Keys come from
        the environment or the machine, as in other programs of AWS.
        """
        if isinstance(address, Place):
            return address
        from pyarrow import fs  # noqa: PLC0415 - slow to import

        check_place("address", address)
        text = os.fspath(address)
        if not text.startswith(_REMOTE):
            return cls(fs.LocalFileSystem(), text, text)
        shown = without_password(text)
        try:
            system, path = fs.FileSystem.from_uri(text)
        except (ValueError, OSError) as error:
            raise ValueError(f"{shown}: {str(error).replace(text, shown)}") from None
        return cls(system, path.rstrip("/"), shown.partition("?")[0].rstrip("/"))

    def __truediv__(self, name: str) -> Place:
        return Place(self.system, f"{self.path}/{name}", f"{self.shown}/{name}")

    def __str__(self) -> str:
        return self.shown

    @property
    def name(self) -> str:
        """The last part of its path."""
        return basename(self.path)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return bool(self.system.type_name == "local")

    def is_folder(self) -> bool:
        """Whether it is a folder, or files are below it."""
        return bool(self.system.get_file_info(self.path).type.name == "Directory")

    def files(self, ending: str, *, recursive: bool = False) -> list[Place]:
        """The files in a folder whose names end so, in order of their paths; none if there is no such folder."""
        from pyarrow import fs  # noqa: PLC0415 - slow to import

        found = self.system.get_file_info(fs.FileSelector(self.path, allow_not_found=True, recursive=recursive))
        paths = sorted(each.path for each in found if each.is_file and each.base_name.endswith(ending))
        return [Place(self.system, path, self.shown + path[len(self.path) :]) for path in paths]

    def save(self, pieces: Iterable[bytes], name: Callable[[], str | None]) -> None:
        """Write a file in this folder. It gets its name when it is whole, and durable; none if `name` says so.

        One process at a time may write to a folder: what others left there is deleted.
        """
        if self.is_local:
            os.makedirs(self.path, exist_ok=True)
        self.tidy()
        partial = self / f".{secrets.token_hex(4)}{_PARTIAL}"
        try:
            with self.system.open_output_stream(partial.path) as file:
                for piece in pieces:
                    file.write(piece)
            if self.is_local:
                sync(partial.path)
            if (final := name()) is not None:
                self.system.move(partial.path, f"{self.path}/{final}")
                if self.is_local:
                    sync(self.path)
        finally:
            self.tidy()  # pyarrow lets S3 keep what was written even if that failed half-way

    def tidy(self) -> None:
        """Delete what was left half-written in this folder."""
        for left in self.files(_PARTIAL):
            left.system.delete_file(left.path)
