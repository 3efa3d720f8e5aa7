"""Who competes: all policies of the registry, and the variants in their files: grids to tune, parts left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast, get_args

from driftbandit.arena.scenarios import Kind
from driftbandit.core import Policy
from driftbandit.policies.entry import Brief, Builder, Entry
from driftbandit.policies.registry import REGISTRY
from driftbandit.policies.scoped.per_scope import PerScope, SavedPolicy


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
        False for the policy that the scoreboard is about, for the same policy with other settings or without a part,
        and for policies that are told the true shifts.
    kinds : tuple of str
        Kinds of scenarios that it plays; by default all.
    """

    title: str
    variants: Mapping[str, Builder]
    rival: bool = True
    kinds: tuple[Kind, ...] = get_args(Kind)


OURS = "driftucb"
REFERENCE = "oracle-paper"
"""Name of the oracle that is told the true shifts, restarts there, and explores by the paper's alpha_t."""

OURS_AMONG_PEOPLE = "driftucb-pooled"

_AMONG_PEOPLE = (OURS, "linucb", "random")
"""Policies that take no scope and play among people all the same, one for everyone."""

_CONTEXT_FREE: tuple[Kind, ...] = ("shifts", "still", "drift")
"""Where policies play that know arms by their ids alone: in real data, for example, few arms come twice."""


def in_focus(kind: Kind, focus: str = OURS) -> str:
    """Name of the entrant that the scoreboard is about; among people, DriftUCB is the one with a model per user.

    >>> in_focus("shifts"), in_focus("people"), in_focus("people", "linucb")
    ('driftucb', 'driftucb-pooled', 'linucb')
    """
    return OURS_AMONG_PEOPLE if kind == "people" and focus == OURS else focus


def entrants(focus: str = OURS) -> dict[str, Entrant]:
    """All entrants: the registry's policies, then their variants for the arena, then those that play among people.

    `focus` is the name of the entrant that the scoreboard is about; neither it nor its variants are rivals.
    """
    entries = [entry for entry in REGISTRY.values() if not entry.scoped]
    variants = [(variants, entry) for entry in entries for variants in entry.variants]
    variants.sort(key=lambda pair: (pair[0].place, pair[0].name))
    found = {
        **{entry.name: _entrant(entry, entry.title, {"": entry.build}) for entry in entries},
        **{found.name: _entrant(entry, found.title, found.builders(entry)) for found, entry in variants},
        **_with_scopes(),
    }
    family = {name: entry.name for entry in entries for name in (entry.name, *(v.name for v in entry.variants))}
    family |= dict.fromkeys((OURS_AMONG_PEOPLE, "driftucb-per-scope"), OURS)
    own = family.get(focus, focus)
    return {
        name: replace(entrant, rival=entrant.rival and family.get(name, name) != own) for name, entrant in found.items()
    }


def _with_scopes() -> dict[str, Entrant]:
    """Entrants that are told who is served, and play among people only."""
    builders: dict[str, tuple[str, Builder]] = {
        OURS_AMONG_PEOPLE: ("PerScope (DriftUCB), pooled", _driftucb_pooled),
        "driftucb-per-scope": ("PerScope (DriftUCB)", _driftucb_per_scope),
        **{entry.name: (entry.title, entry.build) for entry in REGISTRY.values() if entry.scoped},
    }
    return {name: Entrant(title, {"": build}, kinds=("people",)) for name, (title, build) in builders.items()}


def _driftucb_per_scope(brief: Brief) -> Policy:
    return cast(Policy, PerScope(cast(SavedPolicy, REGISTRY[OURS].build(brief))))


def _driftucb_pooled(brief: Brief) -> Policy:
    return cast(Policy, PerScope(cast(SavedPolicy, REGISTRY[OURS].build(brief)), pool=True))


def tuned() -> dict[str, Entrant]:
    """The entrants with several settings, of which the best on the tuning seeds plays; they are told the noise."""
    return {name: entrant for name, entrant in entrants().items() if len(entrant.variants) > 1}


def _entrant(entry: Entry, title: str, variants: Mapping[str, Builder]) -> Entrant:
    kinds = tuple(kind for kind in get_args(Kind) if kind != "people") if entry.contextual else _CONTEXT_FREE
    if title == entry.title and entry.name in _AMONG_PEOPLE:
        kinds = (*kinds, "people")
    return Entrant(title, variants, rival=not entry.knows_shifts, kinds=kinds)
