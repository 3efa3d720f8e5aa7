"""What is learned from a log besides the policies: a reward model, and the best arm. Both look at the past alone.

The reward model is one ridge regression of the rewards on the features of the displayed arms and a constant. At every
event it first predicts and then learns, so that no prediction has seen its own reward. It does not matter how the log
is cut into batches.
"""

from __future__ import annotations

import numpy as np

from driftbandit.core import Floats, Ints, as_number
from driftbandit.kernels import ridge as kernel
from driftbandit.kernels.compile import finite, jit
from driftbandit.logs import Events

_CONSTANT = 10.0
"""The constant feature. At this size the ridge weighs on the mean reward a hundred times less than on the features."""

UNIFORM = -1
"""Choice of a policy that plays all candidates alike."""


class RewardModel:
    """Predicts the rewards of a log event by event, from the events before.

    Parameters
    ----------
    dim : int
        Number of features.
    ridge : float
        Regularisation.
    bounded : bool
        Whether every arm's prediction is held between the smallest and the largest reward so far, 0 and 1 included.
        Confidence sequences of doubly robust estimates need that.

    Examples
    --------
    >>> events = Events(
    ...     features=np.ones((3, 1)), arms=[0, 0, 0], offsets=[0, 1, 2, 3], shown=[0, 0, 0], propensities=[1, 1, 1],
    ...     rewards=[1.0, 1.0, 1.0], scopes=[0, 0, 0], times=[0, 1, 2], rows=[0, 1, 2],
    ... )
    >>> model = RewardModel(1, ridge=1.0)
    >>> predicted, expected = model.follow(events, choices=np.zeros((1, 3), dtype=np.int64))
    >>> predicted.round(3).tolist(), expected.round(3).tolist()
    ([0.0, 0.99, 0.995], [[0.0, 0.99, 0.995]])
    """

    def __init__(self, dim: int, *, ridge: float = 1.0, bounded: bool = False) -> None:
        self._settings = np.array([as_number("ridge", ridge, 0.0, open_low=True), 0.0, 0.0, 0.0, 0.0])
        self._row = np.empty(kernel.row_size(dim + 1))
        kernel.reset(self._settings, self._row, dim + 1)
        self._bounded = bounded
        self._range = np.array([0.0, 1.0])

    def follow(self, events: Events, choices: Ints) -> tuple[Floats, Floats]:
        """Predictions for the displayed arm, shape (n,), and for each policy's choice, shape (policies, n).

        `choices` has shape (policies, n); `UNIFORM` stands for all candidates alike.
        """
        predicted = np.empty(len(events))
        expected = np.empty(choices.shape)
        _follow(
            self._settings, self._row, events.features, events.offsets, events.shown, events.rewards, choices,
            self._bounded, self._range, predicted, expected,
        )  # fmt: skip
        return predicted, expected


@jit
def _follow(
    settings: Floats,
    row: Floats,
    features: Floats,
    offsets: Ints,
    shown: Ints,
    rewards: Floats,
    choices: Ints,
    bounded: bool,
    ends: Floats,
    predicted: Floats,
    expected: Floats,
) -> None:
    """Predict and learn event after event; `ends` are the smallest and the largest reward so far."""
    d = features.shape[1]
    theta = row[kernel.THETA : kernel.THETA + d]
    x = np.full(d + 1, _CONSTANT)
    for event in range(len(shown)):
        start, stop = offsets[event], offsets[event + 1]
        mean = row[kernel.THETA + d] * _CONSTANT
        for policy in range(len(choices)):
            choice = choices[policy, event]
            first, last = (start, stop) if choice < 0 else (start + choice, start + choice + 1)
            total = 0.0
            for k in range(first, last):
                score = 0.0
                for i in range(d):
                    score += theta[i] * features[k, i]
                total += min(max(mean + score, ends[0]), ends[1]) - mean if bounded else score
            expected[policy, event] = mean + total / (last - first)
        x[:d] = features[start + shown[event]]
        z, score, square = kernel.project(settings, row, x)
        predicted[event] = min(max(score, ends[0]), ends[1]) if bounded else score
        ends[0], ends[1] = min(ends[0], rewards[event]), max(ends[1], rewards[event])
        if finite(square):
            kernel.absorb(row, z, rewards[event] - score, 1.0 + square)


class BestArm:
    """The candidate with the highest mean reward so far, self-normalised by propensity; the lowest index on a tie.

    After a while this is the best fixed arm. It is not chosen in hindsight, which would make it look better than it is.
    Arms that were never displayed come last.
    """

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self._gains = np.zeros(0)
        self._weights = np.zeros(0)

    def follow(self, events: Events) -> Ints:
        """Its choice at every event, each made before the event's reward is known."""
        ids, inverse = np.unique(events.arms, return_inverse=True)
        slots = np.array([self._slots.setdefault(arm, len(self._slots)) for arm in ids.tolist()], dtype=np.int64)
        more = len(self._slots) - len(self._gains)
        self._gains, self._weights = np.append(self._gains, np.zeros(more)), np.append(self._weights, np.zeros(more))
        choices = np.empty(len(events), dtype=np.int64)
        _best(
            self._gains, self._weights, slots[inverse], events.offsets, events.shown, events.propensities,
            events.rewards, choices,
        )  # fmt: skip
        return choices


@jit
def _best(
    gains: Floats,
    weights: Floats,
    slots: Ints,
    offsets: Ints,
    shown: Ints,
    propensities: Floats,
    rewards: Floats,
    choices: Ints,
) -> None:
    for event in range(len(shown)):
        start = offsets[event]
        best, highest = 0, -np.inf
        for k in range(offsets[event + 1] - start):
            slot = slots[start + k]
            if weights[slot] > 0.0 and gains[slot] / weights[slot] > highest:
                best, highest = k, gains[slot] / weights[slot]
        choices[event] = best
        slot = slots[start + shown[event]]
        weights[slot] += 1.0 / propensities[event]
        gains[slot] += rewards[event] / propensities[event]
