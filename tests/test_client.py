"""The client of the decision service, against a service that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftbandit import Encoder
from driftbandit.client import Client, ServiceError
from driftbandit.features import Category, Flag


def test_the_client(tmp_path: Path) -> None:
    for package in ("msgspec", "apsw", "uvicorn"):
        pytest.importorskip(package, reason="needs driftbandit[serve]")
    from serving.live import live

    from driftbandit.serving.server import build_app

    with live(build_app(f"sqlite:{tmp_path / 'a.db'}", secure=False)) as url:
        ask_everything(url)


def ask_everything(url: str) -> None:
    client = Client(url, "a loop", timeout=10)
    client.put_loop({"policy": "ucb1"})
    choice = client.decide(["a", "b"], scope="ann", fallback="b")
    assert not choice.fallback
    assert client.reward(choice, 1.0) == "accepted"
    assert client.reward(choice, 1.0) == "duplicate"
    again = client.decide(["a", "b"], scope="ann", decision_id=choice.decision_id)
    assert again == choice
    with pytest.raises(ServiceError, match="409"):
        client.reward(choice, 0.0)
    with pytest.raises(ServiceError, match="422"):
        client.decide([])
    assert client.stats()["totals"]["decisions"] == 1
    assert client.changes() == []
    ask_by_name(Client(url, "songs", timeout=60))
    client.close()
    nobody = Client("http://127.0.0.1:9", "x", retries=1, timeout=0.5)
    lost = nobody.decide(["a", "b"], fallback="b")
    assert (lost.arm, lost.index, lost.fallback, lost.decision_id) == ("b", 1, True, None)
    assert nobody.reward(lost, 1.0) == "ignored"
    with pytest.raises(ServiceError):
        nobody.decide(["a"])
    with pytest.raises(ValueError, match="url"):
        Client("ftp://x", "x")


def ask_by_name(client: Client) -> None:
    encoder = Encoder([Flag("member")], [Category("genre", ["jazz", "metal"])])
    client.put_loop({"policy": "linucb", "encoder": encoder.to_json()})
    client.put_arms([{"id": "a", "features": {"genre": "jazz"}}, {"id": "b", "features": {"genre": "metal"}}])
    assert client.decide(["b"], context={"member": True}).arm == "b"
    assert client.decide([{"id": "c", "features": {}}], context={}).arm == "c"
    with pytest.raises(ServiceError, match="422: context: unknown column 'nobody'"):
        client.decide(context={"nobody": 1})
    client.close()
