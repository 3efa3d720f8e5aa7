"""Can this log be trusted? Do its propensities add up, and does it hold enough of what was not usual?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from driftbandit.core import Floats
from driftbandit.logs import Decisions

_SUSPICIOUS = 1e-3
"""p-value below which propensities are said not to add up; a sound log is accused once in a thousand times."""

_LATE = 0.01
"""Share of the log's time that rewards may take to come before its end is called unfinished."""

_PER_OCTAVE = 8
"""Steps into which delays are sorted between a time and its double: a delay is known to 9 %."""

_SHORTEST = 1e-3
"""Delays below this many seconds are all the same."""

_THIN = 0.1
"""Effective share of the log below which support is called thin."""


@dataclass(frozen=True)
class Trust:
    """What a log's own numbers say about it.

    Attributes
    ----------
    decisions : int
        Decisions that can be used.
    arms : int
        Different arms that were shown.
    pool : float
        Mean number of candidates.
    mean_reward, spread : float
        What the logger earned per decision, and the standard deviation of that.
    lowest, highest : float
        Range of the rewards.
    clicks : bool
        Whether rewards are 0 or one other value.
    smallest : float
        Smallest propensity; NaN without propensities.
    largest_weight : float
        Largest weight of a decision when the uniform policy is evaluated.
    effective : float
        Decisions of a uniform log that would tell as much about the uniform policy.
    uniform_mean : float
        Mean of 1 / (pool size × propensity), which is 1 if propensities are right.
    uniform_error : float
        Its standard error.
    p_value : float
        Probability of arms being shown this far from how often their propensities say, if these are right; see
        `TrustCheck`.
    in_order : bool
        Whether times never go back.
    half_within, most_within : float or None
        Seconds within which half of the rewards came, and 99 %, to about 9 %; None if the log does not say when.
    span : float
        Seconds from the first decision to the last.
    """

    decisions: int
    arms: int
    pool: float
    mean_reward: float
    spread: float
    lowest: float
    highest: float
    clicks: bool
    smallest: float
    largest_weight: float
    effective: float
    uniform_mean: float
    uniform_error: float
    p_value: float
    in_order: bool
    half_within: float | None
    most_within: float | None
    span: float

    @property
    def warnings(self) -> list[str]:
        """What a reader should know before believing any number below; empty if all is well."""
        said = []
        if self.p_value < _SUSPICIOUS:
            said.append(
                "The propensities do not add up: arms were shown more or less often than their propensities say "
                f"(p = {self.p_value:.1g}). Values of other policies cannot be trusted until that is explained."
            )
        if abs(self.uniform_mean - 1.0) > 5.0 * self.uniform_error and self.p_value >= _SUSPICIOUS:
            said.append(
                f"The mean of 1 / (candidates × propensity) is {self.uniform_mean:.3g}, where 1 is right: some "
                "candidates may never be shown, or propensities are wrong."
            )
        if self.effective < _THIN * self.decisions:
            said.append(
                f"Support is thin: for the uniform policy the log is worth {self.effective:,.0f} of its "
                f"{self.decisions:,} decisions."
            )
        if self.lowest == self.highest:
            said.append(f"Every reward is {self.lowest:g}: nothing can be compared. Decisions without one need a 0.")
        if not self.in_order:
            said.append("Times go back at some rows: decisions are taken in the order of the file.")
        if self.most_within is not None and self.most_within > _LATE * self.span:
            said.append(
                f"Rewards come late: one in a hundred took longer than {duration(self.most_within)}, and the log "
                f"covers {duration(self.span)}. Rewards of its last decisions may not have come yet, which looks "
                "like a change."
            )
        return said


def duration(seconds: float) -> str:
    """A time span in words.

    >>> duration(0.25), duration(90), duration(7200), duration(5e5)
    ('0.25 s', '1.5 min', '2 h', '5.8 d')
    """
    size, unit = next(
        (size, unit) for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (0, "s")) if seconds >= size
    )
    return f"{seconds / (size or 1):.2g} {unit}"


class TrustCheck:
    """Sums over a log, one batch of decisions after the other.

    A decision that showed an arm with probability p counts 1 / p for that arm. If propensities are right, an arm's sum
    is about the number of decisions that had it among their candidates; the squared distances, divided by their
    variances, add up to a chi-squared statistic with a degree of freedom for each arm.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> shown = rng.integers(0, 2, size=1000)
    >>> check = TrustCheck()
    >>> check.add(Decisions(
    ...     columns={}, members=np.tile([0, 1], 1000), offsets=np.arange(0, 2001, 2), shown=shown,
    ...     propensities=np.where(shown == 0, 0.5, 0.1), rewards=np.zeros(1000), scopes=np.zeros(1000),
    ...     times=np.arange(1000), rows=np.arange(1000),
    ... ))
    >>> check.result().warnings[0][:33]
    'The propensities do not add up: a'
    """

    def __init__(self) -> None:
        self._by_arm = np.zeros((4, 0))  # pools with the arm, times shown, sum of 1 / p, its variance
        self._count = self._candidates = 0
        self._reward = self._square = self._weights = self._weight_squares = 0.0
        self._smallest, self._largest = math.inf, 0.0
        self._values: set[float] = set()
        self._lowest, self._highest = math.inf, -math.inf
        self._first, self._latest, self._in_order = math.nan, -math.inf, True
        self._delays = np.zeros(0, dtype=np.int64)  # how many took so many steps of a doubling

    def add(self, decisions: Decisions) -> None:
        """Count some decisions."""
        if not len(decisions):
            return
        sizes = np.diff(decisions.offsets)
        arms, p = decisions.displayed(), decisions.propensities
        with np.errstate(divide="ignore"):
            weights: Floats = 1.0 / (sizes * p)
        missing = int(decisions.members.max()) + 1 - self._by_arm.shape[1]
        self._by_arm = np.pad(self._by_arm, ((0, 0), (0, max(missing, 0))))
        width = self._by_arm.shape[1]
        self._by_arm[0] += np.bincount(decisions.members, minlength=width)
        for row, weight in enumerate((np.ones(len(p)), 1.0 / p, (1.0 - p) / p**2), 1):
            self._by_arm[row] += np.bincount(arms, weight, minlength=width)
        self._count += len(decisions)
        self._candidates += len(decisions.members)
        self._reward += float(decisions.rewards.sum())
        self._square += float((decisions.rewards**2).sum())
        self._lowest = min(self._lowest, float(decisions.rewards.min()))
        self._highest = max(self._highest, float(decisions.rewards.max()))
        self._weights += float(weights.sum())
        self._weight_squares += float((weights**2).sum())
        self._smallest = min(self._smallest, float(p.min()))
        self._largest = max(self._largest, float(weights.max()))
        if len(self._values) <= 2:
            self._values.update(np.unique(decisions.rewards)[:3].tolist())
        if math.isnan(self._first):
            self._first = float(decisions.times[0])
        self._in_order &= bool(decisions.times[0] >= self._latest and (np.diff(decisions.times) >= 0).all())
        self._latest = float(decisions.times[-1])
        if decisions.delays is not None:
            self._add_delays(decisions.delays[np.isfinite(decisions.delays)])

    def _add_delays(self, delays: Floats) -> None:
        steps = np.ceil(_PER_OCTAVE * np.log2(np.maximum(delays, _SHORTEST) / _SHORTEST)).astype(np.int64)
        counts = np.bincount(steps, minlength=len(self._delays))
        counts[: len(self._delays)] += self._delays
        self._delays = counts

    def _within(self, share: float) -> float | None:
        """Seconds within which a share of the rewards came; None if no delay is known."""
        total = np.cumsum(self._delays)
        if not len(total) or not total[-1]:
            return None
        step = int(np.searchsorted(total, share * total[-1]))
        return _SHORTEST * float(2.0 ** (step / _PER_OCTAVE))

    def result(self) -> Trust:
        """What the sums say; raises ValueError without a single decision."""
        n = self._count
        if not n:
            raise ValueError("log: expected at least one decision, got none")
        told = self._by_arm[3] > 0.0
        offered, _, sums, variances = self._by_arm[:, told]
        chi_squared = float(((sums - offered) ** 2 / variances).sum())
        mean = self._weights / n
        return Trust(
            decisions=n,
            arms=int((self._by_arm[1] > 0).sum()),
            pool=self._candidates / n,
            mean_reward=self._reward / n,
            spread=math.sqrt(max(self._square / n - (self._reward / n) ** 2, 0.0)),
            lowest=self._lowest,
            highest=self._highest,
            clicks=len(self._values) <= 2 and 0.0 in self._values,
            smallest=self._smallest,
            largest_weight=self._largest,
            effective=self._weights**2 / self._weight_squares if self._weight_squares > 0.0 else math.nan,
            uniform_mean=mean,
            uniform_error=math.sqrt(max(self._weight_squares / n - mean**2, 0.0) / n),
            p_value=float(stats.chi2.sf(chi_squared, int(told.sum()))) if told.any() else 1.0,
            in_order=self._in_order,
            half_within=self._within(0.5),
            most_within=self._within(0.99),
            span=max(self._latest - self._first, 0.0),
        )
