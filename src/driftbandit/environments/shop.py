"""A made-up shop: named users and items, a logger that is not uniform, rare clicks, and tastes that shift twice.

Everything that happens is known, so that what an audit says of the log can be held against the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from driftbandit.core import Floats, Ints, as_count
from driftbandit.environments.rates import logistic

if TYPE_CHECKING:
    import pyarrow as pa

SEGMENTS = ("student", "family", "senior", "business")
DEVICES = ("phone", "desktop", "tablet")
GENRES = ("jazz", "rock", "crime", "travel", "cooking", "science")
LOCAL = "student"
"""The segment whose tastes alone change at the second shift."""

_SHIFTS = (0.4, 0.7)
"""When tastes change, as shares of the log."""

_RATE = 0.05
"""Mean click rate of what the logger shows."""

_START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
_STEP = 30.0
"""Mean seconds between decisions."""

_ALIVE = 0.55
"""Least share of the log for which an item is on sale."""

_TASTE, _DEVICE, _ITEM = 0.9, 0.3, 0.25
"""Standard deviations, in log-odds: a segment's taste for a genre, a device's, and an item's own appeal."""

_SHARP = 0.7
"""How strongly the logger prefers what it takes for good: log-odds per unit of its score."""

_EXPLORE = 0.2
"""Share of decisions that the logger leaves to chance."""


@dataclass(frozen=True)
class Shop:
    """Settings of the shop.

    The log-odds of a click are those of the user's segment for the item's genre, plus those of the device for the
    genre, plus the item's appeal, less a part of its price. At the first shift every segment's taste for genres is
    drawn anew; at the second one, only that of students. The logger scores items by tastes it once learned, never
    learns again, and draws in proportion to exp(score), mixed with chance.

    Attributes
    ----------
    decisions : int
        Length of the log.
    items : int
        Items, of which some come and some go.
    pool : int
        Candidates of a decision.
    still : bool
        Whether tastes never shift.

    Examples
    --------
    >>> log = Shop(decisions=1000).log(seed=0)
    >>> log.shifts.tolist(), log.decisions.num_rows, log.items.num_rows
    ([400, 700], 1000, 30)
    >>> sorted(log.decisions.column_names)
    ['arm', 'arms', 'device', 'hour', 'propensity', 'reward', 'segment', 'time']
    >>> log.items.column_names
    ['id', 'genre', 'price', 'from', 'until']
    """

    decisions: int = 200_000
    items: int = 30
    pool: int = 10
    still: bool = False

    def __post_init__(self) -> None:
        for name in ("decisions", "items", "pool"):
            object.__setattr__(self, name, as_count(name, getattr(self, name)))
        if 2 * self.pool > self.items:
            raise ValueError(f"pool: expected at most half of {self.items} (items), got {self.pool}")

    def log(self, seed: int) -> ShopLog:
        """The log, and the truth behind it; the same seed and settings give the same, bit for bit."""
        item_rng, user_rng, taste_rng, pool_rng, logger_rng, click_rng = (
            np.random.default_rng([as_count("seed", seed, least=0), part]) for part in range(6)
        )
        n = self.decisions
        genre, price, born, gone = self._items(item_rng)
        segment = user_rng.choice(len(SEGMENTS), size=n, p=[0.3, 0.3, 0.2, 0.2])
        device = user_rng.choice(len(DEVICES), size=n, p=[0.6, 0.3, 0.1])
        times = _START + np.cumsum(user_rng.exponential(_STEP, size=n))
        shifts = np.empty(0, dtype=np.int64) if self.still else (np.array(_SHIFTS) * n).astype(np.int64)
        tastes = self._tastes(taste_rng)
        appeal = _ITEM * taste_rng.standard_normal(self.items)
        liking = _DEVICE * taste_rng.standard_normal((len(DEVICES), len(GENRES)))
        pools = _draw_pools(n, self.pool, born, gone, pool_rng)
        regime = np.searchsorted(shifts, np.arange(n), side="right")
        shown_genre = genre[pools]
        score = liking[device[:, None], shown_genre] + appeal[pools] - 0.6 * np.log(price[pools] / 20.0)
        odds = tastes[regime[:, None], segment[:, None], shown_genre] + score
        stale = 0.5 * tastes[0, segment[:, None], shown_genre] + score
        preferred = np.exp(_SHARP * stale)
        chances = _EXPLORE / self.pool + (1.0 - _EXPLORE) * preferred / preferred.sum(axis=1, keepdims=True)
        odds += _intercept(odds, chances)
        luck = logger_rng.random((n, 1))
        shown = np.minimum((np.cumsum(chances, axis=1) < luck).sum(axis=1), self.pool - 1)
        rates = logistic(odds)
        rewards = (click_rng.random((n, self.pool)) < rates).astype(np.float64)
        facts = _Facts(times, segment, device, genre, price, born, gone)
        return ShopLog(facts, pools, shown, chances, rates, rewards, shifts)

    def _items(self, rng: Generator) -> tuple[Ints, Floats, Floats, Floats]:
        """Genre, price, and from which to which share of the log each item is on sale."""
        genre = rng.permutation(np.arange(self.items) % len(GENRES))
        price = np.round(20.0 * np.exp(0.5 * rng.standard_normal(self.items)), 2)
        born = np.where(rng.random(self.items) < 0.4, rng.uniform(0.0, 1.0 - _ALIVE, self.items), 0.0)
        gone = np.where(rng.random(self.items) < 0.4, rng.uniform(born + _ALIVE, 1.0), 1.0)
        always = rng.choice(self.items, size=self.pool, replace=False)  # so that there is always a pool
        born[always], gone[always] = 0.0, 1.0
        return genre, price, born, gone

    def _tastes(self, rng: Generator) -> Floats:
        """Tastes in log-odds: regimes × segments × genres."""
        first, second = _TASTE * rng.standard_normal((2, len(SEGMENTS), len(GENRES)))
        third = second.copy()
        third[SEGMENTS.index(LOCAL)] = -second[SEGMENTS.index(LOCAL)]
        return np.stack([first, second, third])


@dataclass(frozen=True, eq=False)
class _Facts:
    times: Floats
    segment: Ints
    device: Ints
    genre: Ints
    price: Floats
    born: Floats
    gone: Floats


@dataclass(frozen=True, eq=False)
class ShopLog:
    """A log of the shop, with the truth.

    Attributes
    ----------
    pools : array of shape (n, K)
        Candidates, as rows of `items`.
    shown : array of shape (n,)
        Position of the displayed item.
    chances : array of shape (n, K)
        Probability with which the logger shows each candidate.
    rates : array of shape (n, K)
        True click rates of the candidates.
    rewards : array of shape (n, K)
        What each candidate would have earned; the log tells that of the displayed one.
    shifts : array
        Decisions at which tastes shift.
    """

    _facts: _Facts
    pools: Ints
    shown: Ints
    chances: Floats
    rates: Floats
    rewards: Floats
    shifts: Ints

    def __len__(self) -> int:
        return len(self.shown)

    def value(self, choices: Ints) -> float:
        """Expected reward per decision of playing these positions."""
        return float(np.take_along_axis(self.rates, choices[:, None], axis=1).mean())

    @property
    def decisions(self) -> pa.Table:
        """The log as a table: time, who asked, candidates, what was shown with which probability, and clicks."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        facts, rows = self._facts, np.arange(len(self))
        ids = pa.array(_ids(len(facts.genre)))
        offsets = pa.array(np.arange(0, self.pools.size + 1, self.pools.shape[1], dtype=np.int32))
        return pa.table(
            {
                "time": pa.array((facts.times * 1e6).astype("datetime64[us]")),
                "segment": pa.array(SEGMENTS).take(pa.array(facts.segment)),
                "device": pa.array(DEVICES).take(pa.array(facts.device)),
                "hour": pa.array(((facts.times % 86_400) // 3600).astype(np.int64)),
                "arms": pa.ListArray.from_arrays(offsets, ids.take(pa.array(self.pools.ravel()))),
                "arm": ids.take(pa.array(self.pools[rows, self.shown])),
                "propensity": self.chances[rows, self.shown],
                "reward": self.rewards[rows, self.shown],
            }
        )

    @property
    def items(self) -> pa.Table:
        """The item table: id, genre, price, and when it was on sale."""
        import pyarrow as pa  # noqa: PLC0415

        facts = self._facts
        first, last = facts.times[0], facts.times[-1]
        born, gone = (1e6 * (first + share * (last - first)) for share in (facts.born, facts.gone))
        return pa.table(
            {
                "id": _ids(len(facts.genre)),
                "genre": [GENRES[genre] for genre in facts.genre],
                "price": facts.price,
                "from": pa.array(born.astype("datetime64[us]")),
                "until": pa.array(gone.astype("datetime64[us]")),
            }
        )


def _ids(count: int) -> list[str]:
    return [f"item-{number:02d}" for number in range(count)]


def _draw_pools(count: int, size: int, born: Floats, gone: Floats, rng: Generator) -> Ints:
    """For each decision, `size` different items among those on sale."""
    share = np.arange(count)[:, None] / max(count, 1)
    keys = rng.random((count, len(born)))
    keys[(share < born) | (share >= gone)] = 2.0
    return np.argsort(keys, axis=1)[:, :size]


def _intercept(odds: Floats, chances: Floats) -> float:
    """What to add to the log-odds so that the logger's mean click rate is `_RATE`."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2.0
        rate = float((logistic(odds + middle) * chances).sum(axis=1).mean())
        low, high = (middle, high) if rate < _RATE else (low, middle)
    return (low + high) / 2.0
