"""Many scopes, each with a policy of its own, in flat arrays: choose for all, learn from all, both, replay a log.

The four loops are templates. What they ask of a policy, `ask` and `tell`, is filled in for each kind: the same kernels
that a policy object calls, on row s of the arrays in `state`, so that the answers are the same bit for bit.

Threads call a loop with ranges of `order`, which lists the items scope by scope; no scope is in two ranges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints
from driftbandit.kernels import pcg64, ridge, windows
from driftbandit.kernels.compile import fill_in, jit, jit_inside, jit_into
from driftbandit.kernels.driftucb import acting, compact, drift, frames, mixture, relearning
from driftbandit.kernels.driftucb.ahead import Ahead, first_rows
from driftbandit.kernels.driftucb.ladder import young
from driftbandit.kernels.driftucb.scales import MEMO, TRIED
from driftbandit.kernels.vector_units.vectors import fetch

LEARNED, CHANGED, FULL, LEFT = range(4)
"""What became of a reward: it was learned; it was, and what it revealed must be dealt with before its scope goes on; it
was not, because its scope needs more room; it was left, because its scope waits for one of these."""

NOT_USABLE = -1
"""The answer for features that are not finite or too large."""

NOT_ASKED = -2
"""What stands for an answer where none was given."""


def ask(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    """The arm that a scope's policy plays, or NOT_USABLE; a placeholder that `fill_in` replaces.

    What the `following` scope's policy has learned may be fetched meanwhile.
    """
    raise NotImplementedError


def tell(state: Any, scope: int, following: int, x: Floats, reward: float) -> int:
    """Teach a reward to a scope's policy: LEARNED or CHANGED, or FULL or NOT_USABLE, which leave it as it is.

    A placeholder, see `ask`.
    """
    raise NotImplementedError


@jit_inside
def _fetch_pool(features: Floats, offsets: Ints, item: int) -> None:
    dim = features.shape[1]
    fetch(features, offsets[item] * dim, (offsets[item + 1] - offsets[item]) * dim)


def choose_in_turn(
    state: Any,
    scopes: Ints,
    features: Floats,
    offsets: Ints,
    pending: Ints,
    order: Ints,
    arms: Ints,
    start: int,
    stop: int,
) -> None:
    """Write into ``arms[i]`` what scope ``scopes[i]`` plays among ``features[offsets[i]:offsets[i + 1]]``."""
    for k in range(start, stop):
        i = order[k]
        following = order[min(k + 1, stop - 1)]
        _fetch_pool(features, offsets, following)
        pool = features[offsets[i] : offsets[i + 1]]
        arms[i] = ask(state, scopes[i], scopes[following], pool, pending[i])


def learn_in_turn(
    state: Any,
    scopes: Ints,
    features: Floats,
    rewards: Floats,
    order: Ints,
    status: Ints,
    start: int,
    stop: int,
) -> None:
    """Teach reward i to scope ``scopes[i]`` and write what became of it into ``status[i]``."""
    waits = -1
    for k in range(start, stop):
        i = order[k]
        if scopes[i] != waits:
            following = scopes[order[min(k + 1, stop - 1)]]
            status[i] = tell(state, scopes[i], following, features[i], rewards[i])
            if status[i] > LEARNED:
                waits = scopes[i]


def step_in_turn(
    state: Any,
    scopes: Ints,
    played: Floats,
    rewards: Floats,
    features: Floats,
    offsets: Ints,
    order: Ints,
    status: Ints,
    arms: Ints,
    start: int,
    stop: int,
) -> None:
    """Learn as `learn_in_turn` does and, while the scope's models are at hand, choose as `choose_in_turn` does.

    A scope that refuses its reward, needs more room for it, or finds a change in it is not asked: its entry of `arms`
    stays. No scope occurs twice. Of what the following scope has learned, `tell` may fetch a part, and `ask` the rest.
    """
    no_pending: Any = np.int64(0)  # for 0 itself, a literal, Numba would compile `ask` once more
    for k in range(start, stop):
        i = order[k]
        following = order[min(k + 1, stop - 1)]
        status[i] = tell(state, scopes[i], scopes[following], played[i], rewards[i])
        _fetch_pool(features, offsets, following)
        fetch(played, following * played.shape[1], played.shape[1])
        if status[i] == LEARNED:
            arms[i] = ask(state, scopes[i], scopes[following], features[offsets[i] : offsets[i + 1]], no_pending)


def replay_in_turn(
    state: Any,
    scopes: Ints,
    features: Floats,
    offsets: Ints,
    pools: Ints,
    shown: Ints,
    counts: NDArray[np.bool_],
    rewards: Floats,
    draws: bool,
    order: Ints,
    arms: Ints,
    status: Ints,
    start: int,
    stop: int,
) -> None:
    """Choose at each event of a log, and learn where the choice is the displayed arm and the event counts.

    Event i has pool ``pools[i]``, whose features are ``features[offsets[pool]:offsets[pool + 1]]``. ``arms[i]`` becomes
    the choice, ``status[i]`` what became of the event: LEARNED also if there was nothing to learn. Unless choosing
    `draws` at random, a scope's answer for a pool is kept until the scope learns.
    """
    no_pending: Any = np.int64(0)  # as in `step_in_turn`
    answers = np.empty(len(offsets) - 1, dtype=np.int64)
    asked = np.full(len(offsets) - 1, -1)  # in which period the answer for a pool was given
    period, owner, waits = 0, -1, -1  # an answer holds until the scope learns
    for k in range(start, stop):
        i = order[k]
        if scopes[i] == waits:
            continue
        if scopes[i] != owner:
            period, owner = period + 1, scopes[i]
        first, last = offsets[pools[i]], offsets[pools[i] + 1]
        if draws or asked[pools[i]] != period:
            answers[pools[i]] = ask(state, scopes[i], scopes[i], features[first:last], no_pending)
            asked[pools[i]] = period
        arms[i] = answers[pools[i]]
        status[i] = LEARNED if arms[i] >= 0 else NOT_USABLE
        if counts[i] and arms[i] == shown[i]:
            status[i] = tell(state, scopes[i], scopes[i], features[first + shown[i]], rewards[i])
            period += 1
        if status[i] != LEARNED:
            waits = scopes[i]


# LinUCB and LinTS: (settings for choices, settings for updates, rows, rounds, words of generators) ------------------


@jit_into
def _ask_linucb(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    act, _, rows, _, _ = state
    return ridge.optimistic_arm(act, rows, scope, pool)


@jit_into
def _ask_lints(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    act, _, rows, _, words = state
    noise = np.empty(pool.shape[1])  # the pool was checked before: a refused one must not cost a draw
    pcg64.standard_normals(words[scope], noise)
    return ridge.sampled_theta_arm(rows, scope, pool, noise, act[ridge.OFFSET])


@jit_into
def _ask_lints_in_replay(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    _, test, _, _, _ = state
    if not ridge.usable(pool, test[ridge.RIDGE]):
        return NOT_USABLE
    arm: int = _ask_lints(state, scope, following, pool, pending)
    return arm


@jit_into
def _tell_ridge(state: Any, scope: int, following: int, x: Floats, reward: float) -> int:
    _, test, rows, rounds, _ = state
    if not ridge.update(test, rows[scope], x, reward):
        return NOT_USABLE
    rounds[scope] += 1
    return LEARNED


# dLinUCB: (settings for choices, for the miss test, banks, ledgers, rules, numbers of members, leaders, rounds) -----

_judge = jit(fill_in(windows.judge_round, "judge_round_of_scope", predict=ridge.predict, update=ridge.update))


@jit_into
def _ask_dlinucb(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    act, _, banks, _, _, _, leaders, _ = state
    return ridge.optimistic_arm(act, banks[scope], leaders[scope], pool)


@jit_into
def _tell_dlinucb(state: Any, scope: int, following: int, x: Floats, reward: float) -> int:
    _, test, banks, ledgers, rules, counts, leaders, rounds = state
    leader = _judge(test, banks[scope], ledgers[scope], rules, counts[scope], x, reward)
    if leader == windows.NOT_FINITE:
        return NOT_USABLE
    rounds[scope] += 1
    if leader == windows.REVIEW:
        return CHANGED
    leaders[scope] = leader
    return LEARNED


# DriftUCB: (rules, memos, banks, first rewards of all scopes, where a scope's begin, room for how many, rounds) -------


@jit_inside
def _distance(banks: Floats, scope: int, following: int) -> int:
    """How many numbers behind the bank of this scope that of the following one begins."""
    distance: int = (following - scope) * banks.shape[1] * banks.shape[2]
    return distance


@jit_inside
def _fetch_memo(memos: Floats, scope: int) -> None:
    fetch(memos, scope * memos.shape[1], memos.shape[1])


@jit_inside
def _models(rules: Floats) -> int:
    """How many models learn every reward."""
    return drift.EXPERTS + len(rules) - drift.RULES


@jit_inside
def _learning_rows(rules: Floats) -> int:
    """The rows that `step_in_turn` fetches while a scope learns: two thirds, as learning takes longer than choosing."""
    models = _models(rules)
    rows: int = first_rows(models - models // 3)
    return rows


@jit_into
def _ask_driftucb(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    rules, memos, banks, _, _, _, _ = state
    memo = memos[scope]
    _fetch_memo(memos, following)
    rows = mixture.acting_rows(memo[MEMO : MEMO + 1 + len(rules) - drift.RULES], drift.INCUMBENT)
    arm: int = acting.choose(rules, memo, banks[scope], pool, pending, (_distance(banks, scope, following), rows))
    return arm


@jit_into
def _ask_driftucb_in_step(state: Any, scope: int, following: int, pool: Floats, pending: int) -> int:
    rules, memos, banks, _, _, _, _ = state
    ahead = _distance(banks, scope, following), ~_learning_rows(rules)
    arm: int = acting.choose(rules, memos[scope], banks[scope], pool, pending, ahead)
    return arm


@jit_into
def tell_driftucb(
    rules: Floats, memo: Floats, bank: Floats, seen: Floats, x: Floats, reward: float, ahead: Ahead
) -> int:
    """Teach a reward to a DriftUCB; `seen` is its room for the first rewards, FULL says that it needs more."""
    young = memo[TRIED] < frames.TRIAL
    if young and memo[TRIED] >= len(seen):
        return FULL
    if memo[TRIED] < frames.SINGLE:
        x = frames.in_single(x)
    fired = drift.learn(rules, memo, bank, x, reward, ahead)
    if young:
        fired = relearning.remember_inside(rules, memo, bank, seen, x, reward, fired)
    if fired < 0:
        return NOT_USABLE
    return CHANGED if fired else LEARNED


@jit_into
def _teach_driftucb(state: Any, scope: int, following: int, fetched: int, x: Floats, reward: float) -> int:
    """As `tell`; the rows `fetched` of the following scope's bank are fetched meanwhile."""
    rules, memos, banks, seen, places, rooms, rounds = state
    room, width = rooms[scope], len(x) + 1
    mine = seen[places[scope] : places[scope] + room * width].reshape(room, width)
    _fetch_memo(memos, following)
    ahead = _distance(banks, scope, following), fetched
    told: int = tell_driftucb(rules, memos[scope], banks[scope], mine, x, reward, ahead)
    if told in (LEARNED, CHANGED):
        rounds[scope] += 1
    return told


@jit_into
def _tell_driftucb(state: Any, scope: int, following: int, x: Floats, reward: float) -> int:
    every_row = first_rows(_models(state[0]))
    told: int = _teach_driftucb(state, scope, following, every_row, x, reward)
    return told


@jit_into
def _tell_driftucb_in_step(state: Any, scope: int, following: int, x: Floats, reward: float) -> int:
    told: int = _teach_driftucb(state, scope, following, _learning_rows(state[0]), x, reward)
    return told


def _filled(template: Any, kind: str, **parts: Any) -> Any:
    return jit(fill_in(template, f"{template.__name__}_{kind}", **parts))


choose_linucb = _filled(choose_in_turn, "linucb", ask=_ask_linucb)
choose_lints = _filled(choose_in_turn, "lints", ask=_ask_lints)
choose_dlinucb = _filled(choose_in_turn, "dlinucb", ask=_ask_dlinucb)
choose_driftucb = _filled(choose_in_turn, "driftucb", ask=_ask_driftucb)
learn_ridge = _filled(learn_in_turn, "ridge", tell=_tell_ridge)
learn_dlinucb = _filled(learn_in_turn, "dlinucb", tell=_tell_dlinucb)
learn_driftucb = _filled(learn_in_turn, "driftucb", tell=_tell_driftucb)
step_linucb = _filled(step_in_turn, "linucb", ask=_ask_linucb, tell=_tell_ridge)
step_lints = _filled(step_in_turn, "lints", ask=_ask_lints, tell=_tell_ridge)
step_dlinucb = _filled(step_in_turn, "dlinucb", ask=_ask_dlinucb, tell=_tell_dlinucb)
step_driftucb = _filled(step_in_turn, "driftucb", ask=_ask_driftucb_in_step, tell=_tell_driftucb_in_step)
replay_linucb = _filled(replay_in_turn, "linucb", ask=_ask_linucb, tell=_tell_ridge)
replay_lints = _filled(replay_in_turn, "lints", ask=_ask_lints_in_replay, tell=_tell_ridge)
replay_dlinucb = _filled(replay_in_turn, "dlinucb", ask=_ask_dlinucb, tell=_tell_dlinucb)
replay_driftucb = _filled(replay_in_turn, "driftucb", ask=_ask_driftucb, tell=_tell_driftucb)


@jit
def remember_in_turn(
    rules: Floats,
    memos: Floats,
    banks: Floats,
    seen: Floats,
    places: Ints,
    rooms: Ints,
    features: Floats,
    rewards: Floats,
    status: Ints,
    start: int,
    stop: int,
) -> None:
    """Let DriftUCB remember rewards that were learned on a GPU; entry i of all arrays but `seen` is that of scope i.

    `status` holds what `learn` returned, and gets what `relearning.remember` returns.
    """
    width = features.shape[1] + 1
    for i in range(start, stop):
        mine = seen[places[i] : places[i] + rooms[i] * width].reshape(rooms[i], width)
        status[i] = relearning.remember_inside(rules, memos[i], banks[i], mine, features[i], rewards[i], status[i])


@jit
def settle_all(rules: Floats, memos: Floats, banks: Floats) -> None:
    """Let all young models learn what waits, and write their triangles: on a GPU nothing waits; see `backlog`."""
    experts = len(rules) - drift.RULES
    for i in range(len(memos)):
        drift.settle(rules, memos[i], banks[i])
        units, rungs = drift.units_of(memos[i], experts), drift.rungs_of(banks[i], experts)
        for k in range(len(rungs)):
            if rungs[k, ridge.COUNT] >= 0.0:
                young.unfold(rungs[k], units)


@jit
def pack_all(memos: Floats, banks: Floats, stored: Floats, experts: int) -> None:
    """Write the banks of many scopes in their compact form; see `compact`."""
    for i in range(len(memos)):
        compact.pack(memos[i], banks[i], stored[i], experts)


@jit
def unpack_all(memos: Floats, banks: Floats, stored: Floats, experts: int) -> None:
    """Fill the banks of many scopes from their compact form, which must be sound."""
    for i in range(len(memos)):
        compact.unpack(memos[i], banks[i], stored[i], experts)
