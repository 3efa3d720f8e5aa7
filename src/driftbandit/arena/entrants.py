"""Who competes: all policies as they come, and the strongest rivals with a grid of settings to be tuned on."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from driftbandit.core import Policy
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.forgetting.discounted_linucb import DiscountedLinUCB
from driftbandit.policies.forgetting.restart_linucb import RestartLinUCB
from driftbandit.policies.forgetting.sw_linucb import SWLinUCB
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.linear.oracle import OracleLinUCB
from driftbandit.policies.registry import REGISTRY, Brief, Builder


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


def _strength(brief: Brief, strength: str) -> dict[str, float]:
    """Ridge and exploration: what Bayes' rule asks for if the noise is known, or constants that often do well."""
    known = {"ridge": max(brief.dim * brief.noise**2, 1e-6), "explore": brief.noise}
    return {
        "noise": known,
        "half": {**known, "explore": 0.5 * brief.noise},
        ".3": {"ridge": 0.1, "explore": 0.3},
        ".1": {"ridge": 0.1, "explore": 0.1},
        "1/.5": {"ridge": 1.0, "explore": 0.5},
    }[strength]


# Functions rather than lambdas, because these travel between processes.


def _linucb(brief: Brief, strength: str) -> Policy:
    return LinUCB(brief.dim, **_strength(brief, strength))


def _discounted(brief: Brief, discount: float, strength: str) -> Policy:
    return DiscountedLinUCB(brief.dim, brief.noise, discount=discount, **_strength(brief, strength))


def _windowed(brief: Brief, window: int, strength: str) -> Policy:
    return SWLinUCB(brief.dim, brief.noise, window=window, **_strength(brief, strength))


def _restarted(brief: Brief, period: int, strength: str) -> Policy:
    return RestartLinUCB(brief.dim, brief.noise, period=period, **_strength(brief, strength))


def _oracle(brief: Brief, strength: str) -> Policy:
    return OracleLinUCB(brief.dim, shifts=brief.shifts, **_strength(brief, strength))


def _dlinucb(brief: Brief, preset: str, explore: float) -> Policy:
    return DLinUCB.preset(preset, brief.dim, brief.noise, explore=explore, seed=brief.seed)


def _driftucb(brief: Brief, **settings: Any) -> Policy:
    return DriftUCB(brief.dim, **settings)


def _grid(build: Any, **settings: tuple[object, ...]) -> dict[str, Builder]:
    return {
        " ".join(str(value) for value in values): cast(
            Builder, partial(build, **dict(zip(settings, values, strict=True)))
        )
        for values in itertools.product(*settings.values())
    }


_BAYES = ("noise", ".1")

TUNED: dict[str, Entrant] = {
    "linucb-tuned": Entrant("LinUCB, tuned", _grid(_linucb, strength=("noise", "half", ".3", ".1", "1/.5"))),
    "discounted-tuned": Entrant(
        "D-LinUCB, tuned", _grid(_discounted, discount=(0.95, 0.98, 0.99, 0.995, 0.998), strength=_BAYES)
    ),
    "sw-tuned": Entrant("SW-LinUCB, tuned", _grid(_windowed, window=(50, 100, 200, 400, 1000), strength=_BAYES)),
    # No period of the worlds is among these: restarts that fall on the shifts by construction would be an oracle's.
    "restart-tuned": Entrant("RestartLinUCB, tuned", _grid(_restarted, period=(150, 300, 600, 1000), strength=_BAYES)),
    "dlinucb-tuned": Entrant("dLinUCB, tuned", _grid(_dlinucb, preset=("table1", "released"), explore=(0.1, 0.3, 0.6))),
}
"""Told the noise, and tuned in every scenario."""

BOUND = {"oracle-bayes": Entrant("Oracle (Bayes)", {"": partial(_oracle, strength="noise")}, rival=False)}
"""Told the true shifts and the noise, with the ridge and exploration that Bayes' rule asks for: hard to beat."""

PARTS: dict[str, Entrant] = {
    "driftucb-no-ladder": Entrant("DriftUCB without ladder", {"": partial(_driftucb, detect=False)}, rival=False),
    "driftucb-no-experts": Entrant("DriftUCB without experts", {"": partial(_driftucb, memory=())}, rival=False),
    "driftucb-no-mixture": Entrant("DriftUCB without mixture", {"": partial(_driftucb, mix=False)}, rival=False),
}
"""Our own policy with one part switched off: what does it buy?"""

OURS = "driftucb"
REFERENCE = "oracle-paper"
"""Told the true shifts, restarts there, and explores by the paper's alpha_t."""


def entrants() -> dict[str, Entrant]:
    """Everyone: the registry, the tuned rivals, and DriftUCB in parts."""
    plain = {
        name: Entrant(
            entry.title,
            {"": entry.build},
            rival=name != OURS and not name.startswith("oracle"),
            contextual=entry.told != "reward range",
        )
        for name, entry in REGISTRY.items()
    }
    return {**plain, **BOUND, **TUNED, **PARTS}


def imported(path: str) -> object:
    """Import 'package.module:name', or say why not."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"import path: expected 'package.module:name', got {path!r}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"import path: {path!r} cannot be imported ({error})") from error
