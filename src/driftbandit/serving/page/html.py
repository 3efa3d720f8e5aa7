"""The page's templates, with the filters that they use."""

from __future__ import annotations

from driftbandit.html import Templates
from driftbandit.serving.page.words import address, moment, number, percent, signed

render = Templates(__package__, address=address, moment=moment, number=number, percent=percent, signed=signed).render
"""Fill a template of the page."""
