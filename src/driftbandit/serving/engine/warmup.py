"""Compiling a loop's policies before anybody waits for them.

Policies are compiled when they are first used, which takes seconds if Numba has cached nothing yet. In the engine's
thread every request would wait for that. So a throw-away copy of the loop makes a few decisions and learns their
rewards beforehand, in another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import numpy as np

from driftbandit.batch.objects import choose_each, chooses_in_crowds, learn_each, learns_in_crowds
from driftbandit.policies.registry import REGISTRY
from driftbandit.serving.loop.config import SERVED, LoopConfig
from driftbandit.serving.loop.encoding import NamedFeatures
from driftbandit.serving.loop.events import Catalogued, Configured, Refused
from driftbandit.serving.loop.loop import Loop

_ROUNDS = 200  # with a change in the middle, so that the code that handles changes is compiled too
_SMALL = 3  # features: compiled code depends on their type, not on their number


def rehearse(config: LoopConfig) -> None:
    """Use the policies of these settings, on a loop that is thrown away.

    Raises ValueError if the settings do not describe a loop.

    >>> rehearse(LoopConfig(policy="ucb1"))
    """
    if config.encoder:
        NamedFeatures(config.encoder).encode({}, [{}])
    dims = [None] if config.dim is None else sorted({min(_SMALL, config.dim), config.dim})
    for dim in dims:
        try:
            _rehearse(msgspec.structs.replace(config, dim=dim, window=0.0, encoder=msgspec.UNSET))
        except Refused:  # the policy cannot use these arms; real requests will say why
            return
        except ValueError:  # some settings need all the features
            if dim == dims[-1]:
                raise
        else:
            return


def _rehearse(config: LoopConfig) -> None:
    loop = Loop("", 0, lambda role, epoch, scope: None)
    loop.apply(Configured(0, 1, msgspec.json.encode(config)))
    arms = ["a", "b"]
    features = None if config.dim is None else np.eye(2, config.dim)
    loop.apply(Catalogued(0, 1, arms, None if features is None else features.tobytes()))
    low, high = loop.bounds
    for number in range(_ROUNDS):
        own = features if number % 2 else None  # arms by id in one round, with features in the next
        event = loop.decide(number, str(number), "", loop.pools.of(arms, own))
        value = 0.75 if (event.index == 0) == (number < _ROUNDS // 2) else 0.25  # not 0 or 1: clicks bring warnings
        loop.reward(number, event.id, min(max(value, low), high), None)
        loop.tick(number)
    example = loop.models.example
    if features is not None and chooses_in_crowds(example):
        choose_each([example], [features], [0])
    if features is not None and learns_in_crowds(example):
        learn_each([example], features[:1], np.zeros(1))


def warm(dim: int) -> Iterator[str]:
    """Rehearse every policy that is served, which lets Numba cache their compiled code; yields their names.

    >>> next(warm(2)) in SERVED
    True
    """
    for policy in SERVED:
        for scoped in (False, True):
            rehearse(LoopConfig(policy=policy, dim=dim if REGISTRY[policy].contextual else None, scoped=scoped))
        yield policy


class Rehearsals:
    """Rehearses settings, each only once."""

    def __init__(self) -> None:
        self._done: set[bytes] = set()
        self._running: set[bytes] = set()
        self._lock = threading.Lock()

    def run(self, config: LoopConfig) -> None:
        """Rehearse now, unless it was done before."""
        key = _key(config)
        if key not in self._done:
            rehearse(config)
            self._done.add(key)

    def ready(self, config: LoopConfig) -> bool:
        """Whether these settings were rehearsed; if not, the rehearsal starts in the background."""
        key = _key(config)
        if key in self._done:
            return True
        with self._lock:
            if key not in self._running:
                self._running.add(key)
                threading.Thread(target=self._try, args=(config, key), name="rehearsal", daemon=True).start()
        return False

    def _try(self, config: LoopConfig, key: bytes) -> None:
        try:
            rehearse(config)
        except ValueError:
            pass  # the engine will say what is wrong with these settings
        finally:
            self._done.add(key)
            with self._lock:
                self._running.discard(key)


def _key(config: LoopConfig) -> bytes:
    """The settings that compiled code may depend on."""
    numbers = (config.dim is None, config.draws > 1, config.scoped, bool(config.encoder))
    return msgspec.msgpack.encode((config.policy, config.settings, config.shadow, numbers))
