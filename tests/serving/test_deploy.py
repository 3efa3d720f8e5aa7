"""The files in deploy/, as far as they can be checked without a machine to deploy to."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.main import get_command

from driftbandit.cli import app
from driftbandit.serving.api.connections import Door
from driftbandit.serving.server import build_app

from .live import live

DEPLOY = Path(__file__).parents[2] / "deploy"


def commands() -> dict[str, list[str]]:
    """The commands that the files start."""
    unit = re.search(r"^ExecStart=(.*)$", (DEPLOY / "driftbandit.service").read_text(), re.MULTILINE)
    image = re.search(r"^ENTRYPOINT (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert unit is not None
    assert image is not None
    return {"unit": shlex.split(unit[1]), "image": json.loads(image[1])}


@pytest.mark.parametrize("which", ["unit", "image"])
def test_the_command_is_understood(which: str) -> None:
    program, name, *options = commands()[which]
    assert Path(program).name == "driftbandit"
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    context = command.make_context(name, options)  # which parses, and runs nothing
    assert context.params["store"].startswith("sqlite:/")
    assert not context.params["insecure_local"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "driftbandit.service"
    text = (DEPLOY / "driftbandit.service").read_text()
    unit.write_text(text.replace(commands()["unit"][0], "/bin/true"))  # it wants the program to be there
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


# ---- What watches it ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, str]]]:
    """What /metrics of a service that was used has: the labels of every sample, by its name."""
    app = build_app(f"sqlite:{tmp_path_factory.mktemp('watched') / 'a.db'}", secure=False)
    samples: dict[str, list[dict[str, str]]] = {}
    with live(app, door=Door()) as url, httpx.Client(base_url=url, timeout=60) as client:
        client.put("/v1/loops/x", json={"policy": "random"})
        for number in ("1", "2"):
            client.post("/v1/loops/x/decisions", json={"decision_id": number, "arms": ["a", "b"]})
            client.post(f"/v1/loops/x/decisions/{number}/reward", json={"value": 1.0})
        for family in text_string_to_metric_families(client.get("/metrics").text):
            for sample in family.samples:
                samples.setdefault(sample.name, []).append(sample.labels)
    return samples


def alerts() -> list[str]:
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("page", "warn", "info")
        assert rule["annotations"]["summary"]
    return [rule["expr"] for rule in group["rules"]]


def panels() -> list[str]:
    board = json.loads((DEPLOY / "dashboard.json").read_text())
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)
    queries = [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    return queries + [target["expr"] for panel in board["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("which", [alerts, panels])
def test_every_metric_that_is_watched_is_there(
    found: dict[str, list[dict[str, str]]], which: Callable[[], list[str]]
) -> None:
    """With the labels, and the values of labels, by which it is chosen."""
    named = set()
    for expression in which():
        assert [expression.count(bracket) for bracket in "([{"] == [expression.count(bracket) for bracket in ")]}"]
        chosen = re.findall(r"\b(driftbandit_\w+)(\{(?:[^\"}]|\"[^\"]*\")*\})?", expression)
        for name, labels in chosen:
            named.add(name)
            assert name in found, expression
            for label, value in re.findall(r"(\w+)=\"([^\"]*)\"", labels):
                wanted = {"status": "200"}.get(label, value)  # this service has answered nothing else
                assert any(sample.get(label) == wanted for sample in found[name]), (name, label, value)
            for label in re.findall(r"(\w+)=~", labels):
                assert label == "instance" or all(label in sample for sample in found[name]), (name, label)
        for group in re.findall(r"by \(([\w, ]+)\)", expression):
            known = {"instance"}.union(*(sample for name, _ in chosen for sample in found[name]))
            assert set(group.split(", ")) <= known, expression
    assert len(named) > 10


def test_the_dashboard_shows_everything(found: dict[str, list[dict[str, str]]]) -> None:
    shown = " ".join(panels())
    missing = {name for name in found if name not in shown and not name.endswith(("_sum", "_count"))}
    assert missing == {"driftbandit_clock_steps_total"}  # the alerts have it
