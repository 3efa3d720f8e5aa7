"""The client of the decision service, against a service that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftbandit.client import Client, ServiceError


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
    client.close()
    nobody = Client("http://127.0.0.1:9", "x", retries=1, timeout=0.5)
    lost = nobody.decide(["a", "b"], fallback="b")
    assert (lost.arm, lost.index, lost.fallback, lost.decision_id) == ("b", 1, True, None)
    assert nobody.reward(lost, 1.0) == "ignored"
    with pytest.raises(ServiceError):
        nobody.decide(["a"])
    with pytest.raises(ValueError, match="url"):
        Client("ftp://x", "x")
