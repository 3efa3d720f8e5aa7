"""Members of dLinUCB: how one stands now, and what a change says about it."""

from __future__ import annotations

from dataclasses import dataclass

from driftbandit.core import Change, ChangeKind, Floats, Ints
from driftbandit.kernels import windows

EVIDENCE = ("miss_rate", "bound", "age", "updates")
"""Names of the numbers in a change that the miss rate revealed."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member as it stands now.

    Attributes
    ----------
    id : int
        Counted from 0 in order of birth.
    spawned_at : int
        Round after which it was added.
    age : int
        Rounds it has been judged on.
    updates : int
        Rewards it accepted; the others were misses.
    miss_rate : float
        Share of misses in its window.
    width : float
        Half-width of the confidence interval of that share.
    spawn_bound, retire_bound : float
        A new member is spawned when every miss rate is above `spawn_bound`; a member above `retire_bound` is retired.
    """

    id: int
    spawned_at: int
    age: int
    updates: int
    miss_rate: float
    width: float
    spawn_bound: float
    retire_bound: float


def describe(entry: Ints, rules: Floats) -> Member:
    """Read one row of the ledger; see `kernels.windows` for its slots and those of the rules."""
    rate, width = windows.miss_rate(entry, rules)
    identity, spawned_at, age, _, updates = entry[: windows.RING].tolist()
    spawn_bound = float(rules[windows.SPAWN_DELTA]) + width
    retire_bound = float(rules[windows.DELTA]) + width
    return Member(identity, spawned_at, age, updates, rate, width, spawn_bound, retire_bound)


def change_of(kind: ChangeKind, rounds: int, member: int, why: Member) -> Change:
    """The change of `member` after so many rounds, with the numbers of the member that made the change necessary."""
    # A member that only made room for another was not lost: it crossed the spawn bound.
    lost = kind == "retired" and why.miss_rate >= why.retire_bound
    bound = why.retire_bound if lost else why.spawn_bound
    numbers = why.miss_rate, bound, float(why.age), float(why.updates)
    return Change(rounds, kind, member, dict(zip(EVIDENCE, numbers, strict=True)))


def check_members(bank: Floats, ledger: Ints, leader: int, count: int, most: int) -> None:
    """Raise ValueError if parts of a restored state contradict each other, or hold more than `most` members."""
    if not leader < count <= len(ledger) == len(bank):
        raise ValueError("state: count, leader, bank and ledger contradict each other")
    if count > most:
        raise ValueError(f"state: count: {count} members are more than max_members, {most}")
    if (ledger[:, windows.AGE] < 0).any():
        raise ValueError("state: ledger: ages must not be negative")
