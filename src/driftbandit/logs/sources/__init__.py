"""Where rows come from: one reader per format, and what all of them share."""

from driftbandit.logs.sources.base import Source
from driftbandit.logs.sources.opening import open_source, open_table

__all__ = ["Source", "open_source", "open_table"]
