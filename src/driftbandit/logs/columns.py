"""Which column means what: given by name, read from a TOML file, or found by itself."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from driftbandit.core import unknown_name

ROLES: dict[str, tuple[str, ...]] = {
    "time": ("time", "timestamp", "ts"),
    "scope": ("scope",),
    "decision": ("decision", "decision_id", "event_id", "eventid"),
    "arms": ("arms", "actions", "candidates", "pool"),
    "arm": ("arm", "arm_id", "action", "item", "item_id"),
    "propensity": ("propensity", "probability", "pscore"),
    "reward": ("reward", "click", "clicked"),
    "features": ("features",),
    "rewarded": ("rewarded", "rewarded_at", "reward_time", "reward_timestamp"),
}
"""What a column of a log can be, and the names by which it is found, the first before the others."""

ITEM_ROLES: dict[str, tuple[str, ...]] = {
    "id": ("id", "item_id", "arm_id", "item", "arm"),
    "from": ("from",),
    "until": ("until",),
}
"""The same for a table of items."""

INDEX = "__index_level_"
"""How columns begin that pandas adds for its index."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns that the user gave; those not given are found by themselves.

    Attributes
    ----------
    log : dict of str to str
        Name of the column for some of `ROLES`.
    items : dict of str to str
        Name of the column of the item table for some of `ITEM_ROLES`.
    ignore : tuple of str
        Columns that are not used at all. Whatever became known only after the decision belongs here.
    """

    log: Mapping[str, str] = field(default_factory=dict)
    items: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Columns | Mapping[str, Any] | str | os.PathLike[str] | None) -> Columns:
        """Check what a user gave: a mapping, the path of a TOML file of the same shape, or nothing.

        Examples
        --------
        >>> Columns.of({"reward": "bought", "ignore": ["refund"], "items": {"id": "sku"}})
        Columns(log={'reward': 'bought'}, items={'id': 'sku'}, ignore=('refund',))
        >>> Columns.of({"prize": "bought"})
        Traceback (most recent call last):
        ValueError: columns: unknown 'prize'; expected one of time, scope, decision, arms, arm, propensity, reward, features, rewarded, ignore, items
        """  # noqa: E501
        if given is None or isinstance(given, Columns):
            return given or cls()
        where = "columns"
        if isinstance(given, str | os.PathLike):
            where, given = str(given), _toml(given)
        if not isinstance(given, Mapping):
            raise ValueError(f"columns: expected a mapping or the path of a TOML file, got {type(given).__name__}")
        ignore = given.get("ignore", ())
        if isinstance(ignore, str) or not isinstance(ignore, Sequence) or not all(isinstance(n, str) for n in ignore):
            raise ValueError(f"{where}: expected a list of names for 'ignore', got {ignore!r}")
        items = given.get("items", {})
        if not isinstance(items, Mapping):
            raise ValueError(f"{where}: expected a mapping for 'items', got {items!r}")
        log = {role: name for role, name in given.items() if role not in ("ignore", "items")}
        _check(where, log, [*ROLES, "ignore", "items"])
        _check(f"{where}: items", items, list(ITEM_ROLES))
        return cls(log, dict(items), tuple(ignore))


def _toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file") from error
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not a TOML file ({error})") from error


def _check(title: str, names: Mapping[str, Any], known: Sequence[str]) -> None:
    for role, name in names.items():
        if role not in known:
            raise ValueError(unknown_name(title, role, known))
        if not isinstance(name, str):
            raise ValueError(f"{title}: expected the name of a column for {role!r}, got {name!r}")


def find(
    given: Mapping[str, str], names: Sequence[str], roles: Mapping[str, tuple[str, ...]], where: str
) -> dict[str, str]:
    """Name of the column for each role that has one; capital letters do not matter where a name is found by itself.

    Examples
    --------
    >>> find({"scope": "user"}, ["Time", "user", "action", "price"], ROLES, "clicks.csv")
    {'scope': 'user', 'time': 'Time', 'arm': 'action'}
    """
    found: dict[str, str] = {}
    for role, name in given.items():
        if name not in names:
            raise ValueError(f"{where}: no column {name!r} for {role}; the columns are {', '.join(map(repr, names))}")
        found[role] = name
    for role, aliases in roles.items():
        if role in found:
            continue
        matches = [name for name in names if name.lower() in aliases and name not in found.values()]
        best = [name for name in matches if name == role] or [name for name in matches if name.lower() == role]
        matches = best or matches
        if len(matches) > 1:
            raise ValueError(
                f"{where}: {' and '.join(map(repr, matches))} could all be the {role}; say which by columns"
            )
        if matches:
            found[role] = matches[0]
    return found
