"""The page's templates, with the filters that they use."""

from __future__ import annotations

from driftbandit.serving.page.words import address, moment, number, percent, signed
from driftbandit.templates import Templates

render = Templates(__package__, address=address, moment=moment, number=number, percent=percent, signed=signed).render
"""Fill a template of the page."""
