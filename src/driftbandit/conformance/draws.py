"""Finds out whether a policy drew at random."""

from __future__ import annotations

import io
import pickle
import random
from typing import Any

import numpy as np


class _Generators(pickle.Pickler):
    """Notes the states of all random generators that it comes across."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.states: list[str] = []

    def persistent_id(self, obj: Any) -> None:
        if isinstance(obj, np.random.Generator):  # NumPy 1.26 does not pickle the BitGenerator inside as an object
            self.states.append(repr(obj.bit_generator.state))
        elif isinstance(obj, np.random.BitGenerator):
            self.states.append(repr(obj.state))
        elif isinstance(obj, np.random.RandomState):
            self.states.append(repr(obj.get_state()))
        elif isinstance(obj, random.Random):
            self.states.append(repr(obj.getstate()))


def draws_of(policy: Any) -> list[str]:
    """Where the policy's random generators stand."""
    found = _Generators()
    found.dump(policy)
    return found.states
