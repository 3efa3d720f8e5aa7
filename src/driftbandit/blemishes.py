"""What a reader found: rows, decisions, and every row with a blemish, by kind and place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

EXAMPLES = 5
"""Places kept per kind of blemish."""


@dataclass
class Report:
    """What a reader found.

    Attributes
    ----------
    lines, events : int
        Lines (or rows) seen, and events kept: `lines` is `events` plus all that was skipped.
    skipped : dict of str to int
        How many rows were left out, by kind of blemish. A row with several blemishes counts once.
    noted : dict of str to int
        How many rows were kept although something about them is odd.
    examples : dict of str to list of (str, int)
        File and line number of the first few rows of each kind.

    Examples
    --------
    >>> report = Report(lines=3, events=2)
    >>> report.skip("propensity above 1", "clicks.csv", [2])
    >>> print(report)
    3 lines, 2 events
    skipped: propensity above 1: 1 (clicks.csv:2)
    """

    lines: int = 0
    events: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def skip(self, kind: str, file: str, lines: Iterable[int], count: int | None = None) -> None:
        """Count rows that are left out; `count` says how many there are if `lines` names only the first of them."""
        self._count(self.skipped, kind, file, lines, count)

    def note(self, kind: str, file: str, lines: Iterable[int], count: int | None = None) -> None:
        """Count rows that are kept although something is odd."""
        self._count(self.noted, kind, file, lines, count)

    def _count(self, where: dict[str, int], kind: str, file: str, lines: Iterable[int], count: int | None) -> None:
        lines = lines if count is not None else list(lines)
        size = len(lines) if count is None else count  # type: ignore[arg-type]
        if size:
            where[kind] = where.get(kind, 0) + size
            examples = self.examples.setdefault(kind, [])
            examples += [(file, int(line)) for line in islice(lines, EXAMPLES - len(examples))]

    def __str__(self) -> str:
        rows = [f"{self.lines:,} lines, {self.events:,} events"]
        for title, counts in (("skipped", self.skipped), ("kept", self.noted)):
            for kind, count in counts.items():
                places = [f"{file}:{line}" for file, line in self.examples[kind]]
                more = ["..."] if count > len(places) else []
                rows.append(f"{title}: {kind}: {count:,} ({', '.join(places + more)})")
        return "\n".join(rows)

    def to_json(self) -> dict[str, Any]:
        """Everything as dictionaries, lists, strings and numbers.

        >>> Report(1, 1).to_json()
        {'lines': 1, 'events': 1, 'skipped': [], 'noted': []}
        """

        def listed(counts: dict[str, int]) -> list[dict[str, Any]]:
            return [
                {
                    "kind": kind,
                    "count": count,
                    "examples": [{"file": file, "line": line} for file, line in self.examples[kind]],
                }
                for kind, count in counts.items()
            ]

        return {
            "lines": self.lines,
            "events": self.events,
            "skipped": listed(self.skipped),
            "noted": listed(self.noted),
        }
