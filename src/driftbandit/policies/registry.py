"""All policies by name, ready to be built for an environment.

The registry finds them: it looks through the modules of `driftbandit.policies` for ``ENTRIES``, and through the
installed packages for entry points of the group ``driftbandit.policies``, so that a policy is registered by its own
file alone.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from threading import RLock

from driftbandit.policies.entry import Brief, Builder, Entry

__all__ = ["GROUP", "REGISTRY", "USUAL", "Brief", "Builder", "Entry", "Registry", "title_of"]

GROUP = "driftbandit.policies"
"""Entry points of this group name a module with ``ENTRIES``, or an `Entry`, of a package other than this one."""


class Registry(Mapping[str, Entry]):
    """Entries by name, in the order of their places; collected when the first one is asked for.

    Until then no policy is imported, so a module with a policy may import anything from this package.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._shipped: frozenset[str] = frozenset()
        self._is_complete = False
        self._lock = RLock()

    def __getitem__(self, name: str) -> Entry:
        return self._collected()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._collected())

    def __len__(self) -> int:
        return len(self._collected())

    def is_shipped(self, name: str) -> bool:
        """Whether a policy comes with this package, rather than with another one."""
        return name in self._collected() and name in self._shipped

    def _collected(self) -> dict[str, Entry]:
        if not self._is_complete:
            with self._lock:
                if not self._entries:  # otherwise a module that is being imported below asks
                    self._entries = _sorted(merged({}, shipped()))
                    self._shipped = frozenset(self._entries)
                    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
                        self._add(point)
                    self._is_complete = True
        return self._entries

    def _add(self, point: EntryPoint) -> None:
        """Add what an entry point names; if that fails, warn and go on."""
        try:
            self._entries = _sorted(merged(self._entries, entries_of(point.load())))
        except Exception as error:  # other people's modules may raise anything
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"policies: the entry point {point.name!r} ({point.value}) is left out: {reason}", stacklevel=2
            )


REGISTRY = Registry()


def shipped() -> list[Entry]:
    """Entries of this package's own modules."""
    modules = [
        import_module(info.name) for info in pkgutil.walk_packages([str(Path(__file__).parent)], f"{__package__}.")
    ]
    return [entry for module in modules for entry in getattr(module, "ENTRIES", ())]


def entries_of(thing: object) -> tuple[Entry, ...]:
    """Entries in a module, or in whatever else an entry point names."""
    found = getattr(thing, "ENTRIES", thing)
    entries = found if isinstance(found, tuple | list) else [found]
    if not all(isinstance(entry, Entry) for entry in entries):
        raise ValueError(f"expected an Entry, or a module with ENTRIES, a tuple of them, got {thing!r}")
    return tuple(entries)


def merged(known: Mapping[str, Entry], more: Iterable[Entry]) -> dict[str, Entry]:
    """Return all entries by name; raise ValueError if two entries, or variants for the arena, share a name."""
    entries = dict(known)
    names = {variants.name for entry in known.values() for variants in entry.variants} | set(entries)
    for entry in more:
        for name in (entry.name, *(variants.name for variants in entry.variants)):
            if name in names:
                raise ValueError(f"there is already a policy by the name {name!r}")
            names.add(name)
        entries[entry.name] = entry
    return entries


def _sorted(entries: dict[str, Entry]) -> dict[str, Entry]:
    return dict(sorted(entries.items(), key=lambda item: (item[1].place, item[0])))


# What `compare` plays by default: few enough policies for one picture.
USUAL = (
    "driftucb",
    "dlinucb",
    "dlinucb-paper",
    "dlinucb-released",
    "adts",
    "linucb",
    "lints",
    "meta-bandit",
    "gamma-restart",
    "wmducb1",
    "ucb1",
    "random",
    "oracle",
    "oracle-paper",
)


def title_of(name: str) -> str:
    """Name of a policy in tables and plots; a name that is not in the registry is its own title."""
    return REGISTRY[name].title if name in REGISTRY else name
