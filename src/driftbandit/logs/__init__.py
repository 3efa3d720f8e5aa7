"""Your own logs: what was offered, what was shown, with which probability, and the rewards.

Names are loaded on first use, because reading files needs pyarrow, which is slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from driftbandit.blemishes import Report
from driftbandit.logs.events import Events

if TYPE_CHECKING:
    from driftbandit.logs.catalogue import Catalogue
    from driftbandit.logs.decisions import Decisions
    from driftbandit.logs.log import DecisionLog, read_log
    from driftbandit.logs.writers import write_dsjson, write_obp, write_table

_HOMES = {
    "Catalogue": "catalogue",
    "DecisionLog": "log",
    "Decisions": "decisions",
    "read_log": "log",
    "write_dsjson": "writers",
    "write_obp": "writers",
    "write_table": "writers",
}

__all__ = [
    "Catalogue",
    "DecisionLog",
    "Decisions",
    "Events",
    "Report",
    "read_log",
    "write_dsjson",
    "write_obp",
    "write_table",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'driftbandit.logs' has no attribute {name!r}")
    return getattr(import_module(f"driftbandit.logs.{_HOMES[name]}"), name)
