"""Rewards that DriftUCB's young models have not learned yet.

Young models learn only to raise alarms, and in quiet times none is near. So a reward is written down, with all that
young models must know to learn it later, and they learn up to eight at once (`blocks`), which takes less time. They
must learn before a reward could raise an alarm. That cannot be while the incumbent's errors since they last learned,
and the logarithms of its widths, stay within an allowance: a young model's own errors can only weaken its case
(`evidence`).

The backlog is a line of numbers behind the ladder: the slots named below, then one record per reward, the arm's
features and the numbers named `TARGET` and so on. Each of these fills whole vectors with zeros.
"""

from __future__ import annotations

from driftbandit.core import Floats
from driftbandit.kernels.compile import jit
from driftbandit.kernels.driftucb.ladder.blocks import LANES
from driftbandit.kernels.vector_units.groups import turn
from driftbandit.kernels.vector_units.instructions import LINES
from driftbandit.kernels.vector_units.vectors import assign, padded

(
    WAITING,  # how many rewards wait
    SPENT,  # sum of the incumbent's errors (clicks: log-likelihoods, negated) of these rewards
    LOG_SPENT,  # sum of ln(1 + incumbent's q) of these rewards
    ALLOWANCE,  # how much of the first sum is known to raise no alarm
    LOG_ALLOWANCE,  # the same for the second sum
) = range(5)
HEAD = 8

# Numbers of a record, behind the features. The last three have another meaning, and name, for clicks.
(
    TARGET,  # the reward, without what the anchor expects
    THEIRS,  # the incumbent's error, as `evidence` sums them up; clicks: its log-likelihood
    THEIR_LOG_WIDTH,  # ln(1 + q) of the incumbent
    ACTING,  # log-likelihood under the models that act; if not of a click, plus half the logarithm of the noise
    NOISE,  # variance of the noise
    CAP,  # cap of an error
    FREEDOM,  # degrees of freedom of the likelihood
) = range(7)
BASE, LEAST, HIT = NOISE, CAP, FREEDOM
"""Of clicks: what the anchor expects, the least probability of an outcome, and 1 if it was a hit."""
RECORD = 8

UNLIMITED = 1e300
"""The allowance while no young model lives; then no reward need wait."""


@jit
def backlog_size(dim: int) -> int:
    """Numbers of a backlog."""
    size: int = HEAD + LANES * (padded(dim) + RECORD)
    return size


@jit
def is_count(waiting: float) -> bool:
    """Whether so many rewards may wait between two rounds; a full block was learned."""
    return 0.0 <= waiting < LANES and waiting == int(waiting)


@jit
def record(at: int, p: int, d: int) -> int:
    """Place of the numbers of record p."""
    return at + HEAD + p * (padded(d) + RECORD) + padded(d)


@jit
def add(rows: Floats, at: int, x: Floats) -> int:
    """Begin a record in the backlog that begins at `at`; returns the place of its numbers. x fills whole vectors."""
    place = record(at, int(rows[at + WAITING]), len(x))
    assign(rows, place - len(x), 1.0, x, 0, len(x))
    rows[at + WAITING] += 1.0
    return place


@jit
def spend(rows: Floats, at: int, error: float, log_width: float) -> bool:
    """Count what a reward may add to a case; whether the allowance is spent, so that young models must learn now."""
    rows[at + SPENT] += error
    rows[at + LOG_SPENT] += log_width
    spent: bool = rows[at + SPENT] > rows[at + ALLOWANCE] or rows[at + LOG_SPENT] > rows[at + LOG_ALLOWANCE]
    return spent


@jit
def empty(rows: Floats, at: int, log_allowance: float) -> None:
    """Let nothing wait; as long as there is no young model, there is no limit."""
    rows[at + WAITING] = rows[at + SPENT] = rows[at + LOG_SPENT] = 0.0
    rows[at + ALLOWANCE] = UNLIMITED
    rows[at + LOG_ALLOWANCE] = log_allowance


@jit
def wipe(rows: Floats, at: int, d: int, count: int) -> None:
    """Overwrite `count` records by zeros: what does not wait must be 0, and a packed state does without zeros."""
    rows[at + HEAD : at + HEAD + count * (padded(d) + RECORD)] = 0.0


@jit
def allow(rows: Floats, at: int, most: float) -> None:
    """Take into account that a young model stands `most` more errors from now on."""
    rows[at + ALLOWANCE] = min(rows[at + ALLOWANCE], rows[at + SPENT] + most)


@jit
def side_by_side(rows: Floats, at: int, d: int, arms: Floats) -> None:
    """Fill the table `arms` with the features of all records, which are 0 where no reward waits; see `blocks`."""
    step = padded(d) + RECORD
    for p in range(0, LANES, LINES):
        first = record(at, p, d) - padded(d)
        turn(rows, first, first + step, first + 2 * step, first + 3 * step, padded(d), arms, p)
