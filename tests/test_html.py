"""Templates escape what they are given, and nothing goes around them."""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from jinja2 import TemplateAssertionError, UndefinedError
from markupsafe import Markup

import driftbandit
from driftbandit.html import Templates

PACKAGE = Path(driftbandit.__file__).parent
TEMPLATES = sorted(PACKAGE.rglob("templates/*.html"))
SOURCES = sorted(PACKAGE.rglob("*.py"))

MAKES_MARKUP = {
    "html.py": 1,  # what an escaping template made
    "serving/page/svg.py": 2,  # an element of which everything is escaped, with and without children
}
"""Where text becomes markup that is not escaped again, and how often. Each place is tested with hostile names."""

HOSTILE = "<script>\"'&]]>\n{{ 1 }}</script>"


@pytest.fixture
def templates(tmp_path, monkeypatch):
    """Makes the templates of a package with one template in it."""

    def make(source, **filters):
        package = tmp_path / "own_package"
        (package / "templates").mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "templates" / "a.html").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "own_package", raising=False)
        return Templates("own_package", **filters)

    return make


def test_text_and_attributes_are_escaped(templates):
    found = templates('<p title="{{ text }}">{{ text }}</p>').render("a.html", text=HOSTILE)
    escaped = "&lt;script&gt;&#34;&#39;&amp;]]&gt;\n{{ 1 }}&lt;/script&gt;"
    assert found == f'<p title="{escaped}">{escaped}</p>'


def test_what_a_template_made_is_not_escaped_again(templates):
    made = templates("<b>{{ text }}</b>{{ more }}")
    inner = made.render("a.html", text="&", more="")
    assert isinstance(inner, Markup)
    assert made.render("a.html", text="x", more=inner) == "<b>x</b><b>&amp;</b>"
    assert made.render("a.html", text="x", more=f"{inner}") == "<b>x</b>&lt;b&gt;&amp;amp;&lt;/b&gt;", "text is text"


def test_filters_return_text(templates):
    assert templates("{{ 1 | cry }}", cry=lambda value: f"<{value}>").render("a.html") == "&lt;1&gt;"


def test_no_value_can_be_declared_safe(templates):
    with pytest.raises(TemplateAssertionError, match="safe"):
        templates("{{ text | safe }}").render("a.html", text="<b>")


def test_a_missing_value_is_an_error(templates):
    with pytest.raises(UndefinedError, match="text"):
        templates("{{ text }}").render("a.html")


def test_there_are_templates():
    assert {"report.html", "loop.html", "history.html"} <= {path.name for path in TEMPLATES}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_goes_around_escaping(path):
    source = path.read_text(encoding="utf-8")
    assert "autoescape" not in source
    assert not re.search(r"\|\s*safe\b", source)
    assert "Markup" not in source
    assert not re.search(r"=\s*(\{\{|\{%)", re.sub(r"\{%.*?%\}", "", source)), "attributes stand in quotes"
    for inside in re.findall(r"<(script|style)\b[^>]*>(.*?)</\1>", source, re.DOTALL):
        assert "{{" not in inside[1], "scripts and styles escape otherwise"


def parsed(path):
    """The code of a file without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                child.value.value = None
    return tree


def test_markup_is_made_in_few_places_only():
    found = Counter()
    for path in SOURCES:
        for node in ast.walk(parsed(path)):
            name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", None)))
            assert name not in ("__html__", "HtmlSafe"), path
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) == "Markup":
                raise AssertionError(f"{path}: Markup.{node.attr}")
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Markup" and node.args:
                found[str(path.relative_to(PACKAGE))] += 1
    assert found == MAKES_MARKUP


def test_no_other_code_writes_html():
    """Tags stand in templates. Only `svg.tag` opens one in code, and for that its name is a variable."""
    tag = re.compile(
        r"</?(html|body|div|p|h[1-6]|table|tr|t[dh]|[uo]l|li|span|a|b|img|svg|path|text|script|style)\b[ >/]"
    )
    for path in SOURCES:
        tree = parsed(path)
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        assert [text for text in texts if isinstance(text, str) and tag.search(text)] == [], path
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = [getattr(node, "module", None) for node in imports] + [a.name for node in imports for a in node.names]
        assert "html" not in names, f"{path} escapes by hand"
