"""What a command leaves behind: tables and figures, as files and as one page that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbandit.evaluation.results import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 130

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ font-size: 1.6rem; }} h2 {{ font-size: 1.2rem; margin-top: 2.2rem; }}
h3 {{ font-size: 1.05rem; margin-top: 2rem; }}
.artefact {{ font-size: 1.4rem; margin-top: 3.5rem; padding-top: 1rem; border-top: 2px solid #8886; }}
p {{ max-width: 48rem; }} p:has(img) {{ max-width: none; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.92rem; }}
th, td {{ padding: 0.3rem 0.8rem; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }}
th:first-child, td:first-child, .words th, .words td {{ text-align: left; }}
td:first-child {{ white-space: pre; }}
img {{ max-width: 100%; height: auto; background: white; border-radius: 4px; }}
.words td:last-child {{ white-space: normal; }}
.note {{ color: #777; font-size: 0.9rem; }}
.left-out {{ border-left: 4px solid #D55E00; padding-left: 0.8rem; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


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
    figures : dict of str to Figure
        By name; the first one is the picture of the artefact.
    data : dict
        What `--json` prints and the JSON file holds.
    """

    name: str
    title: str
    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: dict[str, Figure] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)


def publish(artefact: Artefact, out: str | os.PathLike[str]) -> list[Path]:
    """Write tables (Markdown, JSON), figures (PNG) and the page (HTML) into a folder; returns the files."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, figure in artefact.figures.items():
        files.append(folder / f"{name}.png")
        files[-1].write_bytes(_png(figure))
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
    """One self-contained HTML page with all of them.

    Parameters
    ----------
    title : str
        Heading of the page.
    artefacts : sequence of Artefact
        Several get headings of their own and a list of contents.
    left_out : mapping, optional
        What is missing, by name, and why.
    """
    body = [f"<h1>{html.escape(title)}</h1>"]
    several = len(artefacts) > 1
    if several:
        links = "\n".join(f'<li><a href="#{html.escape(a.name)}">{html.escape(a.title)}</a></li>' for a in artefacts)
        body.append(f"<ul>\n{links}\n</ul>")
    for name, reason in (left_out or {}).items():
        body.append(f'<p class="left-out">Left out: {html.escape(name)} ({html.escape(reason)}).</p>')
    for artefact in artefacts:
        if several:
            body.append(f'<h2 class="artefact" id="{html.escape(artefact.name)}">{html.escape(artefact.title)}</h2>')
        body += [f"<p>{html.escape(paragraph)}</p>" for paragraph in artefact.text]
        for name, figure in artefact.figures.items():
            data = base64.b64encode(_png(figure)).decode()
            body.append(f'<p><img alt="{html.escape(name)}" src="data:image/png;base64,{data}"></p>')
        body += [_html_table(table, "h3" if several else "h2") for table in artefact.tables]
    return _PAGE.format(title=html.escape(title), body="\n".join(body))


def _html_table(table: Table, heading: str) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    rows = "\n".join(cells("td", row) for row in table.cells)
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    title = f"<{heading}>{html.escape(table.title)}</{heading}>"
    kind = "numbers" if table.numbers else "words"
    body = f'<table class="{kind}">\n{cells("th", table.headings)}\n{rows}\n</table>'
    return f'{title}\n<div class="scroll">{body}</div>\n{note}'


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    # No software or date stamp: the same figure is the same file.
    figure.savefig(buffer, format="png", dpi=_DPI, metadata={"Software": None})
    return buffer.getvalue()
