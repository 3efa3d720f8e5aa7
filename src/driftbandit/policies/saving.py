"""A policy in a file: its class, its settings and everything it has learned, as text and numbers.

The file is a zip archive, not compressed, of three members. ``header.json`` holds the version of the format, the
version of the package that wrote it and the policy: its class, its settings, and the name, type and shape of every
array of its state. ``floats.npy`` and ``ints.npy`` hold the numbers of all these arrays, one after the other in the
header's order. Other members are left to whoever put them there. Nothing in a file is ever executed: classes are looked
up among the package's own and those that the caller passes.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.files import whole_file
from driftbandit.models import Radius, RewardModel
from driftbandit.policies.traits import Traits, arguments

FORMAT = 1
"""Version of the format that is written."""

UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""For every older version that can be read: a function that turns its header into that of the next version."""

_WHAT = "driftbandit policy"
_HEADER, _FLOATS, _INTS = "header.json", "floats.npy", "ints.npy"
_KINDS = {"float64": _FLOATS, "int64": _INTS}
_TIME = (1980, 1, 1, 0, 0, 0)  # the same policy makes the same file

Json = dict[str, Any]


def save(policy: Traits, path: str | os.PathLike[str], notes: Mapping[str, Json] | None = None) -> None:
    """Write a policy to a file, whole or not at all; see `PolicyBase.save`.

    `notes` are JSON objects that are kept beside the policy, each as a member of the archive of that name.
    """
    numbers: dict[str, list[NDArray[Any]]] = {_FLOATS: [np.empty(0)], _INTS: [np.empty(0, dtype=np.int64)]}
    described = _describe(policy, numbers)
    header = {"what": _WHAT, "format": FORMAT, "package": _package().__version__, "policy": described}
    texts = {_HEADER: header, **(notes or {})}
    with whole_file(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, content in texts.items():
            archive.writestr(zipfile.ZipInfo(name, _TIME), json.dumps(content, indent=1, allow_nan=False))
        for name, arrays in numbers.items():
            member = io.BytesIO()
            np.save(member, np.concatenate(arrays), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(name, _TIME), member.getbuffer())


def load(path: str | os.PathLike[str], *, classes: Iterable[type] = ()) -> Any:
    """Read a policy that `PolicyBase.save` wrote; it continues bit for bit.

    Parameters
    ----------
    path : path
        The file.
    classes : iterable of classes
        Policies and reward models of your own that the file may name. All classes but these and the package's are
        refused, so a file cannot make us import code of its choice.

    Raises
    ------
    ValueError
        Names the file and says what is wrong: it is not a file of this kind, it is damaged, its format is newer than
        this package, its class is unknown, or its settings or arrays do not fit the class.

    Examples
    --------
    >>> import tempfile, os
    >>> from driftbandit import DLinUCB, load
    >>> policy = DLinUCB(dim=2, noise=0.1, window=50)
    >>> changes = policy.learn([1.0, 0.0], 0.5)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "policy.npz")
    ...     policy.save(path)
    ...     load(path)
    <DLinUCB(dim=2, noise=0.1, window=50) rounds=1, changes=0>
    """
    with reading(path) as archive:
        header = _header(json.loads(archive.read(_HEADER)))
        numbers = _Numbers({name: archive.read(name) for name in _KINDS.values()})
        policy = _rebuild(header["policy"], numbers, {_name_of(kind): kind for kind in classes})
        numbers.check_used_up()
    return policy


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Open a file that `save` wrote; whatever is wrong with it becomes a ValueError that names the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        raise
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path}: not a saved policy, or not all of one ({error})") from error
    except (KeyError, TypeError, ValueError, OSError, EOFError, RecursionError, NotImplementedError) as error:
        # A KeyError or TypeError means that the header does not have the structure documented above.
        problem = error if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: not a policy that can be loaded ({problem})") from error


def _header(header: Json) -> Json:
    """The header in today's format."""
    if not isinstance(header, dict) or header.get("what") != _WHAT:
        raise ValueError(f"its header does not say {_WHAT!r}")
    version = header["format"]
    if type(version) is not int or version > FORMAT or (version < FORMAT and version not in UPGRADES):
        raise ValueError(
            f"it has format {version!r}, written by driftbandit {header.get('package')}; this is driftbandit "
            f"{_package().__version__}, which reads formats up to {FORMAT}"
        )
    while version < FORMAT:
        header = UPGRADES[version](header)
        version += 1
    return header


def _describe(policy: Traits, numbers: Mapping[str, list[NDArray[Any]]]) -> Json:
    """Class, settings and arrays of a policy; appends the numbers themselves to `numbers`."""
    kind = type(policy)
    settings = {}
    for name, value in policy.settings().items():
        try:
            settings[name] = _encode(value, numbers)
        except ValueError as error:
            raise ValueError(f"{kind.__name__} cannot be saved: {name}: {error}") from error
    arrays = []
    for name, array in policy.state().items():  # type: ignore[attr-defined]
        if array.dtype.name not in _KINDS:
            raise ValueError(f"{kind.__name__} cannot be saved: state: {name}: expected float64 or int64")
        numbers[_KINDS[array.dtype.name]].append(array.ravel())
        arrays.append([name, array.dtype.name, list(array.shape)])
    return {"class": _name_of(kind), "settings": settings, "arrays": arrays}


def _rebuild(described: Json, numbers: _Numbers, classes: Mapping[str, type]) -> Any:
    """The policy that `_describe` was given."""
    kind: Any = _find(described["class"], Traits, classes)
    given = described["settings"]
    if unknown := sorted(given.keys() - arguments(kind).keys()):
        raise ValueError(f"{kind.__name__} takes no setting {unknown[0]!r}")
    settings = {name: _decode(value, numbers, classes) for name, value in given.items()}
    state = {name: numbers.take(dtype, tuple(shape)) for name, dtype, shape in described["arrays"]}
    return kind(**settings).restore(state)


def _encode(value: Any, numbers: Mapping[str, list[NDArray[Any]]]) -> Any:
    """A setting as JSON; a value that JSON does not know becomes an object with one key, which names its kind."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple | list):
        return [_encode(one, numbers) for one in value]
    if isinstance(value, Radius):
        return {"radius": asdict(value)}
    if isinstance(value, Traits):
        return {"policy": _describe(value, numbers)}
    if isinstance(value, type) and issubclass(value, RewardModel):
        return {"class": _name_of(value)}
    raise ValueError(
        f"expected numbers, text, a Radius, a policy or a subclass of RewardModel, got {value!r}, which cannot be "
        "written to a file; use pickle, or keep the settings yourself and save state()"
    )


def _decode(value: Any, numbers: _Numbers, classes: Mapping[str, type]) -> Any:
    """The value that `_encode` was given, with lists for tuples."""
    if isinstance(value, list):
        return [_decode(one, numbers, classes) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "float":
        return float(inner)
    if kind == "radius":
        return Radius(**inner)
    if kind == "policy":
        return _rebuild(inner, numbers, classes)
    if kind == "class":
        return _find(inner, RewardModel, classes)
    raise ValueError(f"a setting of unknown kind {kind!r}")


def _package() -> Any:
    """The package as users import it, which knows all public names; imported late, since it imports this module."""
    return import_module("driftbandit")


def _public(name: str) -> Any:
    """What users import from `driftbandit` by this name; None if the name is unknown."""
    return getattr(_package(), name) if name in _package().__all__ else None


def _name_of(kind: type) -> str:
    """A class as a file names it: by its name alone if it can be imported from `driftbandit`."""
    name = kind.__name__
    if _public(name) is kind:
        return name
    return f"{kind.__module__}:{kind.__qualname__}"


def _find(name: str, base: type, classes: Mapping[str, type]) -> type:
    """The class of that name, among those passed and the package's own."""
    kind = classes.get(name, _public(name))
    if kind is None:
        own = name.rpartition(":")[2].rpartition(".")[2]
        raise ValueError(f"class {name!r} is not one of driftbandit's; pass it: load(path, classes=[{own}])")
    if not isinstance(kind, type) or not issubclass(kind, base):
        raise ValueError(f"{name!r} is no class of the expected kind, {base.__name__}")
    return kind


class _Numbers:
    """Hands out the numbers of a file in the order in which they were written."""

    def __init__(self, members: Mapping[str, bytes]) -> None:
        self._left = {dtype: np.load(io.BytesIO(members[name]), allow_pickle=False) for dtype, name in _KINDS.items()}
        for dtype, array in self._left.items():
            if array.dtype != dtype or array.ndim != 1:
                raise ValueError(f"{_KINDS[dtype]}: expected a flat array of {dtype}")

    def take(self, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """The next array."""
        left = self._left[dtype]
        count = math.prod(shape)
        if any(type(length) is not int or length < 0 for length in shape) or count > len(left):
            raise ValueError(f"{_KINDS[dtype]}: expected an array of shape {shape}, got {len(left)} numbers")
        self._left[dtype] = left[count:]
        array: NDArray[Any] = left[:count].reshape(shape)
        return array

    def check_used_up(self) -> None:
        """Raise ValueError if numbers are left over."""
        for dtype, left in self._left.items():
            if len(left):
                raise ValueError(f"{_KINDS[dtype]}: {len(left)} numbers too many")
