"""A small client of the decision service, on the standard library alone.

Decisions carry an id that the client makes, so a request whose answer was lost can be sent again: the service gives the
same answer and learns a reward once. Where the service cannot be reached, `decide` falls back to an arm of your choice.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

_TRY_AGAIN = frozenset({429, 502, 503, 504})


class ServiceError(Exception):
    """The service refused a request; `status` and `detail` say why. Status 0 means that it could not be reached."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}" if status else detail)
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Choice:
    """What the service decided.

    Attributes
    ----------
    decision_id : str or None
        What `reward` needs; None for a fallback, which the service does not know about.
    arm, index : str, int
        The arm to play, and its position in the pool.
    propensity : float
        The probability with which it was drawn.
    fallback : bool
        Whether the service could not be reached in time.
    scope : str or None
        Whose model decided; helps several service processes to find the decision when its reward comes.
    """

    decision_id: str | None
    arm: str
    index: int
    propensity: float
    fallback: bool = False
    scope: str | None = None


class Client:
    """Talks to one loop of a service; threads may share it.

    Parameters
    ----------
    url : str
        Address of the service, such as ``http://127.0.0.1:8080``.
    loop : str
        Name of the loop.
    key : str, optional
        Access key.
    timeout : float
        Seconds to wait for one answer.
    retries : int
        How often to try again if that can help.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:9", "news", retries=0, timeout=0.5)
    >>> client.decide(["a", "b"], fallback="b")
    Choice(decision_id=None, arm='b', index=1, propensity=1.0, fallback=True, scope=None)
    """

    def __init__(self, url: str, loop: str, *, key: str | None = None, timeout: float = 1.0, retries: int = 3) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: expected http://HOST:PORT, got {url!r}")
        self._base = parts
        self._path = f"{parts.path.rstrip('/')}/v1/loops/{quote(loop, safe='')}"
        self._headers = {"content-type": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        self.timeout = timeout
        self.retries = retries
        self._local = threading.local()

    def decide(
        self,
        arms: Sequence[str] | Sequence[dict[str, Any]] | None = None,
        *,
        context: dict[str, Any] | None = None,
        scope: str | None = None,
        decision_id: str | None = None,
        fallback: str | None = None,
    ) -> Choice:
        """Ask for an arm.

        Parameters
        ----------
        arms : sequence, optional
            Ids from the catalogue, or ``{"id": ..., "features": [...]}``; without any, the whole catalogue. In a loop
            with an encoder, features are dictionaries.
        context : dict, optional
            Who is asking, by column, for a loop with an encoder.
        scope : str, optional
            Whose model decides.
        decision_id : str, optional
            Your own id for the decision; by default the client makes one.
        fallback : str, optional
            Arm to play if the service cannot be reached; without a fallback, ServiceError is raised.
        """
        body: dict[str, Any] = {"decision_id": decision_id or str(uuid.uuid4())}
        if context is not None:
            body["context"] = context
        if scope is not None:
            body["scope"] = scope
        if arms is not None:
            body["arms"] = list(arms)
        try:
            answer = self._call("POST", "/decisions", body)
        except ServiceError as error:
            if fallback is None or (error.status and error.status not in _TRY_AGAIN):
                raise
            ids = [arm if isinstance(arm, str) else arm["id"] for arm in arms or [fallback]]
            place = ids.index(fallback) if fallback in ids else -1
            return Choice(None, fallback, place, 1.0, fallback=True, scope=scope)
        return Choice(answer["decision_id"], answer["arm"], answer["index"], answer["propensity"], scope=scope)

    def reward(self, choice: Choice | str, value: float, *, scope: str | None = None) -> str:
        """Report a reward: 'accepted', 'duplicate', 'late' (the window has closed) or, after a fallback, 'ignored'.

        The id of the decision is enough if one process serves; if several share a scoped loop, give the scope too.
        """
        if isinstance(choice, Choice):
            ident, scope = choice.decision_id, scope or choice.scope
        else:
            ident = choice
        if ident is None:
            return "ignored"
        body: dict[str, Any] = {"value": value}
        if scope is not None:
            body["scope"] = scope
        try:
            status: str = self._call("POST", f"/decisions/{quote(ident, safe='')}/reward", body)["status"]
        except ServiceError as error:
            if error.status == http.client.GONE:
                return "late"
            raise
        return status

    def put_loop(self, config: dict[str, Any]) -> dict[str, Any]:
        """Create or change the loop."""
        return self._call("PUT", "", config)

    def put_arms(self, arms: Sequence[str] | Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Replace the catalogue."""
        return self._call("PUT", "/arms", {"arms": list(arms)})

    def stats(self) -> dict[str, Any]:
        """Counts, and rewards over time."""
        return self._call("GET", "/stats", None)

    def changes(self) -> list[dict[str, Any]]:
        """Detected changes, oldest first."""
        found: list[dict[str, Any]] = self._call("GET", "/changes", None)["changes"]
        return found

    def close(self) -> None:
        """Close this thread's connection."""
        connection = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def _call(self, method: str, path: str, body: Any) -> dict[str, Any]:
        encoded = None if body is None else json.dumps(body).encode()
        last = ServiceError(0, "not tried")
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(random.uniform(0.5, 1.0) * 0.05 * 2 ** (attempt - 1))
            try:
                return self._once(method, self._path + path, encoded)
            except ServiceError as error:
                if error.status not in _TRY_AGAIN:
                    raise
                last = error
            except (OSError, http.client.HTTPException) as error:
                self.close()
                last = ServiceError(0, f"{self._base.netloc}: {error!r}")
        raise last

    def _once(self, method: str, path: str, body: bytes | None) -> dict[str, Any]:
        connection = self._connection()
        connection.request(method, path, body, self._headers)
        response = connection.getresponse()
        data = response.read()
        if response.status == http.client.TEMPORARY_REDIRECT:
            return self._elsewhere(response.headers["location"], method, body)
        try:
            answer: dict[str, Any] = json.loads(data)
        except ValueError:
            raise ServiceError(response.status, f"not JSON: {data[:100]!r}") from None
        if response.status >= http.client.BAD_REQUEST:
            raise ServiceError(response.status, answer.get("detail", response.reason))
        return answer

    def _elsewhere(self, location: str, method: str, body: bytes | None) -> dict[str, Any]:
        """Another process holds the shard; ask it this once."""
        parts = urlsplit(location)
        other = Client(f"{parts.scheme}://{parts.netloc}", "", timeout=self.timeout, retries=0)
        other._headers = self._headers
        try:
            return other._once(method, quote(parts.path, safe="/:%") + (f"?{parts.query}" if parts.query else ""), body)
        finally:
            other.close()

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = self._local.__dict__.get("connection")
        if connection is None:
            kind = http.client.HTTPSConnection if self._base.scheme == "https" else http.client.HTTPConnection
            connection = kind(self._base.hostname or "", self._base.port, timeout=self.timeout)
            self._local.connection = connection
        return connection
