"""Other packages behind the same two calls, if they are installed (extra `bench`)."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from driftbandit.core import Floats


class Player(Protocol):
    """What the benchmark calls: features in, an index out; then the pool, the index and the reward."""

    def choose(self, features: Floats) -> int: ...

    def learn(self, features: Floats, index: int, reward: float) -> object: ...


class VowpalWabbit:
    """Vowpal Wabbit, ``--cb_explore_adf``: arm features as text lines, which is its Python interface."""

    def __init__(self, dim: int, arms: int) -> None:
        from vowpalwabbit import Workspace

        self.workspace: Any = Workspace("--cb_explore_adf --epsilon 0.05 --quiet")
        self.names = [f"f{i}:" for i in range(dim)]

    def lines(self, features: Floats) -> list[str]:
        return [
            "| " + " ".join(f"{name}{value:.6g}" for name, value in zip(self.names, x, strict=True))
            for x in features.tolist()
        ]

    def choose(self, features: Floats) -> int:
        return int(np.argmax(self.workspace.predict(self.lines(features))))

    def learn(self, features: Floats, index: int, reward: float) -> None:
        lines = self.lines(features)
        lines[index] = f"0:{-reward:.6g}:1.0 {lines[index]}"
        self.workspace.learn(lines)


class River:
    """river's LinUCBDisjoint: one model per arm on shared context features; takes no arm features."""

    def __init__(self, dim: int, arms: int) -> None:
        from river import bandit

        self.policy: Any = bandit.LinUCBDisjoint(alpha=0.6, seed=0)
        self.arms = list(range(arms))

    def context(self, features: Floats) -> dict[int, float]:
        return dict(enumerate(features[0].tolist()))

    def choose(self, features: Floats) -> int:
        return int(self.policy.pull(self.arms, context=self.context(features)))

    def learn(self, features: Floats, index: int, reward: float) -> None:
        self.policy.update(index, self.context(features), reward)


class ContextualBandits:
    """contextualbandits' LinUCB: one model per arm on shared context features; takes no arm features."""

    def __init__(self, dim: int, arms: int) -> None:
        from contextualbandits.online import LinUCB

        self.policy: Any = LinUCB(nchoices=arms, alpha=0.6, random_state=1)

    def choose(self, features: Floats) -> int:
        return int(self.policy.predict(features[:1])[0])

    def learn(self, features: Floats, index: int, reward: float) -> None:
        # The package takes rewards of 0 or 1 only.
        self.policy.partial_fit(features[:1], np.array([index]), np.array([float(reward > 0.0)]))


PEERS: dict[str, tuple[str, Callable[[int, int], Player], bool]] = {
    "Vowpal Wabbit": ("vowpalwabbit", VowpalWabbit, True),
    "river": ("river", River, False),
    "contextualbandits": ("contextualbandits", ContextualBandits, False),
}
"""Name, module, how to build it for (dim, arms), and whether it takes arm features."""


def installed() -> dict[str, tuple[Callable[[int, int], Player], bool]]:
    """The peers that can be imported here."""
    return {
        name: (build, takes_features)
        for name, (module, build, takes_features) in PEERS.items()
        if find_spec(module) is not None
    }
