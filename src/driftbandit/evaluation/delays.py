"""The delay until DriftUCB finds a shift on clicks, from the click rate and the size of the shift.

Let the arms that a policy plays be clicked with probability q before a shift, and the same arms with p after it. Each
decision then brings, on average, the Kullback-Leibler divergence

    information = p ln(p / q) + (1 - p) ln((1 - p) / (1 - q))

nats of evidence against the incumbent, which still expects q. An alarm needs `evidence.threshold` nats, and a young
model that learns `dim` weights from p n clicks loses about dim / 2 ln(1 + p n / dim) nats while it learns. The delay is
the n for which

    n * information = threshold + dim / 2 * ln(1 + p n / dim).

That the logarithm counts clicks per feature, times 1, was chosen on simulated shifts; nothing else is fitted.
docs/detection.md says how far the formula is from what was measured.
"""

from __future__ import annotations

import math

import numpy as np

from driftbandit.core import as_count, as_number
from driftbandit.kernels.driftucb import scales
from driftbandit.kernels.driftucb.ladder import evidence

_LEAST_RATE, _LEAST_LIFT = 1e-9, 1.01  # with less, too few digits would be left
_ENOUGH = 1e-6  # relative change of the delay below which the iteration stops


def click_delay(rate: float, lift: float, *, dim: int = 10, period: int = 20_000, delta: float = 0.02) -> float:
    """Decisions that DriftUCB needs, typically, to find a shift on clicks.

    Parameters
    ----------
    rate : float
        Click rate, after the shift, of the arms that were played before it; after a change of tastes, about that of an
        average arm.
    lift : float
        How many times `rate` the same arms had before the shift. At 0.02 and 2, what is played falls from 4 % to 2 %.
    dim, delta :
        As in `DriftUCB`.
    period : int
        Rewards since the shift before; more of them make the alarm a little slower.

    Returns
    -------
    float
        Decisions from the shift to the alarm. If that is more than `period`, most shifts are not found.

    Raises
    ------
    ValueError
        If `lift` is not at least 1.01, or `lift * rate` not below 1.

    Examples
    --------
    >>> from driftbandit.evaluation.delays import click_delay
    >>> [round(click_delay(rate, lift=2.0)) for rate in (0.01, 0.02, 0.05)]
    [6093, 3064, 1199]
    >>> click_delay(0.4, 3.0)
    Traceback (most recent call last):
    ...
    ValueError: lift: 3 times a rate of 0.4 is not below 1; expected a lift below 2.5
    """
    rate = as_number("rate", rate, _LEAST_RATE, 1.0)
    lift = as_number("lift", lift, _LEAST_LIFT)
    dim, period = as_count("dim", dim), as_count("period", period)
    delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
    before = lift * rate
    if before >= 1.0:
        raise ValueError(f"lift: {lift:g} times a rate of {rate:g} is not below 1; expected a lift below {1 / rate:g}")
    information = click_information(rate, before)
    memo = np.zeros(scales.MEMO)
    memo[scales.ROUNDS], memo[scales.HITS] = period, before * period
    threshold = evidence.threshold(memo, float(period), delta)
    delay, last = threshold / information, 0.0
    while delay > (1.0 + _ENOUGH) * last:  # rises to its limit, because the logarithm is concave
        last, delay = delay, (threshold + 0.5 * dim * math.log1p(rate * delay / dim)) / information
    return delay


def click_information(after: float, before: float) -> float:
    """Nats per decision against a model that expects clicks at the rate `before` when their rate is `after`.

    >>> round(click_information(0.02, 0.04), 5)
    0.00634
    """
    fall = before - after
    # log1p, not the logarithm of a ratio: rates may differ by little.
    information: float = -after * math.log1p(fall / after) - (1.0 - after) * math.log1p(-fall / (1.0 - after))
    return information
