"""Who competes: all policies as they come, and what else their files offer: grids to be tuned on, parts left out."""

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
        Its settings by label; if there are several, the best on the tuning seeds plays.
    rival : bool
        False for our own policy with a part switched off, and for those that are told the true shifts.
    contextual : bool
        False for a policy that knows arms by their ids alone; it sits out real data, where few arms come twice.
    """

    title: str
    variants: Mapping[str, Builder]
    rival: bool = True
    contextual: bool = True


OURS = "driftucb"
REFERENCE = "oracle-paper"
"""Told the true shifts, restarts there, and explores by the paper's alpha_t."""


def entrants() -> dict[str, Entrant]:
    """Everyone: the registry, then the variants of its policies that are meant for the arena."""
    entries = [entry for entry in REGISTRY.values() if not entry.scoped]
    variants = [(variants, entry) for entry in entries for variants in entry.variants]
    variants.sort(key=lambda pair: (pair[0].place, pair[0].name))
    return {
        **{entry.name: _entrant(entry, entry.title, {"": entry.build}) for entry in entries},
        **{found.name: _entrant(entry, found.title, found.builders(entry)) for found, entry in variants},
    }


def tuned() -> dict[str, Entrant]:
    """Those with several settings, of which the best on the tuning seeds plays; they are told the noise."""
    return {name: entrant for name, entrant in entrants().items() if len(entrant.variants) > 1}


def _entrant(entry: Entry, title: str, variants: Mapping[str, Builder]) -> Entrant:
    rival = entry.name != OURS and not entry.knows_shifts
    return Entrant(title, variants, rival=rival, contextual=entry.contextual)


def imported(path: str) -> object:
    """Import 'package.module:name', or say why not."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"import path: expected 'package.module:name', got {path!r}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"import path: {path!r} cannot be imported ({error})") from error
