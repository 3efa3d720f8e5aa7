"""Your own logs: what was offered, what was shown, with which probability, and the rewards."""

from driftbandit.logs.events import Events

__all__ = ["Events"]
