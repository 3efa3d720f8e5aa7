"""What a loop knows, its snapshots, and what the store does not have yet."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from driftbandit.evaluation.anytime import RunningValue
from driftbandit.policies.registry import REGISTRY
from driftbandit.serving.loop.arms import Catalogue
from driftbandit.serving.loop.config import LoopConfig
from driftbandit.serving.loop.events import AnyEvent, Catalogued, Configured, Late, NamedArms, Record
from driftbandit.serving.loop.series import TIERS, Bucket, Series
from driftbandit.serving.loop.windows import Due, Open

_decode_config = msgspec.json.Decoder(LoopConfig).decode


_OPEN_BYTES = 800
"""Bytes that an open decision takes beside the features of its arm, about."""


class Counts(msgspec.Struct):
    """What happened so far.

    Attributes
    ----------
    decisions, rewards, late : int
        Decisions made, rewards that came in time, and rewards that came too late.
    closed, missing : int
        Windows that closed with a reward or a default reward, and windows that closed with neither.
    reward_sum : float
        Rewards of closed windows, defaults included.
    learned, refused : int
        Rewards that the policy learned, and those that it refused.
    changes : int
        Changes that the policy detected.
    shadow_decisions, shadow_agreed : int
        Decisions that the shadow policy saw, and those where it would have played the same arm.
    shadow_closed, shadow_weight, shadow_reward :
        Decisions that the shadow saw and whose windows closed: their number, the sum of their weights (1 / propensity
        if the shadow would have played the same arm, else 0) and the sum of weight times reward.
    """

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

    @property
    def shadow_ips(self) -> float | None:
        """What the shadow policy would have earned per decision, estimated by inverse propensity.

        The sum of weight times reward, divided by the number of decisions; None before the first window closed.

        >>> Counts(shadow_closed=4, shadow_weight=5.0, shadow_reward=2.0).shadow_ips
        0.5
        """
        return self.shadow_reward / self.shadow_closed if self.shadow_closed else None

    @property
    def shadow_snips(self) -> float | None:
        """The self-normalised `shadow_ips`: divided by the sum of weights instead of the number of decisions.

        >>> Counts(shadow_closed=4, shadow_weight=5.0, shadow_reward=2.0).shadow_snips
        0.4
        """
        return self.shadow_reward / self.shadow_weight if self.shadow_weight else None

    def forget_shadow(self) -> None:
        """Start the shadow's counts afresh."""
        self.shadow_decisions = self.shadow_agreed = self.shadow_closed = 0
        self.shadow_weight = self.shadow_reward = 0.0


MOST_LATE = 4096
"""How many rewards that came too late a loop remembers."""


def late_key(event: Late) -> bytes:
    """What makes two late rewards the same: the decision, and the reward's id or else its value."""
    what = event.value if event.reward_id is None else event.reward_id
    return hashlib.blake2b(msgspec.msgpack.encode((event.id, what)), digest_size=16).digest()


class Core(msgspec.Struct, array_like=True):
    """The part of a snapshot that is not models."""

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


class Shot(Core, array_like=True):
    """A core with what is not part of a loop's digest, because stores of version 0.1.0 lack it."""

    shadow_value: RunningValue = msgspec.field(default_factory=RunningValue)
    model: bytes | None = None
    arm_records: list[Record] | None = None
    late: list[bytes] = []


class _Tally(msgspec.Struct, array_like=True):
    counts: Counts
    series: Series
    shadow_value: RunningValue


class State:
    """What one loop knows on one shard, apart from its models.

    Attributes
    ----------
    seq, time : int
        Number and time of the last event.
    version, config : int, LoopConfig
        The settings and their version; 0 before the first.
    model : bytes or None
        Packed state with which models begin.
    arms_version, catalogue : int, Catalogue or None
        The arms and their version.
    epochs : pair of int
        Generation of the models of each role; it grows when new settings make the models start afresh.
    counts, series : Counts, Series
        What happened so far, and over time.
    shadow_value : RunningValue
        What the shadow would have earned, with an interval; in older stores it starts with the first event after the
        upgrade. Only loops with a reward range have it.
    late : dict
        Hashes of the latest `MOST_LATE` rewards that came too late, so that their retries are not logged again.
    recent : dict
        Decisions by id: those that are open, and those that are closed but not in the store's index yet.
    due : Due
        Open decisions, sorted by when their windows close.
    bucket, bucket_ends : Bucket, int
        The series' bucket of the present time, and when it ends; see `turn_over`.
    """

    # With this many attributes, Python finds them faster in slots than in a dictionary.
    __slots__ = (
        "arms_version",
        "bucket",
        "bucket_ends",
        "catalogue",
        "config",
        "counts",
        "due",
        "encoded_config",
        "epochs",
        "late",
        "model",
        "recent",
        "seq",
        "series",
        "shadow_value",
        "time",
        "version",
    )

    def __init__(self) -> None:
        self.seq = 0
        self.time = 0
        self.version = 0
        self.config = LoopConfig(policy="random")
        self.encoded_config = b""
        self.model: bytes | None = None
        self.arms_version = 0
        self.catalogue: Catalogue | None = None
        self.epochs = (0, 0)
        self.counts = Counts()
        self.shadow_value = RunningValue()
        self.late: dict[bytes, None] = {}
        self.series = Series()
        self.recent: dict[str, Open] = {}
        self.due = Due()
        self.bucket = Bucket(0)
        self.bucket_ends = 0

    def advance(self, event: AnyEvent) -> None:
        """Count an event."""
        self.seq += 1
        self.time = event.time

    def configure(self, event: Configured) -> tuple[bool, bool]:
        """Take new settings; says whether the models, and those of the shadow policy, must start afresh."""
        self.advance(event)
        before, config, as_library = self.config, _decode_config(event.config), self.numbers_as_library
        first = self.version == 0
        self.version, self.config, self.encoded_config = event.version, config, event.config
        main = first or before.model_key != config.model_key or self.model != event.model
        self.model = event.model
        shadow = first or before.shadow_key != config.shadow_key or self.numbers_as_library != as_library
        if shadow:
            self.counts.forget_shadow()
            self.shadow_value = RunningValue()
        self.epochs = self.epochs[0] + main, self.epochs[1] + shadow
        return main, shadow

    @property
    def numbers_as_library(self) -> bool:
        """Whether policies know arms by the numbers that a `Recommender` gives them, and not by the service's own.

        They do if a context-free model came from a file, which was written with these numbers.
        """
        return self.model is not None and not REGISTRY[self.config.policy].contextual

    def replace_arms(self, event: Catalogued) -> None:
        """Take a new catalogue; open decisions keep the features that their arms had."""
        self.advance(event)
        old = self.catalogue
        if old is not None:
            for record in self.recent.values():
                if type(record.features) is int and not record.closed:
                    record.features = None if old.features is None else old.features[record.features].tobytes()
        records = event.records if isinstance(event, NamedArms) else None
        self.catalogue = Catalogue(event.ids, event.features, records)
        self.arms_version = event.version

    def note_late(self, event: Late) -> None:
        """Count a reward that came too late, and remember it."""
        self.advance(event)
        self.counts.late += 1
        self.late[late_key(event)] = None
        if len(self.late) > MOST_LATE:
            del self.late[next(iter(self.late))]

    def turn_over(self, time: int) -> None:
        """Turn to the bucket of this time."""
        self.bucket = self.series.at(time)
        self.bucket_ends = self.bucket.start + TIERS[0][0]

    @property
    def open_bytes(self) -> int:
        """Bytes that open decisions take, about."""
        return len(self.recent) * (_OPEN_BYTES + 8 * (self.config.dim or 0))

    def core(self) -> bytes:
        """Everything that belongs to the loop's digest, as bytes."""
        return msgspec.msgpack.encode(Core(**self._parts()))

    def shot(self) -> bytes:
        """Everything as bytes, for a snapshot.

        >>> state = State()
        >>> state.configure(Configured(5, 1, b'{"policy": "ucb1"}'))
        (True, True)
        >>> again = State()
        >>> again.restore(state.shot())
        >>> again.shot() == state.shot(), again.config.policy
        (True, 'ucb1')
        """
        shot = Shot(
            **self._parts(),
            shadow_value=self.shadow_value,
            model=self.model,
            arm_records=None if self.catalogue is None else self.catalogue.records,
            late=list(self.late),
        )
        return msgspec.msgpack.encode(shot)

    def tally(self) -> bytes:
        """What was counted so far, as bytes."""
        return msgspec.msgpack.encode(_Tally(self.counts, self.series, self.shadow_value))

    def take_tally(self, data: bytes) -> None:
        """Take back what `tally` returned."""
        tally = msgspec.msgpack.decode(data, type=_Tally)
        self.counts, self.series, self.shadow_value = tally.counts, tally.series, tally.shadow_value
        self.bucket_ends = 0

    def _parts(self) -> dict[str, Any]:
        """The fields of a core."""
        arms = self.catalogue
        return {
            "seq": self.seq,
            "time": self.time,
            "version": self.version,
            "config": self.encoded_config,
            "arms_version": self.arms_version,
            "arm_ids": None if arms is None else arms.ids,
            "arm_features": None if arms is None else arms.encoded,
            "epochs": self.epochs,
            "counts": self.counts,
            "open": [record for record in self.recent.values() if not record.closed],
            "series": self.series,
        }

    def restore(self, data: bytes) -> None:
        """Take back what `shot` returned, or a snapshot of version 0.1.0."""
        core = msgspec.msgpack.decode(data, type=Shot)
        self.seq, self.time, self.version = core.seq, core.time, core.version
        self.config, self.encoded_config = _decode_config(core.config), core.config
        self.arms_version = core.arms_version
        if core.arm_ids is None:
            self.catalogue = None
        else:
            self.catalogue = Catalogue(core.arm_ids, core.arm_features, core.arm_records)
        self.epochs = core.epochs
        self.counts, self.series = core.counts, core.series
        self.shadow_value, self.model, self.late = core.shadow_value, core.model, dict.fromkeys(core.late)
        self.recent = {record.id: record for record in core.open}
        self.due = Due(core.open)
        self.bucket_ends = 0
