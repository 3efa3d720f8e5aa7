"""The page, in a real browser."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from driftbandit.serving.api.keys import create_key
from driftbandit.serving.server import build_app
from driftbandit.serving.stores.sqlite import SQLiteStore

from ..live import live, play

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
HOSTILE = '<img src=x onerror="alert(1)"> & "co" ../ü'

_names = itertools.count()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'driftbandit[dev]'")
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}, from Debian's package chromium")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS, timeout=120_000)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Any]:
    """Opens pages, and says at the end whether the browser complained about any."""
    complaints: list[str] = []
    contexts = []

    def open_one(address: str, width: int = 1280, scheme: str = "light", *, expect: str = "#live.on") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        context.set_default_timeout(120_000)  # how long a busy machine takes is not what is tested
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"{request.url}: {request.failure}"))
        page.on(
            "request", lambda request: None if address.partition("/?")[0] in request.url else complaints.append("out")
        )
        page.goto(address)
        page.wait_for_selector(expect)
        return page

    open_one.complaints = complaints  # type: ignore[attr-defined]
    yield open_one
    # Streams that end because a page closes are no failures of the page.
    assert [text for text in complaints if "/live" not in text and "ERR_ABORTED" not in text] == []
    for context in contexts:
        context.close()


def make_loop(http: httpx.Client, **config: Any) -> str:
    name = f"loop {next(_names)}"
    settings = {"dim": 3, "learn": "arrival"} | config
    assert http.put(f"/v1/loops/{name}", json=settings).status_code == 201
    return name


def close_a_window(http: httpx.Client, path: str) -> None:
    """Let a reward be counted, which needs a closed window; the windows before stay open, however slow the machine."""
    known = http.get(path).json()
    settings = known["config"] | {"window": 0.0, "default_reward": 0.0, "version": known["version"]}
    assert http.put(path, json=settings).status_code == 200
    arms = [{"id": "a", "features": [0.0, 0.0, 0.0]}]
    assert http.post(f"{path}/decisions", json={"arms": arms}).status_code == 201


def path_of(name: str) -> str:
    return str(httpx.URL("/", params={"loop": name}))


def fits(page: Any) -> bool:
    """Whether nothing sticks out on the right."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_a_change_appears_without_reload(http: httpx.Client, url: str, open_page: Any) -> None:
    name = make_loop(http, feature_names=["sports", "politics", "music"])
    assert http.get(f"/v1/loops/{name}").json()["config"]["policy"] == "driftucb"
    play(http, f"/v1/loops/{name}", 200, 1000, seed=1)
    page = open_page(url + path_of(name))
    page.evaluate("window.sameDocument = true")
    assert page.locator("#history li").count() == 0
    assert page.locator("#reward .change").count() == 0
    assert "No change" in page.inner_text("#moved")
    play(http, f"/v1/loops/{name}", 300, 0, seed=2)  # a taste that is the opposite from the first round on
    close_a_window(http, f"/v1/loops/{name}")
    page.wait_for_selector("#history li.restarted")
    page.wait_for_selector("#reward .change", state="attached")
    assert page.evaluate("window.sameDocument") is True
    changes = http.get(f"/v1/loops/{name}/changes").json()["changes"]
    assert page.locator("#history li").count() == len(changes) == 1
    assert page.locator("#lanes .lane").count() == 2
    # All weights changed their sign, the first most: 0.6 to -0.6.
    page.wait_for_function("document.querySelector('#moved tr th').textContent === 'sports'")
    before, after = re.findall(r"[+-]\d\.\d+", page.inner_text("#moved tr:first-of-type .num"))
    assert (float(before), float(after)) == (pytest.approx(0.6, abs=0.05), pytest.approx(-0.6, abs=0.05))
    assert "sports" in page.inner_text("#moved h3")
    assert page.inner_text("#tiles div:nth-child(3) b") == "1"


def test_members_and_their_miss_rates(http: httpx.Client, url: str, open_page: Any) -> None:
    name = make_loop(http, policy="dlinucb", settings={"noise": 0.1})
    play(http, f"/v1/loops/{name}", 800, 400)
    page = open_page(url + path_of(name))
    shared = http.get(f"/v1/loops/{name}/scopes").json()["shared"]
    changes = http.get(f"/v1/loops/{name}/changes").json()["changes"]
    spawned = sum(change["kind"] == "spawned" for change in changes)
    assert spawned >= 1
    assert page.locator("#lanes .lane").count() == 1 + spawned
    assert page.locator("#lanes .lane.gone").count() == sum(change["kind"] == "retired" for change in changes)
    assert page.locator("#lanes .lane.leads").count() == 1
    assert page.locator("#misses .bullets .spawn-bound").count() == len(shared["members"])
    assert page.locator("#misses .bullets .retire-bound").count() == len(shared["members"])
    assert page.locator("#history li").count() == len(changes)
    rates = [bucket["miss_rate"] for bucket in http.get(f"/v1/loops/{name}/stats").json()["series"]]
    assert any(rate is not None for rate in rates)


def test_clicks_are_not_judged_by_misses(http: httpx.Client, url: str, open_page: Any) -> None:
    name = make_loop(http, policy="dlinucb", dim=2)
    arms = [{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]
    rng = random.Random(0)
    for number in range(12):
        batch = [{"decision_id": f"{number}-{i}", "arms": arms} for i in range(100)]
        decisions = http.post(f"/v1/loops/{name}/decisions:batch", json={"decisions": batch}).json()["results"]
        rewards = []
        for decision in (result["decision"] for result in decisions):
            rate = 0.9 if (decision["index"] == 0) == (number < 6) else 0.1
            rewards.append({"decision_id": decision["decision_id"], "value": float(rng.random() < rate)})
        http.post(f"/v1/loops/{name}/rewards:batch", json={"rewards": rewards})
    shared = http.get(f"/v1/loops/{name}/scopes").json()["shared"]
    assert shared["judges_clicks"] is True
    page = open_page(url + path_of(name))
    assert "no misses to count" in page.inner_text("#misses")
    assert page.locator("#misses svg").count() == 0
    assert re.search(r"log-likelihood ratio of its latest clicks, [\d.]+, passed 6.9", page.inner_text("#history"))


@pytest.mark.parametrize("width", WIDTHS)
def test_labels_of_values_stand_beside_the_charts(http: httpx.Client, url: str, open_page: Any, width: int) -> None:
    name = make_loop(http)
    play(http, f"/v1/loops/{name}", 300, 1000, seed=5)
    close_a_window(http, f"/v1/loops/{name}")
    page = open_page(url + path_of(name), width)
    for drawn in ("#reward .line", "#pace .bar"):  # a decision may count in an earlier bucket than its reward
        page.wait_for_selector(drawn, state="attached")
    for section, shapes in (("reward", ".area, .line"), ("pace", ".bar")):
        edge = """([section, shapes]) => {
            const labels = [...document.querySelectorAll(`#${section} .tick[text-anchor=end]`)];
            const drawn = [...document.querySelectorAll(shapes.split(', ').map(s => `#${section} ${s}`).join())];
            const card = document.getElementById(section).getBoundingClientRect();
            return [labels.length, Math.min(...labels.map(e => e.getBoundingClientRect().left)) - card.left,
                    Math.min(...drawn.map(e => e.getBoundingClientRect().left))
                    - Math.max(...labels.map(e => e.getBoundingClientRect().right))];
        }"""
        labels, inside, apart = page.evaluate(edge, [section, shapes])
        assert labels >= 2
        assert inside >= 0
        assert apart > 0


def test_the_most_changed_scopes(http: httpx.Client, url: str, open_page: Any) -> None:
    name = make_loop(http, dim=1, scoped=True)
    arms = [{"id": "a", "features": [1.0]}, {"id": "b", "features": [2.0]}]
    for scope, taste in [("calm", 0.4)] * 200 + [(HOSTILE, 0.4)] * 100 + [(HOSTILE, -0.4)] * 100:
        decision = http.post(f"/v1/loops/{name}/decisions", json={"scope": scope, "arms": arms}).json()
        value = taste * (1 + decision["index"])
        body = {"value": value, "scope": scope}
        assert http.post(f"/v1/loops/{name}/decisions/{decision['decision_id']}/reward", json=body).status_code == 200
    page = open_page(url + path_of(name))
    assert page.locator("#scopes tbody tr").count() == 1
    assert page.inner_text("#scopes tbody th") == HOSTILE
    page.click("#scopes tbody a")
    page.wait_for_selector("#live.on")
    assert page.inner_text("#lanes h2") == f"Models of {HOSTILE}"
    assert page.locator("#lanes .lane").count() == 2
    calm = open_page(url + path_of(name) + "&scope=calm")
    assert calm.locator("#lanes .lane").count() == 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_follows_the_colour_scheme(
    http: httpx.Client, url: str, open_page: Any, width: int, scheme: str
) -> None:
    name, quoted = HOSTILE, quote(HOSTILE, safe="")
    if http.get(f"/v1/loops/{quoted}").status_code == 404:
        config = {"dim": 3, "learn": "arrival", "window": 0.1, "feature_names": [name, "n" * 200, "x"]}
        http.put(f"/v1/loops/{quoted}", json=config)
        play(http, f"/v1/loops/{quoted}", 400, 200, seed=3)
    for address in ("/", path_of(name), path_of(name) + "&span=day"):
        page = open_page(url + address, width, scheme)
        assert fits(page), address
        assert name in page.inner_text("main")
        ground, ink = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
        )
        brightness = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)]
        assert (brightness[0] > brightness[1]) == (scheme == "light")
        assert abs(brightness[0] - brightness[1]) > 400
    small = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.children.length === 0 && e.textContent.trim() "
        "&& e.getClientRects().length && parseFloat(getComputedStyle(e).fontSize) < 12).map(e => e.outerHTML)"
    )
    assert small == []


def test_without_loops_and_with_unknown_ones(tmp_path: Path, browser: Any, open_page: Any) -> None:
    with live(build_app(f"sqlite:{tmp_path / 'a.db'}", secure=False)) as empty:
        assert "no loops yet" in open_page(empty).inner_text("main")
        for query, status in (("loop=nope", 404), ("loop=nope&span=year", 422), ("span=year", 422)):
            for path in ("/", "/live"):
                answer = httpx.get(f"{empty}{path}?{query}")
                assert answer.status_code == status
                assert answer.headers["content-type"] == "text/html; charset=utf-8"
                assert "default-src 'self'" in answer.headers["content-security-policy"]
        httpx.put(f"{empty}/v1/loops/quiet", json={"policy": "ucb1"}, timeout=180)
        page = open_page(empty + "/?loop=quiet")
        assert "Nothing yet" in page.inner_text("#reward")


def test_signing_in(tmp_path: Path, open_page: Any) -> None:
    path = tmp_path / "a.db"
    store = SQLiteStore(path, writer=False)
    secrets = {role: create_key(store, role, role) for role in ("decide", "read", "admin")}
    with live(build_app(f"sqlite:{path}")) as url, httpx.Client(base_url=url, timeout=180) as client:
        admin = {"authorization": f"Bearer {secrets['admin'][1]}"}
        assert client.put("/v1/loops/x", json={"policy": "ucb1"}, headers=admin).status_code == 201
        page = open_page(url + "/?loop=x", expect="form.sign-in")
        assert "ucb1" not in page.content().lower()
        for key, text in (("nonsense", "No such key"), (secrets["decide"][1], "may not look")):
            page.fill("input[name=key]", key)
            page.click(".sign-in button")
            page.wait_for_function("text => document.body.textContent.includes(text)", arg=text)
        page.fill("input[name=key]", secrets["read"][1])
        page.click(".sign-in button")
        page.wait_for_selector("#live.on")
        assert page.inner_text("h1").startswith("x")  # back where one wanted to go
        assert page.evaluate("document.cookie") == ""
        away = client.post("/login", data={"key": secrets["read"][1], "back": "loop=x&evil=//elsewhere"})
        assert (away.status_code, away.headers["location"]) == (303, "/?loop=x")
        assert "HttpOnly; SameSite=Lax" in away.headers["set-cookie"]
        page.click("header button")
        page.wait_for_selector("form.sign-in")
        store.revoke_key(secrets["read"][0].id, 1)
        deadline = time.monotonic() + 20
        dead = {"cookie": away.headers["set-cookie"].partition(";")[0]}
        while client.get("/", headers=dead).status_code != 401:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # What the browser says about the answers 401 and 403 is no complaint about the page.
        refused = [text for text in open_page.complaints if "status of 40" in text]
        open_page.complaints[:] = [text for text in open_page.complaints if text not in refused]
