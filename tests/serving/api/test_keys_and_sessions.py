"""Keys that end, are for some loops or have a rate of their own; sessions of the page; two keys at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from driftbandit.serving.api.app import App
from driftbandit.serving.api.keys import create_key
from driftbandit.serving.server import build_app, open_store
from driftbandit.serving.stores.base import Store

from ..live import live, problem

Give = Callable[..., dict[str, str]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Store]]:
    address = f"sqlite:{tmp_path_factory.mktemp('keys') / 'a.db'}"
    opened = open_store(address, writer=False)
    yield address, opened
    opened.close()


@pytest.fixture(scope="module")
def app(store: tuple[str, Store]) -> App:
    return build_app(store[0])


@pytest.fixture(scope="module")
def client(app: App, store: tuple[str, Store]) -> Iterator[httpx.Client]:
    admin = header(create_key(store[1], "me", "admin")[1])
    with live(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        for loop in ("news", "shop"):
            assert client.put(f"/v1/loops/{loop}", json={"policy": "ucb1"}, headers=admin).status_code == 201
        yield client


@pytest.fixture
def give(store: tuple[str, Store], client: httpx.Client, app: App) -> Give:
    """Makes a key that the service knows at once."""

    def give(role: str, **limits: object) -> dict[str, str]:
        made = header(create_key(store[1], "x", role, **limits)[1])  # type: ignore[arg-type]
        look_again(app, store[1])
        return made

    return give


def look_again(app: App, store: Store) -> None:
    """Have the service read its keys now, instead of within a second."""
    keyring = app._admission._keyring()
    assert keyring is not None
    keyring.refresh(store)


def header(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def wait_for(client: httpx.Client, key: dict[str, str], status: int = 401, *, is_so: bool = False) -> None:
    """Wait until a key is not, or is, answered with a status."""
    deadline = time.monotonic() + 20
    while (client.get("/v1/loops", headers=key).status_code == status) != is_so:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_key_is_for_its_loops_on_every_route(client: httpx.Client, give: Give, app: App) -> None:
    key = give("admin", loops=["news"])
    tried = 0
    for route in app.routes:
        if "{loop}" not in route.path:
            continue
        path = route.path.replace("{id}", "d")
        with client.stream(route.method, path.replace("{loop}", "shop"), headers=key) as answer:
            assert answer.status_code == 403, route.path
            answer.read()
            assert answer.json()["detail"] == "the given key is not for loop 'shop'"
        if (route.method, route.path) != ("DELETE", "/v1/loops/{loop}"):  # it would succeed
            with client.stream(route.method, path.replace("{loop}", "news"), headers=key) as answer:
                assert answer.status_code != 403, route.path
        tried += 1
    assert tried >= 13
    assert [loop["loop"] for loop in client.get("/v1/loops", headers=key).json()["loops"]] == ["news"]
    assert "all loops" in problem(client.get("/metrics", headers=key), 403)
    assert client.get("/?loop=shop", headers=key).status_code == 403
    assert client.get("/live?loop=shop", headers=key).status_code == 403
    assert client.get("/?loop=news", headers=key).status_code == 200
    overview = client.get("/", headers=key).text
    assert "loop=news" in overview
    assert "shop" not in overview
    assert "loop=shop" in client.get("/", headers=give("read")).text, "what one key may see is not drawn for another"


def test_a_key_ends_in_time(client: httpx.Client, give: Give) -> None:
    key = give("read", seconds=0.5)
    assert client.get("/v1/loops", headers=key).status_code == 200
    wait_for(client, key, is_so=True)
    assert "it was ended" in problem(client.get("/v1/loops", headers=key), 401)


def test_two_keys_at_once_and_no_gap_when_one_goes(client: httpx.Client, give: Give, store: tuple[str, Store]) -> None:
    """Rotation: the new key works before the old one is revoked, so that no request is refused in between."""
    row, secret = create_key(store[1], "website", "read")
    old, new = header(secret), give("read")
    for key in (old, new):
        assert client.get("/v1/loops", headers=key).status_code == 200
    store[1].revoke_key(row.id, 1)
    deadline = time.monotonic() + 20
    while client.get("/v1/loops", headers=old).status_code == 200:
        assert client.get("/v1/loops", headers=new).status_code == 200
        assert time.monotonic() < deadline
    assert client.get("/v1/loops", headers=new).status_code == 200


def test_a_rate_of_its_own_and_what_a_batch_costs(client: httpx.Client, give: Give) -> None:
    key = give("decide", rate=50.0)
    path = "/v1/loops/news/decisions:batch"
    body = {"decisions": [{"arms": ["a", "b"]}] * 1000}
    assert client.post(path, json=body, headers=key).status_code == 200
    answer = client.post(path, json=body, headers=key)
    assert "more than 50 requests a second" in problem(answer, 429)
    assert 15 <= int(answer.headers["retry-after"]) <= 20, "1,000 tokens, of which a second brings 50"
    rewards = {"rewards": [{"decision_id": "d", "value": 1}] * 100}
    other = give("decide", rate=20.0)
    assert client.post("/v1/loops/news/rewards:batch", json=rewards, headers=other).status_code == 200
    problem(client.post("/v1/loops/news/decisions", json={"arms": ["a"]}, headers=other), 429)


# ---- sessions -------------------------------------------------------------------------------------------------------


def sign_in(client: httpx.Client, key: dict[str, str], **headers: str) -> str:
    """The cookie of a new session."""
    answer = client.post("/login", data={"key": key["authorization"].split()[1]}, headers=headers)
    assert answer.status_code == 303, answer.text
    return answer.headers["set-cookie"]


def test_a_session_is_not_the_key_and_opens_the_page_only(client: httpx.Client, give: Give) -> None:
    key = give("admin")
    cookie = sign_in(client, key)
    token = cookie.partition("=")[2].partition(";")[0]
    assert token not in key["authorization"]
    assert cookie == f"driftbandit_session={token}; Path=/; Max-Age=43200; HttpOnly; SameSite=Lax"
    assert sign_in(client, key) != cookie
    headers = {"cookie": f"driftbandit_session={token}"}
    assert client.get("/", headers=headers).status_code == 200
    assert client.get("/v1/loops", headers=headers).status_code == 401
    assert client.get("/v1/loops", headers=header(token)).status_code == 401
    assert client.put("/v1/loops/new", json={"policy": "ucb1"}, headers=headers).status_code == 401
    out = client.post("/logout", headers=headers)
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert client.get("/", headers=headers).status_code == 401, "it is over also where the cookie was copied"
    for wrong in ("", "x", "é", key["authorization"].split()[1]):
        assert client.get("/", headers={"cookie": f"driftbandit_session={wrong}".encode()}).status_code == 401


def test_a_session_ends_with_its_key_or_its_time(
    client: httpx.Client, give: Give, store: tuple[str, Store], app: App
) -> None:
    row, secret = create_key(store[1], "x", "read")
    look_again(app, store[1])
    session = {"cookie": sign_in(client, header(secret)).partition(";")[0]}
    assert client.get("/", headers=session).status_code == 200
    store[1].revoke_key(row.id, 1)
    look_again(app, store[1])
    assert client.get("/", headers=session).status_code == 401
    old = {"cookie": sign_in(client, give("read")).partition(";")[0]}
    now = int(time.time() * 1000)
    store[1].add_session(b"other", "nobody", now + 99_000, now + 12 * 3_600_000 + 1000)  # as if that time had come
    assert client.get("/", headers=old).status_code == 401


def test_a_session_is_for_the_loops_of_its_key(client: httpx.Client, give: Give) -> None:
    session = {"cookie": sign_in(client, give("read", loops=["shop"])).partition(";")[0]}
    assert client.get("/?loop=shop", headers=session).status_code == 200
    assert client.get("/?loop=news", headers=session).status_code == 403


def test_a_session_is_known_to_every_process(client: httpx.Client, give: Give, database: str) -> None:
    opened = open_store(database, writer=False)
    key = header(create_key(opened, "x", "read")[1])
    opened.close()
    with live(build_app(database)) as one, live(build_app(database)) as two:
        with httpx.Client(base_url=one) as first:
            cookie = {"cookie": sign_in(first, key).partition(";")[0]}
        assert httpx.get(two, headers=cookie).status_code == 200
        httpx.post(f"{two}/logout", headers=cookie)
        assert httpx.get(one, headers=cookie).status_code == 401


def test_over_tls_the_cookie_says_so(client: httpx.Client, give: Give) -> None:
    assert sign_in(client, give("read"), **{"x-forwarded-proto": "https"}).endswith("; SameSite=Lax; Secure")


def test_another_site_can_neither_sign_in_nor_out(client: httpx.Client, give: Give) -> None:
    key = give("admin")
    foreign = {"origin": "http://evil.example"}
    assert client.post("/login", data={"key": key["authorization"].split()[1]}, headers=foreign).status_code == 403
    assert client.post("/logout", headers=foreign).status_code == 403
    problem(client.put("/v1/loops/new", json={"policy": "ucb1"}, headers=key | foreign), 403)
    assert client.get("/v1/loops", headers=key | foreign).status_code == 200


def test_keys_of_older_stores(tmp_path: Path) -> None:
    import apsw

    path = tmp_path / "a.db"
    open_store(f"sqlite:{path}", writer=False).close()
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE sessions; ALTER TABLE keys DROP COLUMN expires; ALTER TABLE keys DROP COLUMN loops")
    db.execute("ALTER TABLE keys DROP COLUMN rate; INSERT INTO keys VALUES ('k', 'old', 'read', x'00', 5, NULL)")
    db.close()
    opened = open_store(f"sqlite:{path}", writer=False)
    (row,) = opened.access_keys()
    assert (row.id, row.expires, row.loops, row.rate) == ("k", None, None, None)
    made, _ = create_key(opened, "new", "decide", seconds=60.0, loops=["a,b"], rate=0.5)
    assert opened.access_keys()[-1] == made
    opened.close()


def test_keys_of_older_postgresql_stores(database: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    open_store(database).close()
    with psycopg.connect(database, autocommit=True) as db:
        db.execute("DROP TABLE sessions; ALTER TABLE keys DROP COLUMN expires, DROP COLUMN loops, DROP COLUMN rate")
        db.execute("INSERT INTO keys VALUES ('k', 'old', 'read', '\\x00', 5, NULL)")
    opened = open_store(database, writer=False, create=False)
    made, _ = create_key(opened, "new", "decide", seconds=60.0, loops=["a"], rate=0.5)
    assert [row.expires for row in opened.access_keys()] == [None, made.expires]
    opened.close()
