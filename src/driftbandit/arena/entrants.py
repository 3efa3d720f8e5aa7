"""Who competes: all policies of the registry, and the variants in their files: grids to tune, parts left out."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from driftbandit.policies.entry import Builder, Entry
from driftbandit.policies.registry import REGISTRY


@dataclass(frozen=True)
class Entrant:
    """A competitor.

    Attributes
    ----------
    title : str
        Its name in tables.
    variants : mapping of str to builder
        Builders by label; if there are several, the one that does best on the tuning seeds plays.
    rival : bool
        False for our own policy with a part switched off, and for policies that are told the true shifts.
    contextual : bool
        False for a policy that knows arms by their ids alone; it sits out real data, where few arms come twice.
    """

    title: str
    variants: Mapping[str, Builder]
    rival: bool = True
    contextual: bool = True


OURS = "driftucb"
REFERENCE = "oracle-paper"
"""Name of the oracle that is told the true shifts, restarts there, and explores by the paper's alpha_t."""


def entrants() -> dict[str, Entrant]:
    """All entrants: the registry's policies, then their variants for the arena."""
    entries = [entry for entry in REGISTRY.values() if not entry.scoped]
    variants = [(variants, entry) for entry in entries for variants in entry.variants]
    variants.sort(key=lambda pair: (pair[0].place, pair[0].name))
    return {
        **{entry.name: _entrant(entry, entry.title, {"": entry.build}) for entry in entries},
        **{found.name: _entrant(entry, found.title, found.builders(entry)) for found, entry in variants},
    }


def tuned() -> dict[str, Entrant]:
    """The entrants with several settings, of which the best on the tuning seeds plays; they are told the noise."""
    return {name: entrant for name, entrant in entrants().items() if len(entrant.variants) > 1}


def _entrant(entry: Entry, title: str, variants: Mapping[str, Builder]) -> Entrant:
    rival = entry.name != OURS and not entry.knows_shifts
    return Entrant(title, variants, rival=rival, contextual=entry.contextual)


def imported(path: str) -> object:
    """Import 'package.module:name', or raise ValueError saying why it cannot be imported."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"import path: expected 'package.module:name', got {path!r}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"import path: {path!r} cannot be imported ({error})") from error
