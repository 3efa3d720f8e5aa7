"""The example of a proxy in deploy/, with a real nginx in front of a real service."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPSConnection
from pathlib import Path

import httpx
import pytest

from driftbandit.serving.api.connections import Door
from driftbandit.serving.api.keys import create_key
from driftbandit.serving.server import build_app, open_store

from .live import free_port, live, problem

EXAMPLE = Path(__file__).parents[2] / "deploy" / "nginx.conf"
PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
FEW = 3

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs nginx (Debian: apt-get install nginx)")


def put_in(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def site(service: str, secure: int, plain: int, certificate: tuple[Path, Path]) -> str:
    """The example, with the test's own ports and certificate, and few requests at once."""
    text = put_in(EXAMPLE.read_text(), "server 127.0.0.1:8080;", f"server {service.removeprefix('http://')};")
    text = put_in(text, "listen 443 ssl", f"listen 127.0.0.1:{secure} ssl")
    text = put_in(text, "listen 80;", f"listen 127.0.0.1:{plain};")
    text = put_in(text, "/etc/ssl/bandit.example/fullchain.pem", str(certificate[0]))
    text = put_in(text, "/etc/ssl/bandit.example/privkey.pem", str(certificate[1]))
    return put_in(text, "limit_conn driftbandit_clients 100;", f"limit_conn driftbandit_clients {FEW};")


def main(folder: Path, site: str) -> str:
    """What Debian's own nginx.conf would say around it, without folders that belong to root."""
    paths = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{name}_temp_path {folder / name};\n" for name in paths)
    user = "user root;\n" if os.geteuid() == 0 else ""
    return (
        f"{user}daemon off;\npid {folder / 'pid'};\nerror_log {folder / 'errors'};\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{site}}}\n"
    )


class Proxy:
    """Where the proxy listens without TLS, a key, a client with TLS and that key, and what it trusts."""

    def __init__(self, plain: str, secret: str, http: httpx.Client, trusting: ssl.SSLContext) -> None:
        self.plain, self.secret, self.http, self.trusting = plain, secret, http, trusting


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("nginx")
    address = f"sqlite:{folder / 'a.db'}"
    store = open_store(address, writer=False)
    secret = create_key(store, "me", "admin")[1]
    store.close()
    with live(build_app(address), door=Door(1000, 10.0)) as service:
        secure, plain = free_port(), free_port()
        config = folder / "nginx.conf"
        config.write_text(main(folder, site(service, secure, plain, certificate)))
        assert PROGRAM is not None
        command = [PROGRAM, "-p", str(folder), "-c", str(config), "-e", str(folder / "errors")]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                trusting = ssl.create_default_context(cafile=str(certificate[0]))
                headers = {"authorization": f"Bearer {secret}"}
                url = f"https://127.0.0.1:{secure}"
                with httpx.Client(base_url=url, verify=trusting, headers=headers, timeout=60) as http:
                    wait_for(process, http)
                    assert http.put("/v1/loops/x", json={"policy": "ucb1"}).status_code == 201
                    yield Proxy(f"http://127.0.0.1:{plain}", secret, http, trusting)
            finally:
                process.terminate()
                _, complained = process.communicate(timeout=30)
    assert complained == ""


def wait_for(process: subprocess.Popen[str], http: httpx.Client) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            assert http.get("/readyz").status_code == 200
        except httpx.ConnectError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        else:
            return


def test_decisions_and_rewards_with_any_id(proxy: Proxy) -> None:
    for ident in ("a", "a/b?c#d", "ü %2F", "..", "a//b"):
        answer = proxy.http.post("/v1/loops/x/decisions", json={"decision_id": ident, "arms": ["a", "b"]})
        assert answer.status_code == 201
        raw = "".join(f"%{byte:02X}" for byte in ident.encode())
        answer = proxy.http.post(f"/v1/loops/x/decisions/{raw}/reward", json={"value": 1})
        assert (answer.status_code, answer.json()) == (200, {"status": "accepted"}), ident


def test_request_ids_and_keys_pass(proxy: Proxy) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    answer = proxy.http.get("/v1/loops", headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    assert answer.headers["x-request-id"] == trace
    problem(proxy.http.get("/v1/loops", headers={"authorization": "Bearer wrong"}), 401)


def test_without_tls_clients_are_sent_to_tls(proxy: Proxy) -> None:
    answer = httpx.get(proxy.plain + "/v1/loops?x=1")
    assert (answer.status_code, answer.headers["location"]) == (308, "https://127.0.0.1/v1/loops?x=1")


def test_an_event_stream_is_passed_on_at_once(proxy: Proxy) -> None:
    with proxy.http.stream("GET", "/v1/loops/x/stream", timeout=10) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("event:")) == "event: stats"
        assert next(line for line in lines if line.startswith(":")) == ": still here"  # nothing else happened


def test_a_person_signs_in_to_the_page(proxy: Proxy) -> None:
    with httpx.Client(base_url=proxy.http.base_url, verify=proxy.trusting) as browser:
        form = {"key": proxy.secret}
        assert browser.post("/login", data=form, headers={"origin": "https://evil.example"}).status_code == 403
        assert browser.get("/").status_code == 401
        own = str(proxy.http.base_url).rstrip("/")
        answer = browser.post("/login", data=form, headers={"origin": own})
        assert answer.status_code == 303
        assert "; Secure" in answer.headers["set-cookie"]
        assert browser.get("/").status_code == 200


def test_limits(proxy: Proxy) -> None:
    body = b"[" + b" " * (2 << 20) + b"]"
    problem(proxy.http.post("/v1/loops/x/decisions", content=body), 413)  # the service's own limit
    url = proxy.http.base_url
    connection = HTTPSConnection(url.host, url.port, context=proxy.trusting, timeout=30)
    connection.request("POST", "/v1/loops/x/decisions", headers={"content-length": str((64 << 20) + 1)})
    answer = connection.getresponse()
    assert answer.status == 413
    assert str(answer.headers["server"]).startswith("nginx"), "refused before it is sent"
    connection.close()
    with ExitStack() as stack:
        for _ in range(FEW):
            stream = stack.enter_context(proxy.http.stream("GET", "/v1/loops/x/stream"))
            assert stream.status_code == 200
        assert proxy.http.get("/healthz").status_code == 429
