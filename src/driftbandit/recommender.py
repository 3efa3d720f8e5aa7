"""An encoder and a policy together: dictionaries in, ids out."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from driftbandit.core import Change, Floats, Scope, as_scope, takes_scope
from driftbandit.features import Encoder
from driftbandit.features.adapters import as_encoder
from driftbandit.features.arms import ArmId, Arms, Record, as_id, as_items, listed, number_of, numbers_of, plain_record
from driftbandit.policies.saving import load as load_policy
from driftbandit.policies.saving import reading, save
from driftbandit.policies.traits import Traits

FORMAT = 1
"""Version of what a recommender adds to its policy's file."""

_NOTE = "recommender.json"


@dataclass(frozen=True)
class Decision:
    """One arm that was chosen, with all that is needed to learn its reward later.

    The recommender keeps nothing about it, so decisions may be stored anywhere (`to_json`, pickle), be answered late,
    in any order, by another process that loaded the same recommender, or never.

    Attributes
    ----------
    arm : int or str
        Its id.
    features : tuple of float, or None
        Its features as the policy saw them; None if the policy takes none.
    scope : int, str or None
        Whom it was chosen for, if the policy keeps a model per scope.
    """

    arm: ArmId
    features: tuple[float, ...] | None
    scope: Scope | None = None

    def to_json(self) -> dict[str, Any]:
        """The decision as a dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> Self:
        """The decision that `to_json` described."""
        try:
            features = described["features"]
            return cls(
                as_id(described["arm"]), None if features is None else tuple(map(float, features)), described["scope"]
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"decision: expected what Decision.to_json returned, got {described!r:.80}") from error


@dataclass(frozen=True)
class Part:
    """What one feature adds to an arm's predicted reward.

    Attributes
    ----------
    name : str
        The feature.
    weight, value : float
        What was learned about it, and its value for this arm; their product is added to the prediction.
    lead : float
        By how much that product is higher than on average over the arms.
    """

    name: str
    weight: float
    value: float
    lead: float


@dataclass(frozen=True)
class Why:
    """Why an arm is chosen, in names.

    Attributes
    ----------
    arm : int or str
        Its id.
    parts : tuple of Part
        What speaks for and against it compared with the other arms, the largest lead first; empty if the policy has no
        weights.
    change : Change or None
        The latest change that the policy detected.
    moved : tuple of (str, float, float)
        Features whose weights changed then, with the weight before and now, the most changed first; empty if the policy
        does not say.
    """

    arm: ArmId
    parts: tuple[Part, ...]
    change: Change | None
    moved: tuple[tuple[str, float, float], ...]

    def __str__(self) -> str:
        lines = [f"arm {self.arm!r}"]
        lines += [f"  {part.lead:+.3f}  {part.name} ({part.weight:+.3f} × {part.value:g})" for part in self.parts[:5]]
        if self.change is not None:
            lines.append(f"last change: {self.change.kind} at reward {self.change.round}")
            lines += [f"  {name}: {before:+.3f} -> {now:+.3f}" for name, before, now in self.moved[:5]]
        return "\n".join(lines)


class Recommender:
    """Chooses among named arms: an encoder turns dictionaries into features, a policy chooses and learns.

    Parameters
    ----------
    encoder : Encoder, transformer, function or None
        What makes features: an `Encoder` that is fitted or fully declared, a fitted transformer of scikit-learn, or a
        function ``(context, arms) -> (K, d)``. None for a context-free policy, which knows arms by their ids only.
    policy : Policy or ScopedPolicy
        It learns as you go. Its `dim` must be the encoder's.
    items : arms, optional
        Features of the arms by id, so that calls may name ids only.

    Examples
    --------
    >>> from driftbandit import DriftUCB, Encoder, Recommender
    >>> songs = {"so-what": {"genre": "jazz"}, "one": {"genre": "metal"}}
    >>> encoder = Encoder().fit([({"device": "phone"}, songs), ({"device": "laptop"}, songs)])
    >>> shop = Recommender(encoder, DriftUCB(encoder.dim), items=songs)
    >>> for t in range(60):
    ...     device = ("phone", "laptop")[t % 2]
    ...     decision = shop.choose({"device": device})
    ...     changes = shop.learn(decision, float((decision.arm == "one") == (device == "phone")))
    >>> shop.choose({"device": "phone"}).arm, shop.choose({"device": "laptop"}).arm
    ('one', 'so-what')
    >>> {"device=phone × genre=metal"} <= {part.name for part in shop.explain({"device": "phone"}).parts[:4]}
    True
    """

    def __init__(self, encoder: Any, policy: Any, *, items: Arms = None) -> None:
        if isinstance(policy, type) or not hasattr(policy, "choose") or not hasattr(policy, "learn"):
            raise ValueError(f"policy: expected a policy with choose and learn, got {policy!r}")
        self.encoder = None if encoder is None else as_encoder(encoder)
        self.policy = policy
        self._takes_features = getattr(policy, "dim", None) is not None or not isinstance(policy, Traits)
        if self._takes_features:
            if self.encoder is None:
                raise ValueError(f"encoder: expected one, because {type(policy).__name__} needs features, got None")
            if isinstance(encoder, Encoder) and getattr(policy, "dim", encoder.dim) != encoder.dim:
                raise ValueError(f"policy: expected dim={encoder.dim}, as the encoder makes, got dim={policy.dim}")
        self.items = {} if items is None else as_items(items)
        """Features of the arms by id; arms may be added, changed and deleted at any time."""

    def __repr__(self) -> str:
        return f"Recommender({self.encoder!r}, {self.policy!r}, items={len(self.items)})"

    def choose(self, context: Record, arms: Arms = None, *, scope: Scope | None = None, pending: int = 0) -> Decision:
        """Choose one of the arms for a context.

        Parameters
        ----------
        context : dict
            Who is asking, by column.
        arms : dict, list or None
            This round's arms: a dictionary of their features by id, a list of dictionaries with an 'id', a list of ids
            of `items`, or None for all items.
        scope : int or str, optional
            Whom to choose for; needed if the policy keeps a model per scope.
        pending : int
            Number of earlier decisions whose rewards are still to come; see `DriftUCB.choose`.
        """
        ids, features, keywords = self._pool(context, arms, scope)
        if pending and getattr(self.policy, "minds_pending", False) is True:
            keywords["pending"] = pending
        index = self.policy.choose(features, numbers_of(ids), **keywords)
        return _decision(ids, features, index, keywords)

    def rank(
        self, context: Record, arms: Arms = None, k: int | None = None, *, scope: Scope | None = None
    ) -> list[Decision]:
        """Choose the `k` best arms, or all of them in order, the best first; each may be learned from."""
        ids, features, keywords = self._pool(context, arms, scope)
        order = self.policy.rank(features, len(ids) if k is None else k, numbers_of(ids), **keywords)
        return [_decision(ids, features, int(index), keywords) for index in order]

    def learn(self, decision: Decision, reward: float) -> tuple[Change, ...]:
        """Learn the reward of a decision, however long ago it was made; returns the changes it revealed."""
        if not isinstance(decision, Decision):
            raise ValueError(f"decision: expected what choose returned, got {decision!r:.80}")
        features = None if decision.features is None else np.array(decision.features)
        changes: tuple[Change, ...] = self.policy.learn(
            features, reward, number_of(decision.arm), **self._scoped(decision.scope)
        )
        return changes

    def explain(
        self, context: Record, arms: Arms = None, *, arm: ArmId | None = None, scope: Scope | None = None
    ) -> Why:
        """Why `arm`, or the arm that `choose` would choose now, in names. Nothing is learned or drawn."""
        ids, features, keywords = self._pool(context, arms, scope)
        if arm is None:
            policy = copy.deepcopy(self.policy) if getattr(self.policy, "is_random", True) else self.policy
            index = policy.choose(features, numbers_of(ids), **keywords)
        elif arm in ids:
            index = ids.index(arm)
        else:
            raise ValueError(f"arm: expected one of this round's arms, got {arm!r}")
        inner = self.policy.policy_of(scope) if scope is not None and hasattr(self.policy, "policy_of") else self.policy
        weights = getattr(inner, "feature_weights", None)
        parts: list[Part] = []
        if weights is not None and features is not None:
            leads = weights * (features[index] - features.mean(axis=0))
            order = np.argsort(-np.abs(leads), kind="stable")
            names = self._names(len(weights))
            parts = [
                Part(names[i], float(weights[i]), float(features[index, i]), float(leads[i])) for i in order.tolist()
            ]
        changes = getattr(inner, "changes", ())
        moved = inner.explain().moved if hasattr(inner, "explain") else ()
        names = self._names(len(moved)) if moved else ()
        return Why(
            arm=ids[index],
            parts=tuple(part for part in parts if part.weight or part.lead),
            change=changes[-1] if changes else None,
            moved=tuple((names[i], before, now) for i, before, now in moved if before != now),
        )

    # Saving --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write encoder, policy, all that it has learned, and items to one file, whole or not at all.

        The file holds text and numbers only (no pickle). It is also a policy's file: `driftbandit.load` reads the
        policy alone. An encoder that is not an `Encoder` is not written; pass it to `load` again.
        """
        if not isinstance(self.policy, Traits):
            raise ValueError(f"policy: expected one that can be saved, got {self.policy!r}")
        encoder = self.encoder.to_json() if isinstance(self.encoder, Encoder) else self.encoder and "yours"
        items = [[arm, plain_record(record)] for arm, record in self.items.items()]
        note = {"format": FORMAT, "encoder": encoder, "items": items}
        try:
            save(self.policy, path, {_NOTE: note})
        except TypeError as error:
            raise ValueError(f"items: expected features that JSON can hold ({error})") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, encoder: Any = None, classes: Iterable[type] = ()) -> Self:
        """Read what `save` wrote; it continues bit for bit.

        Parameters
        ----------
        path : path
            The file.
        encoder : transformer or function, optional
            The encoder, if it was not an `Encoder`.
        classes : iterable of classes
            Policies and reward models of your own that the file may name.
        """
        policy = load_policy(path, classes=classes)
        note = read_note(path)
        with reading(path):
            if note is None:
                raise ValueError("it holds a policy without an encoder; read it with driftbandit.load")
            if (note.encoder == "yours") != (encoder is not None):
                raise ValueError("encoder: expected one exactly if the saved encoder was a function or a transformer")
            if isinstance(note.encoder, Encoder):
                encoder = note.encoder
            return cls(encoder, policy, items=note.items)

    # Parts ---------------------------------------------------------------------------------------------------------

    def _pool(
        self, context: Record, arms: Arms, scope: Scope | None
    ) -> tuple[list[ArmId], Floats | None, dict[str, Any]]:
        """Ids and features of this round's arms, and what else the policy must be told."""
        keywords = self._scoped(scope)
        ids, records = listed(self.items if arms is None else arms, self.items)
        if not ids:
            raise ValueError("arms: expected at least one arm, got none")
        if not self._takes_features or self.encoder is None:
            return ids, None, keywords
        known = [record for record in records if record is not None]
        if len(known) < len(ids):
            raise ValueError(f"arms: expected features, or an id among items, got {ids[records.index(None)]!r}")
        features = self.encoder.encode(context, known)
        if features.ndim != 2 or len(features) != len(ids):
            raise ValueError(f"encoder: expected features of shape ({len(ids)}, d), got {features.shape}")
        return ids, features, keywords

    def _scoped(self, scope: Scope | None) -> dict[str, Any]:
        if takes_scope(self.policy):
            if scope is None:
                raise ValueError(f"scope: {type(self.policy).__name__} needs to know whom it chooses for, got None")
            return {"scope": as_scope(scope)}
        if scope is not None:
            raise ValueError(f"scope: {type(self.policy).__name__} keeps no model per scope, got {scope!r}")
        return {}

    def _names(self, count: int) -> Sequence[str]:
        names: Sequence[str] | None = getattr(self.encoder, "names", None)
        return names if names is not None else [f"feature {place}" for place in range(count)]


class Note(NamedTuple):
    """What `Recommender.save` adds to a policy's file; the encoder is 'yours' if it was not an `Encoder`."""

    encoder: Encoder | Literal["yours"] | None
    items: dict[ArmId, Record]


def read_note(path: str | os.PathLike[str]) -> Note | None:
    """Read what `Recommender.save` added to a policy's file; None if the file holds a policy alone."""
    with reading(path) as archive:
        if _NOTE not in archive.namelist():
            return None
        note = json.loads(archive.read(_NOTE))
        if note["format"] != FORMAT:
            raise ValueError(f"its recommender has format {note['format']!r}; this version reads {FORMAT}")
        encoder = note["encoder"]
        if encoder is not None and encoder != "yours":
            encoder = Encoder.from_json(encoder)
        return Note(encoder, {as_id(arm): dict(record) for arm, record in note["items"]})


def _decision(ids: list[ArmId], features: Floats | None, index: int, keywords: Mapping[str, Any]) -> Decision:
    row = None if features is None else tuple(features[index].tolist())
    return Decision(ids[index], row, keywords.get("scope"))
