"""Many scopes at once: one policy per scope in flat arrays, on all cores or on a GPU."""

from driftbandit.batch.checks import NotLearned
from driftbandit.batch.many_scopes import ManyScopes

__all__ = ["ManyScopes", "NotLearned"]
