"""What a policy's file says about the policy: its name, what it must be told, and how it is built.

Every file of a policy ends with ``ENTRIES``, a tuple of `Entry`. The registry collects them, which puts the policy into
``driftbandit policies``, `compare`, the arena and the service.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from driftbandit.core import Policy


@dataclass(frozen=True, slots=True)
class Brief:
    """What a policy may be told about the world it is built for."""

    dim: int
    noise: float
    reward_range: tuple[float, float] = (0.0, 1.0)
    shifts: Sequence[int] = ()
    seed: int = 0


Builder = Callable[[Brief], Policy]
Settings = Callable[[Brief], dict[str, Any]]

_KINDS: dict[str, tuple[type, ...]] = {
    "dim": (int,),
    "noise": (int, float),
    "reward_range": (tuple,),
    "shifts": (tuple, list),
    "seed": (int,),
}
"""Fields of a `Brief`, in words."""

_WORDS = {"noise": "noise", "reward_range": "reward range", "shifts": "the true shifts"}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")  # commands take names in lower case, separated by commas
_LAST = 1_000_000


def from_brief(*names: str, **constants: Any) -> Settings:
    """Return a function that takes these fields of a `Brief`, and these constants, as settings.

    >>> from_brief("dim", "seed", window=50)(Brief(dim=3, noise=0.1))
    {'dim': 3, 'seed': 0, 'window': 50}
    """
    return partial(_from_brief, names, constants)


def _from_brief(names: Sequence[str], constants: Mapping[str, Any], brief: Brief) -> dict[str, Any]:
    settings = {name: getattr(brief, name) for name in names}
    settings.update(constants)
    return settings


def noise_as_width(*names: str, **constants: Any) -> Settings:
    """Like `from_brief`, for a linear policy that is told the noise and explores with it as its width.

    The papers' radii explore too much; in the simulated worlds the noise itself does well as a width.

    >>> noise_as_width(window=50)(Brief(dim=3, noise=0.1))
    {'dim': 3, 'noise': 0.1, 'ridge': 0.1, 'window': 50, 'explore': 0.1}
    """
    return partial(_noise_as_width, from_brief("dim", "noise", *names, ridge=0.1, **constants))


def _noise_as_width(settings: Settings, brief: Brief) -> dict[str, Any]:
    return {**settings(brief), "explore": brief.noise}


def strength(brief: Brief, name: str) -> dict[str, Any]:
    """Ridge and exploration of a linear policy: what Bayes' rule asks for if the noise is known, or constants.

    >>> strength(Brief(dim=10, noise=0.1), ".3")
    {'ridge': 0.1, 'explore': 0.3}
    """
    known = {"ridge": max(brief.dim * brief.noise**2, 1e-6), "explore": brief.noise}
    return {
        "noise": known,
        "half": {**known, "explore": 0.5 * brief.noise},
        ".3": {"ridge": 0.1, "explore": 0.3},
        ".1": {"ridge": 0.1, "explore": 0.1},
        "1/.5": {"ridge": 1.0, "explore": 0.5},
    }[name]


def with_strength(brief: Brief, /, **values: Any) -> dict[str, Any]:
    """Values of a grid as settings, where ``strength`` stands for a ridge and an exploration; see `strength`."""
    return {**strength(brief, values.pop("strength")), **values}


def _as_they_are(brief: Brief, /, **values: Any) -> dict[str, Any]:
    return values


@dataclass(frozen=True, slots=True)
class Variants:
    """A policy under other settings, which the arena plays besides the policy itself.

    Attributes
    ----------
    name, title : str
        What the arena calls it.
    grid : mapping of str to sequence
        Values to try for every setting. Of several combinations, the arena plays the one that does best on other seeds.
    settings : callable
        Makes settings from a `Brief` and one value per setting; by default the values are the settings.
    place : int
        Where it stands among all variants, as in `Entry`.
    """

    name: str
    title: str
    grid: Mapping[str, Sequence[Any]]
    settings: Callable[..., dict[str, Any]] = _as_they_are
    place: int = _LAST

    def __post_init__(self) -> None:
        _check_name(self.name)

    def builders(self, entry: Entry) -> dict[str, Builder]:
        """Builders of all combinations by label: the values, or nothing if there is only one combination."""
        combinations = list(itertools.product(*self.grid.values()))
        return {
            " ".join(str(value) for value in values) if len(combinations) > 1 else "": partial(
                _build_variant, entry, self.settings, dict(zip(self.grid, values, strict=True))
            )
            for values in combinations
        }


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"name: expected lower-case letters, digits, dots, dashes and underscores, got {name!r}")


def _build_variant(
    entry: Entry, settings: Callable[..., dict[str, Any]], values: dict[str, Any], brief: Brief
) -> Policy:
    return entry.build(brief, **settings(brief, **values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A policy of the registry. Entries are sent between processes, so they hold functions and classes, not lambdas.

    Attributes
    ----------
    name : str
        What commands, `compare` and the service call it.
    title : str
        Its name in tables and plots.
    summary : str
        One line about it.
    policy : callable
        Its class.
    settings : callable
        Makes the class's keywords from a `Brief`; see `from_brief`.
    told : tuple of str
        Fields of the `Brief` that it must know beyond ``dim`` and ``seed``. A policy that is told the ``shifts`` is a
        reference: it does not compete in the arena, and the service cannot use it.
    page : str
        Where the policy is described: a page in docs/policies, without ``.md``, or a URL.
    place : int
        Position in lists. Lower numbers come first, equal numbers are sorted by name; without a number the policy comes
        last.
    contextual : bool
        False for a policy that knows arms by their ids alone.
    scoped : bool
        True for a policy whose `choose` and `learn` take a ``scope``.
    untold : mapping of str to object
        Settings to use if the noise is unknown, as in the service.
    variants : tuple of Variants
        Other settings of the policy that the arena plays.

    Examples
    --------
    >>> from driftbandit import LinUCB
    >>> entry = Entry(
    ...     name="timid",
    ...     title="Timid",
    ...     summary="LinUCB that hardly explores",
    ...     policy=LinUCB,
    ...     settings=from_brief("dim", explore=0.01),
    ... )
    >>> policy = entry.build(Brief(dim=3, noise=0.1), ridge=1.0)
    """

    name: str
    title: str
    summary: str
    policy: Callable[..., Any]
    settings: Settings
    told: tuple[str, ...] = ()
    page: str = ""
    place: int = _LAST
    contextual: bool = True
    scoped: bool = False
    untold: Mapping[str, Any] = field(default_factory=dict)
    variants: tuple[Variants, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not isinstance(self.told, tuple) or not set(self.told) <= set(_WORDS):
            raise ValueError(f"told: expected a tuple of some of {', '.join(_WORDS)}, got {self.told!r}")

    def build(self, brief: Brief, /, **overrides: Any) -> Policy:
        """Make the policy for a `Brief`; `overrides` replace the entry's own settings.

        An override of a field of the brief, such as the noise, changes the brief first, so that settings computed from
        that field change too. A value that a brief cannot hold, such as ``noise='auto'``, goes to the constructor only.
        """
        if overrides:
            known = {name: value for name, value in overrides.items() if isinstance(value, _KINDS.get(name, ()))}
            brief = replace(brief, **cast(dict[str, Any], known))
        return cast(Policy, self.policy(**{**self.settings(brief), **overrides}))

    @property
    def knows_shifts(self) -> bool:
        """Whether the policy is told the true shifts, which are known in simulated worlds only."""
        return "shifts" in self.told

    @property
    def served(self) -> bool:
        """Whether the service can use the policy: it must neither be told the shifts nor keep its own scopes."""
        return not (self.knows_shifts or self.scoped)

    @property
    def told_in_words(self) -> str:
        """What the policy must be told, in words: 'noise, reward range', or 'nothing'."""
        return ", ".join([_WORDS[name] for name in self.told] + ["scope"] * self.scoped) or "nothing"
