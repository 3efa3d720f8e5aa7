"""The paper's remark on Figure 3 that members of dLinUCB go with groups of users, held against chance.

The paper 'looked into those created slave models and found they closely correlated' with groups of users that the
policy was not told. Here every event has the member that chose and the group of its user. Their association is
Cramer's V, from 0 for none to 1 if each member serves groups of its own; chance is V after the groups were shuffled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from driftbandit.core import Ints
from driftbandit.environments.log import Log
from driftbandit.evaluation.fingerprints import builder_fingerprint
from driftbandit.evaluation.replay import Replay
from driftbandit.evaluation.results import Table
from driftbandit.files import whole_file
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB

SHUFFLES = 200


@dataclass(frozen=True)
class Serving:
    """How the members of a policy went with the groups of users on one log.

    Attributes
    ----------
    members : int
        Members that ever chose.
    at_once : float
        Members that existed at the same time, on average.
    found : float
        Cramer's V of member and group; 0 with a single member.
    shuffled : list of float
        V after the groups were shuffled over the events.
    """

    members: int
    at_once: float
    found: float
    shuffled: list[float]


def leaders(policy: DLinUCB, log: Log, replay: Replay) -> tuple[Ints, Ints]:
    """Let a fresh policy learn what it learned in a replay; returns the member that chose each event, and how many."""
    shown = log.features[log.displayed()[replay.matched]]
    chose, alive = np.empty((2, len(replay.matched)), dtype=np.int64)
    count = len(policy.members)
    for place, (features, reward) in enumerate(zip(shown, replay.rewards.tolist(), strict=True)):
        chose[place], alive[place] = policy.leader, count
        changes = policy.learn(features, reward)
        if changes:
            count = len(policy.members)
    return chose, alive


def cramers_v(members: Ints, groups: Ints) -> float:
    """Association of two labels, from 0 to 1.

    >>> groups = np.array([5, 5, 7, 7])
    >>> cramers_v(np.array([0, 0, 1, 1]), groups), cramers_v(np.array([0, 1, 0, 1]), groups)
    (1.0, 0.0)
    """
    from scipy.stats.contingency import association  # noqa: PLC0415 - slow to import; kept studies do without

    rows, columns = (np.unique(labels, return_inverse=True)[1] for labels in (members, groups))
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    if min(shape) < 2:
        return 0.0
    counts = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1]).reshape(shape)
    return float(association(counts, method="cramer"))


def serving(
    policy: DLinUCB, log: Log, replay: Replay, groups: Ints, *, seed: int, kept: Path, fresh: bool = False
) -> Serving:
    """Study the members of one replay, or read the study from the folder `kept` if it is there.

    Parameters
    ----------
    policy : DLinUCB
        As it was before the replay.
    log : Log
        The events.
    replay : Replay
        What the policy did.
    groups : array of shape (n,)
        Group of the user of every event.
    seed : int
        Seed of the shuffles.
    kept : Path
        Folder for studies, in files named after the fingerprints of the replay and of this module.
    fresh : bool
        Study again.
    """
    made_by = builder_fingerprint(leaders)
    file = kept / f"{hashlib.sha256(f'{replay.key} {made_by}'.encode()).hexdigest()}.json"
    if not fresh:
        with suppress(OSError, ValueError, TypeError):  # not there, or damaged: studied again
            return Serving(**json.loads(file.read_text(encoding="utf-8")))
    chose, alive = leaders(policy, log, replay)
    theirs = groups[replay.matched]
    rng = np.random.default_rng(seed)
    study = Serving(
        members=len(np.unique(chose)),
        at_once=float(alive.mean()) if len(alive) else 0.0,
        found=cramers_v(chose, theirs) if len(chose) else 0.0,
        shuffled=[cramers_v(chose, rng.permutation(theirs)) for _ in range(SHUFFLES if len(chose) else 0)],
    )
    with whole_file(file) as partial:
        partial.write_text(json.dumps(vars(study)), encoding="utf-8")
    return study


@dataclass(frozen=True)
class Remark:
    """A policy's members over all logs: mean association, mean chance, and how often chance does as well."""

    members: float
    at_once: float
    found: float
    chance: float
    luck: float

    @classmethod
    def of(cls, studies: Sequence[Serving]) -> Remark:
        """Put the logs together."""
        found = float(np.mean([study.found for study in studies]))
        shuffled = np.mean([study.shuffled or [0.0] * SHUFFLES for study in studies], axis=0)
        return cls(
            members=float(np.mean([study.members for study in studies])),
            at_once=float(np.mean([study.at_once for study in studies])),
            found=found,
            chance=float(shuffled.mean()),
            luck=float((1 + (shuffled >= found).sum()) / (1 + SHUFFLES)),
        )


def members_table(remarks: Mapping[str, Remark]) -> Table:
    """Members and groups of users, policy by policy."""
    cells = tuple(
        (
            name,
            f"{remark.members:,.0f}",
            f"{remark.at_once:.2f}",
            f"{remark.found:.4f}",
            f"{remark.chance:.4f}",
            f"{remark.luck:.2g}",
        )
        for name, remark in remarks.items()
    )
    note = (
        "members: those that ever chose, per log; at once: members that exist at the same time, mean; V: Cramer's V of "
        "the member that chose and the group of the user, 0 for no association, 1 for members with groups of their "
        f"own; chance: V after shuffling the groups over the events, mean of {SHUFFLES} shuffles; luck: share of "
        "shuffles that do at least as well."
    )
    return Table("Members and groups of users", ("policy", "members", "at once", "V", "chance", "luck"), cells, note)
