"""The policies of the registry in words: what `driftbandit policies` shows."""

from __future__ import annotations

from driftbandit.policies.registry import REGISTRY


def listing() -> dict[str, dict[str, str]]:
    """Every policy by name: its title, one-line summary, what it must be told, and its page.

    >>> listing()["linucb"]["title"]
    'LinUCB'
    """
    return {
        name: {"title": entry.title, "summary": entry.summary, "told": entry.told_in_words, "page": entry.page}
        for name, entry in REGISTRY.items()
    }
