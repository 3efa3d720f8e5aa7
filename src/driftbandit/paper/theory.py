"""The conditions under which the paper's theory promises detection, and its regret bounds.

Theorems 3.3 and 3.6, Lemma 3.5 and the appendix of the dLinUCB paper, with epsilon positive. The conditions are
sufficient, not necessary: all six columns of Table 1 violate one or more of them (three that on the shift, all those on
delta and window_delta), and all shifts there are detected.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import NormalDist

from driftbandit.core import as_count, as_number

_STEPS = 10_000  # nearly always, a few are enough


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
        Largest delta that Lemma 3.5 allows, with the epsilon of that delta; 0 if none will do.
    window : float
        Smallest window that Lemma 3.5 allows; infinite if none will do.
    window_delta_ceiling : float
        Largest window_delta that Theorem 3.3 allows.
    window_delta_floor : float
        Smallest window_delta for which Lemma 3.5 allows the given window; 1 if there is none.
    probability : float
        How likely the bounds hold, at least, with the largest delta and window_delta that the theory allows, or the
        given ones where those are smaller; 0 if none will do.
    bound : float
        Right-hand side of Theorem 3.3, for one member, with the lemma's window; infinite if there is none.
    bound_of_several : float
        Right-hand side of Theorem 3.6, for `members` members that differ by the gap most favourable to the bound.
    harmless_change : float
        By how much the reward of each arm that does not count as changed may change, at most, while a member that has
        learned a window of such rewards keeps a confidence bound of the same order (the appendix); infinite if all arms
        change.
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
    window_delta_floor: float
    probability: float
    bound: float
    bound_of_several: float
    harmless_change: float
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


def noise_bound(noise: float, delta: float) -> float:
    """What the noise of a reward exceeds with probability `delta`: the paper's epsilon, with a positive sign."""
    return -noise * NormalDist().inv_cdf(delta / 2.0)


def chance_of_bounds(delta: float, window_delta: float) -> float:
    """Probability with which Theorems 3.3 and 3.6 promise their bounds.

    >>> round(chance_of_bounds(0.01, 0.1), 3)
    0.792
    """
    return (1.0 - delta) * (1.0 - window_delta) * max(1.0 - window_delta / (1.0 - window_delta), 0.0)


def selection_bound(period: int, gap: float) -> float:
    """What a stage costs, by Theorem 3.6, for a further member whose reward differs from the best one's by `gap`."""
    return 8.0 * math.log(period) / gap + (1.0 + math.pi**2 / 3.0) * gap


def most_favourable_gap(period: int) -> float:
    """The gap for which `selection_bound` is smallest."""
    return math.sqrt(8.0 * max(math.log(period), 1e-9) / (1.0 + math.pi**2 / 3.0))


def _allowed_delta(delta: float, noise: float, shift: float, share: float, period: int, ridge: float) -> float:
    """The right-hand side of Lemma 3.5's condition on delta, which contains delta itself, in epsilon."""
    room = shift - 2.0 * math.sqrt(ridge) - 2.0 * noise_bound(noise, delta)
    return 1.0 - (1.0 - math.sqrt(ridge) * room / (2.0 * period * share)) / share


def _largest_delta(noise: float, shift: float, share: float, period: int, ridge: float) -> float:
    """The largest delta that is at most what it allows itself; 0 if there is none.

    A larger delta has a smaller epsilon and so allows more: from above, steps to what is allowed end at the largest
    delta, or below 0.
    """
    delta = 0.5
    for _ in range(_STEPS):
        allowed = _allowed_delta(delta, noise, shift, share, period, ridge)
        if allowed >= delta * (1.0 - 1e-12):
            return delta
        if allowed <= 0.0:
            return 0.0
        delta = allowed
    return 0.0


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
    members: int = 2,
) -> Advice:
    """Check a planned use of `DLinUCB` against the conditions of Theorem 3.3 and Lemma 3.5.

    Parameters
    ----------
    noise, shift, share, period, horizon :
        The world: standard deviation of rewards, change of an arm's expected reward at a shift, share of arms that
        change, rounds between shifts, and rounds in all.
    dim, ridge, delta, spawn_delta, window_delta, window :
        The policy, as in `DLinUCB`.
    members :
        How many members are active together, for the bound on several.

    Examples
    --------
    >>> advice = advise(noise=0.01, shift=0.9)
    >>> round(advice.least_shift, 3), advice.detectable, f"{advice.delta_ceiling:.2g}"
    (0.684, True, '3.7e-05')
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
    window, members = as_count("window", window), as_count("members", members)

    epsilon = noise_bound(noise, delta)
    least_shift = 2.0 * math.sqrt(ridge) + 2.0 * epsilon
    least_period = math.sqrt(ridge) * (shift - least_shift) / (2.0 * share)
    ceiling = _largest_delta(noise, shift, share, period, ridge)
    # With a delta that the lemma allows; with the given one if it allows none.
    used = min(delta, ceiling) if ceiling > 0.0 else delta
    margin = share * (1.0 - used) - used
    least_window = 2.0 * math.log(2.0 / window_delta) / margin**2 if margin > 0.0 else math.inf
    window_delta_ceiling = 1.0 / (2.0 * period)
    window_delta_floor = min(1.0, 2.0 * math.exp(-0.5 * window * margin**2)) if margin > 0.0 else 1.0
    periods = math.ceil(horizon / period)
    learning = stage_bound(dim=dim, period=period, noise=noise, ridge=ridge, delta=used)
    late = least_window + 4.0 / (1.0 - window_delta)
    choosing = (members - 1) * selection_bound(period, most_favourable_gap(period))
    foreign = (1.0 - share) * window  # rewards of arms that do not count as changed
    tolerance = noise**2 * math.sqrt(dim * math.log(1.0 + window / (ridge * used)))
    doubt = spawn_delta + math.sqrt(math.log(1.0 / window_delta) / 2.0 / window)
    likely = math.ceil(doubt * window)
    misses = next((count for count in range(max(likely - 2, 0), likely + 2) if count / window >= doubt), window + 1)
    conditions = (
        Condition("shift", f"at least {least_shift:.3f}", shift >= least_shift),
        Condition("period", f"above {max(least_period, 0.0):.3f} and the window", period > max(least_period, window)),
        Condition(
            "delta",
            f"at most {ceiling:.2g}" if ceiling > 0.0 else "less than any: no delta will do",
            delta <= _allowed_delta(delta, noise, shift, share, period, ridge),
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
        window_delta_floor=window_delta_floor,
        probability=chance_of_bounds(used, min(window_delta, window_delta_ceiling)) if ceiling > 0.0 else 0.0,
        bound=periods * (2.0 * learning + late),
        bound_of_several=periods * (learning + 2.0 * late + choosing),
        harmless_change=tolerance / foreign if foreign > 0.0 else math.inf,
        worst=2.0 * horizon,
        misses_to_spawn=misses if misses <= window else None,
        expected_delay=math.inf if misses > share * window else misses / share,
        conditions=conditions,
    )
