"""The tables that lines of the R6A log fill: articles, candidate sets, events."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints
from driftbandit.kernels.arms import find
from driftbandit.kernels.compile import jit
from driftbandit.kernels.r6a import (
    ABSENT,
    CHANGED,
    FEATURES,
    GOOD,
    LONG,
    LONGEST,
    NEWLINE,
    Text,
    blame,
    candidates,
    head,
    repeats,
)

Rows = NDArray[np.int32]

# What `read_lines` keeps between calls, by place in `state`.
LINES, EVENTS, ARTICLES, POOLS, NEEDED, SAME_LENGTH, SAME_POOL, SAME_CHANGED = range(8)
STATES = 8


@jit
def find_pool(slots: Ints, offsets: Ints, members: Rows, rows: Rows) -> int:
    """Number of the pool that has exactly these rows, or -1 - (free place in `slots`)."""
    count = len(rows)
    mixed = count
    for k in range(count):  # FNV-1a on 31 bits: the product fits an int64, compiled or not
        mixed = ((mixed ^ int(rows[k])) * 16777619) & 0x7FFFFFFF
    at = (mixed ^ (mixed >> 15)) & (len(slots) - 1)
    while slots[at] >= 0:
        pool: int = slots[at]
        first = offsets[pool]
        if offsets[pool + 1] - first == count:
            k = 0
            while k < count and members[first + k] == rows[k]:
                k += 1
            if k == count:
                return pool
        at = (at + 1) & (len(slots) - 1)
    return -1 - at


@jit
def index_pools(slots: Ints, offsets: Ints, members: Rows, size: int) -> None:
    """Fill `slots` anew from the first `size` pools, all different."""
    slots[:] = -1
    for pool in range(size):
        slots[-1 - find_pool(slots, offsets, members, members[offsets[pool] : offsets[pool + 1]])] = pool


@jit
def enter_pool(
    ids: Ints,
    values: Floats,
    rows: Rows,
    articles: Ints,
    features: Floats,
    article_slots: Ints,
    offsets: Ints,
    members: Rows,
    pool_slots: Ints,
    state: Ints,
) -> None:
    """Make these candidates the current pool; new articles and a new pool are added to the tables."""
    state[SAME_CHANGED] = 0
    for k in range(len(ids)):
        row = find(article_slots, articles, ids[k])
        if row < 0:
            place = -1 - row
            row = int(state[ARTICLES])
            article_slots[place] = row
            articles[row] = ids[k]
            features[row] = values[k]
            state[ARTICLES] += 1
        else:
            for j in range(FEATURES):
                if features[row, j] != values[k, j]:
                    state[SAME_CHANGED] = 1
        rows[k] = row
    pool = find_pool(pool_slots, offsets, members, rows)
    if pool < 0:
        place = -1 - pool
        pool = int(state[POOLS])
        pool_slots[place] = pool
        offsets[pool + 1] = offsets[pool] + len(rows)
        members[offsets[pool] : offsets[pool + 1]] = rows
        state[POOLS] += 1
    state[SAME_POOL] = pool


@jit
def note(kind: int, line: int, counts: Ints, examples: Ints) -> None:
    """Count a blemish, and keep its line number while there is room."""
    if counts[kind] < examples.shape[1]:
        examples[kind, counts[kind]] = line
    counts[kind] += 1


@jit
def read_lines(  # noqa: PLR0915 - the whole loop in one place
    text: Text,
    at: int,
    stop: int,
    same: Text,
    ids: Ints,
    values: Floats,
    rows: Rows,
    articles: Ints,
    features: Floats,
    article_slots: Ints,
    offsets: Ints,
    members: Rows,
    pool_slots: Ints,
    times: Ints,
    pools: Rows,
    shown: Rows,
    rewards: Floats,
    users: Floats,
    state: Ints,
    counts: Ints,
    examples: Ints,
) -> int:
    """Read the lines in ``text[at:stop]`` and return the place where reading stopped.

    The place is `stop`, or the start of a line for which a table is too small: `times` and its neighbours (write them
    away and set ``state[EVENTS]`` to 0), or the tables of articles and pools (they need room for ``state[NEEDED]``
    more).
    """
    while at < stop and state[EVENTS] < len(times):
        event = state[EVENTS]
        start = at
        kind, at, time, displayed, click = head(text, start, users[event])
        count = 0
        position = 0
        parsed = False
        text_start = at
        if kind == GOOD:
            end = at + state[SAME_LENGTH]
            known = end < stop and text[end] == NEWLINE and repeats(text, at, same, state[SAME_LENGTH])
            if known and state[SAME_LENGTH] > 0:
                at = end
                count = offsets[state[SAME_POOL] + 1] - offsets[state[SAME_POOL]]
            else:
                parsed = True
                kind, at, count = candidates(text, at, ids, values)
        if kind == GOOD:
            while position < count and ids[position] != displayed:
                position += 1
            if position == count:
                kind = ABSENT
            elif at - start > LONGEST:
                kind = LONG
        if kind != GOOD:
            if parsed:
                # `ids` no longer holds the candidates whose text is in `same`.
                state[SAME_LENGTH] = 0
            at = start
            while text[at] != NEWLINE:
                at += 1
            kind = blame(text, start, at, kind)
        elif parsed:
            fits = (
                state[ARTICLES] + count <= len(articles)
                and state[POOLS] + 1 < len(offsets)
                and offsets[state[POOLS]] + count <= len(members)
            )
            if not fits:
                state[NEEDED] = count
                return start
            enter_pool(
                ids[:count],
                values[:count],
                rows[:count],
                articles,
                features,
                article_slots,
                offsets,
                members,
                pool_slots,
                state,
            )
            state[SAME_LENGTH] = at - text_start
            same[: at - text_start] = text[text_start:at]
        state[LINES] += 1
        at += 1
        if kind == GOOD:
            times[event] = time
            pools[event] = state[SAME_POOL]
            shown[event] = position
            rewards[event] = click
            state[EVENTS] += 1
            if state[SAME_CHANGED]:
                kind = CHANGED
        if kind != GOOD:
            note(kind, state[LINES], counts, examples)
    return at
