"""Files of an artefact: PNG, Markdown, JSON, and one HTML page that needs nothing else."""

import base64
import json
import re
from html.parser import HTMLParser

import hostile
import pytest
from matplotlib.figure import Figure

from driftbandit.evaluation.results import Table
from driftbandit.report import Artefact, page, publish

SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Reader(HTMLParser):
    """What a browser would see: tags, the text of tables, and every address that is not on the page itself."""

    def __init__(self):
        super().__init__()
        self.tags, self.addresses, self.cells, self.text = [], [], [], []
        self.tables = 0

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        found = [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.addresses += [value for value in found if not value.startswith("#")]
        if tag == "table":
            self.tables += 1
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        self.text.append(data)
        if self.tags and self.tags[-1] in ("td", "th") and self.cells and data.strip():
            self.cells[-1] += data


def read(html):
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def figure(height=1.0):
    drawn = Figure(figsize=(2.0, 1.0))
    drawn.subplots().plot([0.0, height])
    return drawn


def artefact(**overrides):
    facts = {
        "name": "thing",
        "title": "A thing",
        "text": ["First paragraph.", "Second paragraph."],
        "tables": [
            Table("Numbers", ("policy", "regret"), (("dLinUCB", "61.2 ± 4.3"), ("LinUCB", "380 ± 37")), "A note."),
            Table("Words", ("name", "what"), (("a", "b"),), numbers=False),
        ],
        "figures": {"curve": figure(), "other": figure(2.0)},
        "data": {"rows": [1, 2.5, None, "x"]},
    }
    return Artefact(**{**facts, **overrides})


def test_every_file_is_written_and_named(tmp_path):
    files = publish(artefact(), tmp_path / "new" / "folder")
    names = ["curve.png", "other.png", "thing.md", "thing.json", "thing.html"]
    assert [path.name for path in files] == names
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(names)


def test_pictures_are_png(tmp_path):
    publish(artefact(), tmp_path)
    for name in ("curve", "other"):
        content = (tmp_path / f"{name}.png").read_bytes()
        assert content.startswith(SIGNATURE)
        assert content.rstrip().endswith(b"IEND\xaeB`\x82"), "whole"
        width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
        assert (width, height) == (260, 130), "2 x 1 inches at 130 dots"


def test_the_same_artefact_is_the_same_files(tmp_path):
    for folder in ("one", "two"):
        publish(artefact(), tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_json_is_the_data(tmp_path):
    publish(artefact(), tmp_path)
    assert json.loads((tmp_path / "thing.json").read_text()) == {"rows": [1, 2.5, None, "x"]}


def test_markdown_has_title_text_and_tables(tmp_path):
    publish(artefact(), tmp_path)
    lines = (tmp_path / "thing.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# A thing"
    assert "First paragraph." in lines
    assert "| dLinUCB | 61.2 ± 4.3 |" in lines
    assert "|---|---:|" in lines
    assert "## Words" in lines
    assert "A note." in lines
    # A table starts a block of its own, or Markdown does not see it.
    assert lines[lines.index("| policy | regret |") - 1] == ""


def test_the_page_needs_nothing_else(tmp_path):
    publish(artefact(), tmp_path)
    html = (tmp_path / "thing.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|//[a-z]+\.", html.replace("data:image/png;base64,", ""))
    reader = read(html)
    assert len(reader.addresses) == 2
    assert all(address.startswith("data:image/png;base64,") for address in reader.addresses)
    assert {"script", "link", "iframe", "object"}.isdisjoint(reader.tags)
    assert "@import" not in html
    assert "url(" not in html


def test_the_page_holds_the_pictures_of_the_folder(tmp_path):
    publish(artefact(), tmp_path)
    reader = read((tmp_path / "thing.html").read_text(encoding="utf-8"))
    for name, address in zip(("curve", "other"), reader.addresses, strict=True):
        content = base64.b64decode(address.removeprefix("data:image/png;base64,"), validate=True)
        assert content.startswith(SIGNATURE)
        assert content == (tmp_path / f"{name}.png").read_bytes()


def test_the_page_has_the_tables():
    reader = read(page("Title", [artefact()]))
    assert reader.tables == 2
    expected = ["policy", "regret", "dLinUCB", "61.2 ± 4.3", "LinUCB", "380 ± 37", "name", "what", "a", "b"]
    assert reader.cells == expected
    text = "".join(reader.text)
    for words in ("Title", "First paragraph.", "Second paragraph.", "Numbers", "Words", "A note."):
        assert words in text


def test_the_page_is_whole_and_says_its_encoding():
    html = page("Tïtle ± µ", [artefact()])
    assert html.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in html
    assert html.rstrip().endswith("</html>")
    assert "<title>Tïtle ± µ</title>" in html


NASTY = '<script>alert("x")</script> & {title} %s \'"><img src=x>'


def test_html_in_words_is_shown_not_obeyed():
    table = Table(NASTY, (NASTY, "regret"), ((NASTY, "1"),), NASTY)
    html = page(NASTY, [artefact(title=NASTY, text=[NASTY], tables=[table], figures={NASTY: figure()})] * 2)
    reader = read(html)
    assert "script" not in reader.tags
    assert reader.tags.count("img") == 2, "only our own pictures"
    assert all(address.startswith("data:image/png;base64,") for address in reader.addresses)
    assert reader.cells[0] == NASTY, "and nothing is lost"
    assert "".join(reader.text).count(NASTY) >= 10


def everything_named(name):
    """A report in which everything that can be named has this name."""
    table = Table(name, (name, "regret"), ((name, "1"), ("x", name)), name)
    words = Table(name, (name, name), ((name, name),), name, numbers=False)
    part = artefact(name=name, title=name, text=[name, name], tables=[table, words], figures={name: PICTURE})
    return hostile.read(page(name, [part]) + page(name, [part, part], {name: name}))


PICTURE = figure()


@pytest.mark.parametrize("name", hostile.HOSTILE)
def test_names_are_shown_not_obeyed(name):
    assert everything_named(name) == hostile.renamed(everything_named(hostile.PLAIN), name)


def test_several_artefacts_on_one_page():
    html = page("All", [artefact(title="One thing"), artefact(title="Another thing")])
    reader = read(html)
    assert reader.tables == 4
    assert len(reader.addresses) == 4
    assert "One thing" in "".join(reader.text)
    assert "Another thing" in "".join(reader.text)


def test_several_artefacts_have_contents_and_what_is_missing_is_said():
    parts = [artefact(name="one"), artefact(name="two")]
    html = page("All", parts, {"figure9": "no data in <nowhere>"})
    for name in ("one", "two"):
        assert html.count(f'href="#{name}"') == html.count(f'id="{name}"') == 1
    assert "Left out: figure9 (no data in &lt;nowhere&gt;)." in html
    assert "Left out" not in page("All", parts)


def test_an_artefact_of_nothing_but_a_title(tmp_path):
    files = publish(Artefact("bare", "Bare"), tmp_path)
    assert [path.name for path in files] == ["bare.md", "bare.json", "bare.html"]
    assert (tmp_path / "bare.md").read_text().strip() == "# Bare"
    assert json.loads((tmp_path / "bare.json").read_text()) == {}


def test_publishing_again_replaces(tmp_path):
    publish(artefact(), tmp_path)
    publish(artefact(data={"rows": []}), tmp_path)
    assert json.loads((tmp_path / "thing.json").read_text()) == {"rows": []}


def test_a_file_in_the_way_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "out").write_text("here first")
    with pytest.raises(OSError, match="out"):
        publish(artefact(), tmp_path / "out")
    assert (tmp_path / "out").read_text() == "here first"


def test_a_figure_is_drawn_once_however_often_it_is_shown(tmp_path, monkeypatch):
    figure, drawn = Figure(), []
    save = figure.savefig
    monkeypatch.setattr(figure, "savefig", lambda *given, **options: drawn.append(1) or save(*given, **options))
    artefact = Artefact("a", "A", figures={"a": figure})
    publish(artefact, tmp_path)
    assert base64.b64encode((tmp_path / "a.png").read_bytes()).decode() in page("All", [artefact])
    assert len(drawn) == 1
