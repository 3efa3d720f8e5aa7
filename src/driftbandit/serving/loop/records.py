"""What a loop's state is made of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from driftbandit.core import Change, Floats, Ints
from driftbandit.serving.loop.randomness import arm_numbers
from driftbandit.serving.loop.series import Series

MAX_ARMS = 10_000
"""How many arms a pool or a catalogue may have in a request."""

EVERYONE = ""
"""The scope of a loop's only model."""

MAIN, SHADOW = 0, 1


class Pool:
    """The arms among which a decision chooses.

    Attributes
    ----------
    ids : tuple of str or None
        Ids as a request gave them; None if it named none, which stands for the whole catalogue.
    names : sequence of str
        The same, or the catalogue's.
    features, numbers : arrays or None
        What policies know them by, where they need it.
    own : bytes or None
        Features that came with the request, for the log; None if they are the catalogue's.
    vote, voted_at : int
        What a policy chose of it that chooses the same until it learns more, and how much it had learned then.
    """

    __slots__ = ("features", "ids", "names", "numbers", "own", "vote", "voted_at")

    def __init__(
        self,
        ids: tuple[str, ...] | None,
        names: Sequence[str],
        features: Floats | None,
        numbers: Ints | None,
        own: bytes | None = None,
    ) -> None:
        self.ids = ids
        self.names = names
        self.features = features
        self.numbers = numbers
        self.own = own
        self.vote = self.voted_at = -1


class Refused(ValueError):
    """A command that cannot be carried out; the state is untouched. `status` is what HTTP would call it."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Open(msgspec.Struct, array_like=True, gc=False):
    """A decision whose window is open, or has been until lately."""

    id: str
    seq: int
    expires: int
    scope: str
    epoch: int
    shadow_epoch: int
    number: int
    features: bytes | int | None
    """Bytes of its own, or a row of the catalogue as it is now, or nothing."""
    weight: float
    """Of its reward in the estimate of the shadow's value: 1 / propensity where both agree, else 0."""
    reward: float | None = None
    learned: bool = False
    closed: bool = False


class Counts(msgspec.Struct):
    """What happened so far."""

    decisions: int = 0
    rewards: int = 0
    learned: int = 0
    refused: int = 0
    missing: int = 0
    late: int = 0
    changes: int = 0
    closed: int = 0
    reward_sum: float = 0.0
    shadow_decisions: int = 0
    shadow_agreed: int = 0
    shadow_closed: int = 0
    shadow_weight: float = 0.0
    shadow_reward: float = 0.0


SHADOW_COUNTS = tuple(name for name in Counts.__struct_fields__ if name.startswith("shadow_"))


class Core(msgspec.Struct, array_like=True):
    """Everything but the models, as a snapshot holds it."""

    seq: int
    time: int
    version: int
    config: bytes
    arms_version: int
    arm_ids: list[str] | None
    arm_features: bytes | None
    epochs: tuple[int, int]
    counts: Counts
    open: list[Open]
    series: Series


class Catalogue:
    """Arms by id; features are (A, d), or None for context-free policies."""

    def __init__(self, ids: list[str], features: bytes | None) -> None:
        self.ids = ids
        self.encoded = features
        self.rows = {name: row for row, name in enumerate(ids)}
        self.numbers = arm_numbers(ids)
        dim = 0 if features is None or not ids else len(features) // 8 // len(ids)
        self.features: Floats | None = (
            None if features is None else np.frombuffer(features).reshape(len(ids), dim).copy()
        )


class Found(msgspec.Struct, frozen=True):
    """A change that learning revealed, with the weights of the model in charge before."""

    scope: str
    time: int
    seq: int
    number: int
    change: Change
    before: bytes | None
