"""Both applications of the measurement do what they are measured for."""

import asyncio
import re
from pathlib import Path

import pytest

pytest.importorskip("msgspec", reason="needs driftbandit[serve]")
pytest.importorskip("uvicorn", reason="needs driftbandit[serve]")
from driftbandit.benchmarks import asgi


def apps():
    pytest.importorskip("starlette", reason="needs driftbandit[bench]")
    table = asgi.paths()
    return asgi.ours(table), asgi.starlettes(table)


@pytest.mark.parametrize("case", asgi.CASES.values(), ids=asgi.CASES)
def test_both_answer_the_same(case):
    answers = []
    for app in apps():
        start, *rest = asyncio.run(asgi.ask(app, *case))
        headers = dict(start["headers"])
        answers.append((start["status"], headers[b"content-type"], b"".join(part["body"] for part in rest)))
    assert answers == [(200, b"application/json", asgi.ANSWER)] * 2


def test_both_know_the_same_paths():
    for app in apps():
        for path in ("/nothing", "/v1/loops/x/nothing"):
            assert asyncio.run(asgi.ask(app, "GET", path, b""))[0]["status"] == 404
        assert asyncio.run(asgi.ask(app, "GET", "/v1/loops/x/stats", b""))[0]["status"] == 200
        assert asyncio.run(asgi.ask(app, "DELETE", "/v1/loops/x/stats", b""))[0]["status"] == 405


def test_every_case_is_measured():
    apps()
    found = asgi.measure(requests=5, turns=1)
    assert list(found) == list(asgi.CASES)
    assert asgi.table({"x": (2e-6, 5e-6)}).cells == (("x", "2.0", "5.0", "2.5"),)


def test_the_documentation_shows_the_measurement():
    text = (Path(__file__).parents[2] / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert "python -m driftbandit.benchmarks.asgi" in text
    rows = re.findall(r"^\| (a constant.*?) \| [\d.]+ \| [\d.]+ \| [\d.]+ \|$", text, re.MULTILINE)
    assert rows == list(asgi.CASES)
