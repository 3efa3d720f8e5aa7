"""The policies of the registry in words: what `driftbandit policies` shows."""

from __future__ import annotations

from driftbandit.policies.registry import REGISTRY


def listing() -> dict[str, dict[str, str]]:
    """Title, one-line summary and what it is told, of every policy by name.

    >>> listing()["linucb"]["title"]
    'LinUCB'
    """
    return {
        name: {"title": entry.title, "summary": entry.summary, "told": entry.told} for name, entry in REGISTRY.items()
    }
