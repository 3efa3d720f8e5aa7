"""Scopes as a part of a state, which holds numbers only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Ints, Scope, as_scope


class UserRows:
    """Gives users rows in a policy's arrays, in order of arrival, and saves the users in its state as `_users`."""

    _rows: dict[Scope, int]

    @property
    def _users(self) -> Ints:
        """The users in the order of their rows, as an array."""
        return encode_scopes(self._rows)

    @_users.setter
    def _users(self, codes: Ints) -> None:
        self._rows = {user: row for row, user in enumerate(decode_scopes(codes))}


def encode_scopes(scopes: Iterable[Scope]) -> Ints:
    """Write scopes as an array: the characters of a JSON list.

    >>> decode_scopes(encode_scopes([7, "ann"]))
    [7, 'ann']
    """
    return np.frombuffer(json.dumps(list(scopes)).encode("ascii"), dtype=np.uint8).astype(np.int64)


def decode_scopes(codes: NDArray[Any]) -> list[Scope]:
    """Read what `encode_scopes` wrote, or raise ValueError."""
    try:
        if codes.dtype != np.int64 or codes.ndim != 1 or not ((codes >= 0) & (codes < 128)).all():
            raise ValueError("expected the characters of a list")
        listed = json.loads(codes.astype(np.uint8).tobytes())
        scopes = [as_scope(scope) for scope in listed]
        if not isinstance(listed, list) or len(set(scopes)) < len(scopes):
            raise ValueError("expected a list in which no scope comes twice")
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"state: scopes: {error}") from error
    return scopes
