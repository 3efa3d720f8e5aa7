"""The conditions under which the paper's theory promises detection, and its regret bound.

Theorem 3.3 and Lemma 3.5 of the dLinUCB paper, with epsilon positive. The conditions are sufficient, not necessary:
three of the six columns of Table 1 violate them, and all shifts there are detected.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist

from driftbandit.core import as_count, as_number


@dataclass(frozen=True)
class Condition:
    """One condition of the theory: what it asks for and whether it holds."""

    name: str
    asks: str
    holds: bool


@dataclass(frozen=True)
class Advice:
    """What the theory says about a planned use.

    Attributes
    ----------
    epsilon : float
        Bound on the noise of a reward at the given delta.
    least_shift : float
        Smallest shift covered by Theorem 3.3: 2 sqrt(ridge) + 2 epsilon.
    detectable : bool
        Whether the shift is at least that large.
    delta_ceiling : float
        Largest delta that Lemma 3.5 allows; not positive if none will do.
    window : float
        Smallest window that Lemma 3.5 allows; infinite if none will do.
    window_delta_ceiling : float
        Largest window_delta that Theorem 3.3 allows.
    bound : float
        Right-hand side of Theorem 3.3 with the lemma's window; infinite if there is none.
    worst : float
        Regret of losing as much as possible, 2, in every round: a bound above it says nothing.
    misses_to_spawn : int or None
        Misses in a full, otherwise clean window before a member is spawned; None if the window is too short for any.
    expected_delay : float
        Rounds until these misses, if every changed arm misses and no other does; infinite if the window would hold too
        few misses.
    conditions : tuple of Condition
        All conditions, in the order of the paper.
    """

    epsilon: float
    least_shift: float
    detectable: bool
    delta_ceiling: float
    window: float
    window_delta_ceiling: float
    bound: float
    worst: float
    misses_to_spawn: int | None
    expected_delay: float
    conditions: tuple[Condition, ...]

    def as_dict(self) -> dict[str, object]:
        """Plain numbers, for JSON; values that are not finite become None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


def stage_bound(*, dim: int, period: int, noise: float, ridge: float, delta: float) -> float:
    """Bound on the regret of one linear model in a stage without changes, R_Lin(S) in the paper.

    >>> round(stage_bound(dim=10, period=800, noise=0.05, ridge=0.1, delta=0.01), 1)
    64.7
    """
    return math.sqrt(dim * period * max(math.log(ridge + period / dim), 0.0)) * (
        noise**2 * math.sqrt(dim * math.log(1.0 + period / (ridge * delta))) + math.sqrt(ridge)
    )


def advise(
    *,
    noise: float,
    shift: float,
    share: float = 1.0,
    period: int = 800,
    horizon: int = 5000,
    dim: int = 10,
    ridge: float = 0.1,
    delta: float = 0.01,
    spawn_delta: float = 0.002,
    window_delta: float = 0.1,
    window: int = 200,
) -> Advice:
    """Check a planned use of `DLinUCB` against the conditions of Theorem 3.3 and Lemma 3.5.

    Parameters
    ----------
    noise, shift, share, period, horizon :
        The world: standard deviation of rewards, change of an arm's expected reward at a shift, share of arms that
        change, rounds between shifts, and rounds in all.
    dim, ridge, delta, spawn_delta, window_delta, window :
        The policy, as in `DLinUCB`.

    Examples
    --------
    >>> advice = advise(noise=0.05, shift=0.9)
    >>> round(advice.least_shift, 3), advice.detectable, f"{advice.delta_ceiling:.1g}"
    (0.89, True, '2e-06')
    >>> advise(noise=0.1, shift=0.9).detectable
    False
    """
    noise = as_number("noise", noise, 0.0)
    shift = as_number("shift", shift, 0.0)
    share = as_number("share", share, 0.0, 1.0, open_low=True)
    ridge = as_number("ridge", ridge, 0.0, open_low=True)
    delta = as_number("delta", delta, 0.0, 0.5, open_low=True)
    spawn_delta = as_number("spawn_delta", spawn_delta, 0.0, delta)
    window_delta = as_number("window_delta", window_delta, 0.0, 0.5, open_low=True)
    period, horizon, dim = as_count("period", period), as_count("horizon", horizon), as_count("dim", dim)
    window = as_count("window", window)

    epsilon = noise * NormalDist().inv_cdf(1.0 - delta / 2.0)
    least_shift = 2.0 * math.sqrt(ridge) + 2.0 * epsilon
    room = shift - least_shift
    least_period = math.sqrt(ridge) * room / (2.0 * share)
    ceiling = 1.0 - (1.0 - math.sqrt(ridge) * room / (2.0 * period * share)) / share
    # With a delta that the lemma allows; with the given one if it allows none.
    used = min(delta, ceiling) if ceiling > 0.0 else delta
    margin = share * (1.0 - used) - used
    least_window = 2.0 * math.log(2.0 / window_delta) / margin**2 if margin > 0.0 else math.inf
    window_delta_ceiling = 1.0 / (2.0 * period)
    periods = math.ceil(horizon / period)
    learning = stage_bound(dim=dim, period=period, noise=noise, ridge=ridge, delta=used)
    bound = 2.0 * periods * learning + periods * (least_window + 4.0 / (1.0 - window_delta))
    doubt = spawn_delta + math.sqrt(math.log(1.0 / window_delta) / 2.0 / window)
    likely = math.ceil(doubt * window)
    misses = next((count for count in range(max(likely - 2, 0), likely + 2) if count / window >= doubt), window + 1)
    conditions = (
        Condition("shift", f"at least {least_shift:.3f}", shift >= least_shift),
        Condition("period", f"above {max(least_period, 0.0):.3f} and the window", period > max(least_period, window)),
        Condition(
            "delta",
            f"at most {ceiling:.2g}" if ceiling > 0.0 else f"at most {ceiling:.2g}: no delta will do",
            delta <= ceiling,
        ),
        Condition(
            "window",
            f"at least {math.ceil(least_window)}" if margin > 0.0 else "longer than any",
            window >= least_window,
        ),
        Condition("window_delta", f"at most {window_delta_ceiling:.2g}", window_delta <= window_delta_ceiling),
    )
    return Advice(
        epsilon=epsilon,
        least_shift=least_shift,
        detectable=shift >= least_shift,
        delta_ceiling=ceiling,
        window=least_window,
        window_delta_ceiling=window_delta_ceiling,
        bound=bound,
        worst=2.0 * horizon,
        misses_to_spawn=misses if misses <= window else None,
        expected_delay=math.inf if misses > share * window else misses / share,
        conditions=conditions,
    )
