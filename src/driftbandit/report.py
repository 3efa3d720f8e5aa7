"""What a command writes: tables and figures as files, and all of them on one HTML page that needs no other file."""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from driftbandit.evaluation.results import Table
from driftbandit.html import Templates

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 130


@dataclass
class Artefact:
    """A table or figure of the paper, or a comparison, ready to be written.

    Attributes
    ----------
    name : str
        Stem of the files.
    title : str
        Heading of the page.
    text : list of str
        Paragraphs under the heading.
    tables : list of Table
        Shown in order.
    figures : dict of str to Figure or bytes
        Figures by name, or PNG files that were drawn before; the first one is the picture of the artefact.
    data : dict
        What `--json` prints and the JSON file holds.
    """

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: Mapping[str, Figure | bytes] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


def publish(artefact: Artefact, out: str | os.PathLike[str]) -> list[Path]:
    """Write tables (Markdown, JSON), figures (PNG) and the page (HTML) into a folder; returns the files."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, figure in artefact.figures.items():
        files.append(folder / f"{name}.png")
        files[-1].write_bytes(png(figure))
    parts = [f"## {table.title}\n\n{table.markdown()}\n\n{table.note}\n" for table in artefact.tables]
    markdown = f"# {artefact.title}\n\n" + "\n\n".join([*artefact.text, *parts]).rstrip() + "\n"
    for suffix, content in (
        ("md", markdown),
        ("json", json.dumps(artefact.data, indent=2) + "\n"),
        ("html", page(artefact.title, [artefact])),
    ):
        files.append(folder / f"{artefact.name}.{suffix}")
        files[-1].write_text(content, encoding="utf-8")
    return files


def page(title: str, artefacts: Sequence[Artefact], left_out: Mapping[str, str] | None = None) -> str:
    """One HTML page that shows all artefacts and needs no other file.

    Parameters
    ----------
    title : str
        Heading of the page.
    artefacts : sequence of Artefact
        Several get headings of their own and a list of contents.
    left_out : mapping, optional
        What is missing, by name, and why.
    """
    return str(_templates.render("report.html", title=title, artefacts=artefacts, left_out=left_out or {}))


_drawn: WeakKeyDictionary[Figure, bytes] = WeakKeyDictionary()
"""Figures that were drawn already. Each goes into a file, its own page and the page of all, and drawing is slow."""


def png(figure: Figure | bytes) -> bytes:
    """The figure as a file; figures of an artefact are not changed after they were handed over."""
    if isinstance(figure, bytes):
        return figure
    if figure not in _drawn:
        buffer = io.BytesIO()
        # No software or date stamp: the same figure is the same file.
        figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
        _drawn[figure] = buffer.getvalue()
    return _drawn[figure]


def _base64_png(figure: Figure | bytes) -> str:
    return base64.b64encode(png(figure)).decode()


_templates = Templates("driftbandit", base64_png=_base64_png)
