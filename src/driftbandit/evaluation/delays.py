"""The delay until DriftUCB finds a shift on clicks, from the click rate and the size of the shift.

Let what is played be clicked with probability q = lift * rate before a shift and, were it played on, with p = rate
after it. Each decision then brings, on average, the Kullback-Leibler divergence

    information = p ln(p / q) + (1 - p) ln((1 - p) / (1 - q))

nats of evidence against the incumbent, which still expects q. An alarm needs `evidence.threshold` nats, and the young
model pays `_LEARNING` nats per feature for what it has to learn first:

    delay = (threshold + _LEARNING * dim) / information.

docs/detection.md says how far that is from what was measured.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import as_count, as_number
from driftbandit.kernels import evidence, scales

_LEARNING = 0.4  # nats per feature, fitted to the median delays of simulated shifts


def click_delay(rate: float, lift: float, *, dim: int = 10, period: int = 20_000, delta: float = 0.02) -> float:
    """Decisions that DriftUCB needs, in the median, to find a shift on clicks.

    Parameters
    ----------
    rate : float
        Click rate, right after the shift, of what was played before it: usually that of an average arm.
    lift : float
        How many times `rate` the same arms had before the shift. At 0.02 and 2, a doubling, what is played falls from
        4 % of clicks to 2 %.
    dim, delta :
        As in `DriftUCB`.
    period : int
        Rewards since the shift before.

    Returns
    -------
    float
        Decisions from the shift to the alarm. If that is more than `period`, most shifts are not found.

    Raises
    ------
    ValueError
        If `lift` is not above 1, or `lift * rate` not below 1.

    Examples
    --------
    >>> from driftbandit.evaluation.delays import click_delay
    >>> [round(click_delay(rate, lift=2.0), -1) for rate in (0.01, 0.02, 0.05)]
    [0.0, 0.0, 0.0]
    """
    rate = as_number("rate", rate, 0.0, 1.0, open_low=True)
    lift = as_number("lift", lift, 1.0, open_low=True)
    before = lift * rate
    if before >= 1.0:
        raise ValueError(
            f"lift: {lift:g} times a rate of {rate:g} is no probability; expected a lift below {1.0 / rate:g}"
        )
    dim, period = as_count("dim", dim), as_count("period", period)
    delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
    memo = np.zeros(scales.MEMO)
    memo[scales.ROUNDS], memo[scales.HITS] = period, before * period
    needed = evidence.threshold(memo, float(period), delta) + _LEARNING * dim
    return needed / _information(rate, before)


def _information(after: float, before: float) -> float:
    """Divergence of clicks of probability `after` from what an incumbent expects that believes in `before`.

    ln1p keeps the digits of rates that differ by little.
    """
    change = (before - after) / after
    loss = (before - after) / (1.0 - after)
    information: float = -after * math.log1p(change) - (1.0 - after) * math.log1p(-loss)
    return information
