"""What the paper says, what we find, and whether the claim holds: the table that ends a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from driftbandit.evaluation.results import Table

Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, our figures, and the verdict on it."""

    said: str
    found: str
    verdict: Verdict

    def as_dict(self) -> dict[str, str]:
        """Plain text, for JSON."""
        return asdict(self)


def judged(holds: bool, in_part: bool = False) -> Verdict:
    """The verdict of two conditions, the stricter one first.

    >>> judged(True), judged(False, True), judged(False)
    ('holds', 'holds in part', 'does not hold')
    """
    if holds:
        return "holds"
    return "holds in part" if in_part else "does not hold"


def verdict_table(claims: Sequence[Claim], note: str = "") -> Table:
    """All claims of a page with their verdicts."""
    cells = tuple((claim.said, claim.found, claim.verdict) for claim in claims)
    return Table("Verdict", ("the paper's claim", "what we find", "verdict"), cells, note, numbers=False)
