"""Fingerprints of runs: a result in a file is reused only if nothing that made it has changed.

A fingerprint covers the package's own code, the world with its settings and the files it reads, the seed, and the
builder with the values bound to it. Your own code counts by its source: the files of every function and class that a
world or a builder names, and of your own modules that they import.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import json
import pickle
import sys
import sysconfig
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from driftbandit.environments.rounds import Environment
from driftbandit.evaluation.workers import CANNOT_PICKLE
from driftbandit.policies.registry import Builder

_PACKAGE = Path(__file__).parents[1]
_CODE = ("core.py", "state.py", "kernels", "models", "detection", "policies", "environments", "evaluation")
_INSTALLED = tuple(Path(sysconfig.get_path(kind)) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))


def run_key(world: Environment, seed: int, name: str, build: Builder | None) -> str:
    """Fingerprint of a run: the code, the world, the seed and the policy."""
    return joined_key(world_fingerprint(world), seed, name, builder_fingerprint(build))


def joined_key(world: str, seed: int, name: str, builder: str) -> str:
    """`run_key` from fingerprints of the world and the builder, for many runs of the same ones."""
    return hashlib.sha256(json.dumps([world, seed, name, builder]).encode()).hexdigest()


def world_fingerprint(world: Environment) -> str:
    """Fingerprint of the package's code and of a world: its settings, its source, and the files that it reads."""
    files = getattr(world, "fingerprint", str)()
    facts = [code_fingerprint(), type(world).__qualname__, asdict(world), source_fingerprint(world), files]
    return hashlib.sha256(json.dumps(facts, default=_digest).encode()).hexdigest()


def builder_fingerprint(build: Callable[..., object] | None) -> str:
    """Fingerprint of a user's builder: its name, the values bound to it, and the source of both."""
    if build is None:
        return ""
    source = source_fingerprint(build)  # first, because it can handle builders that cannot be pickled
    return source if source.startswith("unknown") else _digest(build) + source


def source_fingerprint(thing: object) -> str:
    """Hash of the source of every function and class in an object; if the source cannot be found, a unique text."""
    names = _Names()
    try:
        names.dump(thing)
        sources = sorted(_sources(names.found))
    except (*CANNOT_PICKLE, _NoSourceError):
        return f"unknown {uuid.uuid4().hex}"  # what a lambda captured cannot be known, so no two are equal
    digest = hashlib.sha256()
    for name, source in sources:
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


@cache
def code_fingerprint(*parts: str) -> str:
    """Hash of the package's source, or of parts of it, so that traces of older code are not reused."""
    digest = hashlib.sha256()
    for part in parts or _CODE:
        for path in sorted((_PACKAGE / part).rglob("*.py")) or [_PACKAGE / part]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _digest(value: object) -> str:
    """Hash of a value; equal for a value and its copy in another process.

    An ordinary pickle says which of its parts are one object, and copies share other parts than the original does.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=5)
    pickler.fast = True  # write every part out, however often it occurs
    pickler.dump(value)
    return hashlib.sha256(buffer.getvalue()).hexdigest()


class _NoSourceError(Exception):
    """A function or class has no source file, for example because it was typed into a console."""


class _Names(pickle.Pickler):
    """Notes the modules of all functions and classes in an object."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: set[str] = set()

    def persistent_id(self, obj: Any) -> None:
        if isinstance(obj, type):
            self.found.update(base.__module__ for base in obj.__mro__)
        elif isinstance(obj, FunctionType):
            self.found.add(obj.__module__)


def _sources(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Source of these modules and of your own modules that they import, by name.

    `code_fingerprint` covers most of the package's modules. Of its other modules and of installed ones, only the module
    itself counts, not its imports. Modules are found whether or not they have been imported, because a worker may have
    imported more.
    """
    left, seen = list(names), set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        path = _file_of(name)
        if path is None or any(path.is_relative_to(_PACKAGE / part) for part in _CODE):
            continue
        source = path.read_bytes()
        yield name, source
        if _is_own(path):
            left += [found for found in _imports(name, path, source) if _is_own(_file_of(found.partition(".")[0]))]


def _is_own(path: Path | None) -> bool:
    return path is not None and not any(path.is_relative_to(folder) for folder in (*_INSTALLED, _PACKAGE))


def _file_of(name: str) -> Path | None:
    """Source file of a module; None if there is none, as for modules in C."""
    if name in sys.modules:
        found = getattr(sys.modules[name], "__file__", None)
        if found is None and name == "__main__":
            raise _NoSourceError
    else:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):  # its parent is no package, or is missing
            return None
        found = spec.origin if spec is not None else None
    return Path(found) if found is not None and found.endswith(".py") and Path(found).is_file() else None


def _imports(name: str, path: Path, source: bytes) -> Iterator[str]:
    """Names of what a module imports, modules or not, and of the packages that it is in."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    yield from _with_parents(package)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            try:
                base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            except ImportError:  # beyond the package
                continue
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    """'a.b.c', 'a.b' and 'a' for 'a.b.c': importing it runs them all."""
    while name:
        yield name
        name = name.rpartition(".")[0]
