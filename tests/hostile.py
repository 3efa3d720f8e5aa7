"""Names that would be obeyed rather than shown where somebody forgot to escape, and how a browser reads HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import quote_plus

PLAIN = "Qplain7Q"
"""A name without anything to escape, that stands nowhere else."""

HOSTILE = (
    "<script>alert(1)</script>",
    "</script></style></title></svg><img src=x onerror=alert(1)>",
    "\"><b>'",
    "' onmouseover='alert(1)",
    "& &amp; &lt;b&gt; &#60;",
    "]]> <![CDATA[ <!-- -->",
    "two\nlines\tand \\ more",
    "{{ 7 * 7 }} {% raw %} {# no #} %s {0}",
    "javascript:alert(1)",
    "ü ☃ \u2028 \u202e",
)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[object, ...]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(("tag", tag, *attrs))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(("end", tag))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "text":
            data = f"{self.found.pop()[1]}{data}"
        self.found.append(("text", data))

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", data))

    def unknown_decl(self, data: str) -> None:
        self.found.append(("declaration", data))


def read(html: str) -> list[tuple[object, ...]]:
    """Tags with their attributes, and text, as a browser would see them."""
    reader = _Reader()
    reader.feed(str(html))
    reader.close()
    return reader.found


def renamed(found: list[tuple[object, ...]], name: str) -> list[tuple[object, ...]]:
    """What was read, with `PLAIN` replaced by another name: in addresses as their query writes it."""

    def change(part: object) -> object:
        if isinstance(part, str):
            return part.replace(PLAIN, name)
        if isinstance(part, tuple) and part[1] is not None:  # an attribute with a value
            key, value = part
            return key, value.replace(PLAIN, quote_plus(name) if value.startswith("/?") else name)
        return part

    return [tuple(change(part) for part in item) for item in found]
