"""Policies by the names that people type: those of the registry, and their own by import path."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from driftbandit.core import Policy, unknown_name
from driftbandit.policies.registry import REGISTRY, Brief, Builder

_FORMS = "'package.module:function' or 'name=package.module:function'"


def builders_of(names: Sequence[str]) -> dict[str, Builder]:
    """Builders by name, for policies that run on a log.

    Parameters
    ----------
    names : sequence of str
        Names from the registry, or import paths of your own builders as in `own_builders`.

    Raises
    ------
    ValueError
        If a name is unknown, comes twice, or belongs to a policy that must be told the true shifts.

    Examples
    --------
    >>> list(builders_of(["linucb", "mine=driftbandit.policies.linear.lints:LinTS"]))
    ['linucb', 'mine']
    """
    typed = [name.lower() for name in names if ":" not in name]
    known = [name for name, entry in REGISTRY.items() if not entry.knows_shifts]
    for name in typed:
        if name in REGISTRY and name not in known:
            raise ValueError(f"policies: {name!r} is told the true shifts, which a log does not know")
    if unknown := [name for name in typed if name not in known]:
        raise ValueError(unknown_name("policies", unknown, known) + f", or {_FORMS}")
    own = own_builders([name for name in names if ":" in name])
    found = {**{name: REGISTRY[name].build for name in typed}, **own}
    if not found:
        raise ValueError("policies: expected at least one, got none")
    # In the order in which they were typed.
    return {name: found[name] for name in (typed_name(text) for text in names)}


def typed_name(text: str) -> str:
    """What a policy is called: a name of the registry, the name before '=', or that of the function.

    >>> typed_name("LinUCB"), typed_name("shop.bandits:eager"), typed_name("mine=shop.bandits:eager")
    ('linucb', 'eager', 'mine')
    """
    name, equals, _ = text.partition("=")
    if equals:
        return name.strip()
    return text.rpartition(":")[2].strip() if ":" in text else text.lower()


def own_builders(texts: Iterable[str], taken: Iterable[str] = ()) -> dict[str, Builder]:
    """Import builders of your own.

    Parameters
    ----------
    texts : iterable of str
        'package.module:function', which is then called after the function, or 'name=package.module:function'. The
        function makes a policy from a `Brief`.
    taken : iterable of str
        Names that are not free, besides those of the registry.

    Examples
    --------
    >>> own_builders(["mine=nowhere:build"])
    Traceback (most recent call last):
    ValueError: import path: 'nowhere:build' cannot be imported (No module named 'nowhere')
    """
    taken = {*REGISTRY, *taken}
    found: dict[str, Builder] = {}
    for text in texts:
        name, path = typed_name(text), text.partition("=")[2] if "=" in text else text
        if not name:
            raise ValueError(f"policy: expected {_FORMS}, got {text!r}")
        build = imported(path.strip())
        if not callable(build):
            raise ValueError(f"policy: {path!r} is no function that builds a policy")
        if name in taken or name in found:
            raise ValueError(f"policy: there is already one called {name!r}; call yours NAME={path}")
        found[name] = cast(Builder, build)
    return found


def imported(path: str) -> object:
    """Import 'package.module:name', or raise ValueError saying why it cannot be imported."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"import path: expected 'package.module:name', got {path!r}")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, SyntaxError, TypeError) as error:
        raise ValueError(f"import path: {path!r} cannot be imported ({error})") from error


def build_policies(builders: Mapping[str, Builder], brief: Brief) -> dict[str, Policy]:
    """Fresh policies by name; each draws from a generator of its own, seeded by the brief's seed and its name.

    Raises
    ------
    ValueError
        If a builder fails on the brief, or does not make a policy; the message names it.

    Examples
    --------
    >>> build_policies(builders_of(["linucb"]), Brief(dim=3, noise=0.1))["linucb"].dim
    3
    """
    return {name: build_policy(name, build, brief) for name, build in builders.items()}


def build_policy(name: str, build: Builder, brief: Brief) -> Policy:
    """One of `build_policies`; what is no complaint about the brief is raised as it is."""
    own = replace(brief, seed=zlib.crc32(f"{name}/{brief.seed}".encode()))
    try:
        policy = build(own)
    except (ValueError, TypeError) as error:
        raise ValueError(f"policies: the builder of {name!r} failed on a Brief: {error}") from error
    if not isinstance(policy, Policy):  # a scoped policy has the same two methods
        raise ValueError(f"policies: the builder of {name!r} made {policy!r}, which is no policy")
    return policy
