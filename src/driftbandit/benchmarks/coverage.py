"""How often do intervals of values hold the truth? A study on made-up logs that drift.

``python -m driftbandit.benchmarks.coverage`` prints the table of docs/evaluation.md. In each log the click rates of
four arms swing, and once they are shuffled; the logger follows the clicks with 20 % at random; the policy, which
learns every click with a discount, shows what it takes for the best arm. So the world drifts, the logger adapts and
the policy learns: only the chances at each event, given the past, are as the estimators assume. The truth is the mean
over events of the click rate of the policy's choice.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial

import numpy as np

from driftbandit.core import Floats
from driftbandit.evaluation.anytime import confidence_sequence, difference_sequence
from driftbandit.evaluation.robust_sequences import dr_sequence
from driftbandit.evaluation.samples import Sample
from driftbandit.evaluation.value_intervals import bootstrap_interval, normal_interval

_ARMS = 4
_RANDOM = 0.2
_KEPT = 0.99
_LOOK = 10


@dataclass(frozen=True, eq=False)
class Logs:
    """Many logs at once.

    Attributes
    ----------
    weights, rewards, predicted, expected : arrays of shape (logs, events)
        As in `Sample`.
    values, logged : arrays of shape (logs, events)
        True click rate of the policy's choice, and of the logger, at each event.
    """

    weights: Floats
    rewards: Floats
    predicted: Floats
    expected: Floats
    values: Floats
    logged: Floats


def drifting_logs(logs: int, events: int, seed: int) -> Logs:
    """Make up logs, all of them one event at a time.

    >>> made = drifting_logs(2, 50, seed=0)
    >>> made.weights.shape, bool((made.weights <= 20.0).all())
    ((2, 50), True)
    """
    rng = np.random.default_rng(seed)
    phase, base = 6.0 * rng.random((logs, _ARMS)), 0.1 + 0.5 * rng.random((logs, _ARMS))
    shuffled = rng.permuted(base, axis=1)
    shift = rng.integers(events // 4, 3 * events // 4, size=(logs, 1))
    gains, seen = np.full((logs, _ARMS), 0.5), np.ones((logs, _ARMS))
    everyone = np.arange(logs)
    found = {name: np.empty((logs, events)) for name in Logs.__dataclass_fields__}
    for t in range(events):
        level = np.where(t < shift, base, shuffled)
        rates = level * (1.0 + 0.5 * np.sin(phase + 12.0 * t / events))
        means = gains / seen
        chances = _RANDOM / _ARMS + (1.0 - _RANDOM) * means / means.sum(axis=1, keepdims=True)
        shown = (rng.random((logs, 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
        best = means.argmax(axis=1)
        rewards = (rng.random(logs) < rates[everyone, shown]).astype(np.float64)
        found["weights"][:, t] = (shown == best) / chances[everyone, shown]
        found["rewards"][:, t] = rewards
        found["predicted"][:, t] = means[everyone, shown]
        found["expected"][:, t] = means[everyone, best]
        found["values"][:, t] = rates[everyone, best]
        found["logged"][:, t] = (chances * rates).sum(axis=1)
        gains, seen = _KEPT * gains + 0.005, _KEPT * seen + 0.01
        gains[everyone, shown] += rewards
        seen[everyone, shown] += 1.0
    return Logs(**found)


def study(logs: int = 1000, events: int = 2000, seed: int = 0, *, resamples: int = 2000) -> dict[str, float]:
    """Share of logs in which each interval holds the truth: at the end, or at all looks for a confidence sequence."""
    made = drifting_logs(logs, events, seed)
    looks = np.arange(_LOOK, events + 1, _LOOK)
    largest = _ARMS / _RANDOM
    resampled = partial(bootstrap_interval, resamples=resamples)
    held: dict[str, list[bool]] = {}
    for log in range(logs):
        weights, rewards = made.weights[log], made.rewards[log]
        sample = Sample(weights, rewards, made.predicted[log], made.expected[log])
        logger = Sample(np.ones(events), rewards, rewards, rewards)
        truth, gap = float(made.values[log].mean()), float((made.values[log] - made.logged[log]).mean())
        for estimator in ("ips", "snips", "dr", "sndr"):
            terms = sample.terms(estimator)
            for name, interval in (("bootstrap", resampled), ("normal", normal_interval)):
                alone = interval(terms)
                held.setdefault(f"{name}, {estimator}", []).append(alone.low <= truth <= alone.high)
                if estimator == "dr":
                    paired = interval(terms, logger.terms(estimator))
                    held.setdefault(f"{name}, difference", []).append(paired.low <= gap <= paired.high)
        running = (np.cumsum(made.values[log]) / np.arange(1, events + 1))[looks - 1]
        gaps = (np.cumsum(made.values[log] - made.logged[log]) / np.arange(1, events + 1))[looks - 1]
        for name, most in (("sequence", None), ("sequence, largest weight known", largest)):
            found = confidence_sequence(weights, rewards, largest_weight=most, at=looks)
            held.setdefault(name, []).append(bool(((found.low <= running) & (running <= found.high)).all()))
        found = difference_sequence(
            weights, np.ones(events), rewards, largest_weight=largest, other_largest=1.0, at=looks
        )
        held.setdefault("sequence, difference", []).append(bool(((found.low <= gaps) & (gaps <= found.high)).all()))
        found = dr_sequence(sample, largest_weight=largest, at=looks)
        held.setdefault("sequence, dr", []).append(bool(((found.low <= running) & (running <= found.high)).all()))
        found = dr_sequence(sample, logger, largest_weight=largest, other_largest=1.0, at=looks)
        held.setdefault("sequence, dr difference", []).append(bool(((found.low <= gaps) & (gaps <= found.high)).all()))
    return {name: float(np.mean(hits)) for name, hits in held.items()}


def table(shares: dict[str, float], logs: int) -> str:
    """The study as Markdown."""
    lines = [f"| 95 % interval | holds the truth in % of {logs:,} logs |", "|---|---:|"]
    for name, share in sorted(shares.items()):
        when = "at all looks" if name.startswith("sequence") else "at the end"
        lines.append(f"| {name} ({when}) | {100 * share:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(table(study(options.logs, options.events, options.seed), options.logs))
