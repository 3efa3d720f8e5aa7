"""Learning from a list of arms that was seen from top to bottom.

A list is shown, best arm first (`rank`), and some of it is clicked. An arm that was not clicked may have been disliked,
or it was never looked at; learning 0 for both teaches a policy that whatever stands low is bad. The functions here say
what to learn from one list, as `Lesson` objects, under three assumptions about the person who looks at it:

- `naive`: looks at everything.
- `cascade`: looks from the top until something is clicked, and no further.
- `position_weighted`: looks at each position with a probability of its own, whatever is shown there. These
  probabilities are given, or estimated from a log by `examination_of`.

`learn_slate` teaches the lessons to a policy. docs/slates.md says which one to take, with measurements.

Examples
--------
>>> import numpy as np
>>> from driftbandit import LinUCB
>>> policy = LinUCB(dim=3)
>>> pool = np.eye(3)
>>> shown = policy.rank(pool, k=3)
>>> lessons = cascade([0, 1, 0])  # the second arm was clicked; whether the third was seen is not known
>>> [(lesson.position, lesson.reward) for lesson in lessons]
[(0, 0.0), (1, 1.0)]
>>> learn_slate(policy, pool[shown], lessons)
()
>>> policy.rank(pool, k=3)  # nothing is known of the third arm, so it is tried next
[2, 1, 0]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, Floats, Ints, as_count

Method = Literal["features", "rewards", "thinning"]

_LEAST = 1e-6
"""Least probability that is estimated: a position without clicks is not known to be never looked at."""

_SETTLED = 1e-9
"""The estimate is done when no probability moves by more than this in a step."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One reward to learn from a list.

    Attributes
    ----------
    position : int
        Place in the list, from 0 at the top.
    reward : float
        Reward to learn for the arm in this place.
    scale : float
        Factor of the arm's features in `learn`; 1 unless `position_weighted` says otherwise.
    """

    position: int
    reward: float
    scale: float = 1.0


def naive(clicks: ArrayLike) -> list[Lesson]:
    """Learn every position as it is: right if people look at the whole list.

    Parameters
    ----------
    clicks : array of shape (n,)
        Reward of every position, from the top; 0 where nothing was clicked.

    Examples
    --------
    >>> [lesson.reward for lesson in naive([0, 1, 0])]
    [0.0, 1.0, 0.0]
    """
    return [Lesson(position, reward) for position, reward in enumerate(_as_clicks(clicks).tolist())]


def cascade(clicks: ArrayLike) -> list[Lesson]:
    """Learn the positions down to the last click, and nothing below it.

    Someone who clicked there has looked at everything above, and perhaps at nothing below. A list without a click was
    seen to its end, or so it is assumed. Craswell, Zoeter, Taylor and Ramsey, WSDM 2008.

    Parameters
    ----------
    clicks : array of shape (n,)
        Reward of every position, from the top; whatever is not 0 is a click.

    Examples
    --------
    >>> [(lesson.position, lesson.reward) for lesson in cascade([0, 1, 0, 0])]
    [(0, 0.0), (1, 1.0)]
    >>> len(cascade([0, 0, 0, 0]))
    4
    """
    lessons = naive(clicks)
    clicked = [lesson.position for lesson in lessons if lesson.reward]
    return lessons[: clicked[-1] + 1] if clicked else lessons


def position_weighted(
    clicks: ArrayLike,
    examination: ArrayLike,
    method: Method = "features",
    generator: np.random.Generator | None = None,
) -> list[Lesson]:
    """Learn every position by how likely it was looked at.

    A click at position p is taken to need two things, that p is looked at (probability e_p) and that the arm is liked
    (probability a), so that its rate is e_p a. `learn` takes no weights; there are three ways to do without.

    Parameters
    ----------
    clicks : array of shape (n,)
        Reward of every position, from the top.
    examination : array of shape (n,) or longer
        Probability of looking at each position, above 0 and at most 1. Only their ratios matter for the order of arms.
    method : {'features', 'rewards', 'thinning'}
        'features': the click is learned for e_p x. Right for models that are linear in the features, since then e_p a =
        (e_p x)'theta: a position that is hardly looked at teaches hardly anything. 'thinning': clicks are learned, and
        what was not clicked only with probability e_p; rates come out a little low, a / (1 + a - e_p a), for any model,
        also for one without features. 'rewards': the reward is divided by e_p, which is right on average and noisy; a
        policy that looks for changes takes this noise for changes, over and over.
    generator : numpy.random.Generator, optional
        What decides in 'thinning', which needs one.

    Examples
    --------
    >>> position_weighted([0, 1], [1.0, 0.5])[1]
    Lesson(position=1, reward=1.0, scale=0.5)
    >>> position_weighted([0, 1], [1.0, 0.5], method="rewards")[1]
    Lesson(position=1, reward=2.0, scale=1.0)
    """
    rewards = _as_clicks(clicks)
    seen = _as_examination(examination, len(rewards))
    places = range(len(rewards))
    if method == "features":
        return [Lesson(place, float(rewards[place]), float(seen[place])) for place in places]
    if method == "rewards":
        return [Lesson(place, float(rewards[place] / seen[place])) for place in places]
    if method != "thinning":
        raise ValueError(f"method: expected 'features', 'rewards' or 'thinning', got {method!r}")
    if generator is None:
        raise ValueError("generator: 'thinning' needs a numpy.random.Generator, got None")
    kept = (rewards != 0.0) | (generator.random(len(rewards)) < seen)
    return [Lesson(place, float(rewards[place])) for place in places if kept[place]]


def learn_slate(
    policy: Any, features: ArrayLike | None, lessons: Iterable[Lesson], arms: ArrayLike | None = None, **asked: Any
) -> tuple[Change, ...]:
    """Teach a policy what a list has shown, from top to bottom; returns the changes that this revealed.

    Parameters
    ----------
    policy : Policy or ScopedPolicy
        The policy that learns.
    features : array of shape (n, dim), or None
        Features of the arms in the list, from the top: ``pool[policy.rank(pool, k)]``. None for a context-free policy.
    lessons : iterable of Lesson
        What `naive`, `cascade` or `position_weighted` returned.
    arms : array of shape (n,), optional
        Ids of the arms in the list, for a policy that needs them.
    **asked :
        Further arguments of `learn`, such as `scope`.

    Raises
    ------
    ValueError
        If the list is shorter than a lesson's position, or lessons scale features that are not there. Nothing is
        learned then.
    """
    rows = None if features is None else np.asarray(features)
    ids = None if arms is None else np.asarray(arms)
    lessons = list(lessons)
    for name, given in (("features", rows), ("arms", ids)):
        if given is not None and lessons and (not given.ndim or max(x.position for x in lessons) >= len(given)):
            raise ValueError(f"{name}: expected one for each position of the list, got shape {given.shape}")
    if rows is None and any(lesson.scale != 1.0 for lesson in lessons):
        raise ValueError("features: expected those that method='features' scales, got None; use method='thinning'")
    changes: tuple[Change, ...] = ()
    for lesson in lessons:
        x = None if rows is None else rows[lesson.position]
        if x is not None and lesson.scale != 1.0:
            x = lesson.scale * x
        arm = None if ids is None else int(ids[lesson.position])
        changes += tuple(policy.learn(x, lesson.reward, arm, **asked))
    return changes


def examination_of(clicks: ArrayLike, arms: ArrayLike | None = None, *, most_steps: int = 10_000) -> Floats:
    """Estimate from a log of lists how likely each position is looked at, the likeliest as 1.

    Without `arms`, lists must have been in random order: every position then shows arms that are equally good on
    average, and e_p is proportional to the rate of clicks at p. With `arms`, order may be anything that shows the same
    arm in different positions, and e_p and each arm's own rate a are fitted together, so that e_p a_i fits the clicks
    best (maximum likelihood by expectation maximisation). This takes an arm's rate to be the same for everyone and at
    all times, so it should be a stretch of the log without changes. Wang, Golbandi, Bendersky, Metzler and Najork, WSDM
    2018.

    Parameters
    ----------
    clicks : array of shape (lists, n)
        Whether each position was clicked, 0 or 1, from the top.
    arms : array of shape (lists, n), optional
        Id of the arm in each position.
    most_steps : int
        Most steps of the fit.

    Returns
    -------
    array of shape (n,)
        Relative probabilities; a position that was never clicked gets 1e-6.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> liked = rng.random((20_000, 3)) < 0.3
    >>> seen = rng.random((20_000, 3)) < [1.0, 0.5, 0.2]
    >>> examination_of(liked & seen).round(1).tolist()
    [1.0, 0.5, 0.2]
    """
    table = np.asarray(clicks, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isin(table, (0.0, 1.0)).all():
        raise ValueError(f"clicks: expected zeros and ones of shape (lists, n), got shape {table.shape}")
    if not table.any():
        raise ValueError("clicks: expected at least one click, got none")
    if arms is None:
        return _relative(table.mean(axis=0))
    ids = np.asarray(arms)
    if ids.shape != table.shape:
        raise ValueError(f"arms: expected shape {table.shape}, as clicks have, got {ids.shape}")
    _, rows = np.unique(ids, return_inverse=True)
    return _fit(rows.reshape(table.shape), table, as_count("most_steps", most_steps))


def _fit(rows: Ints, table: Floats, most_steps: int) -> Floats:
    """Maximise the likelihood of clicks with rates e_p a_i, from how often each arm was shown and clicked where."""
    places = np.broadcast_to(np.arange(table.shape[1]), table.shape)
    size = (int(rows.max()) + 1, table.shape[1])
    shown, clicked = np.zeros(size), np.zeros(size)
    np.add.at(shown, (rows, places), 1.0)
    np.add.at(clicked, (rows, places), table)
    seen = np.full(size[1], 0.5)
    liked = np.full((size[0], 1), 0.5)
    for _ in range(most_steps):
        missed = (shown - clicked) / np.maximum(1.0 - seen * liked, _LEAST)
        # Of what was shown without a click, the part that was looked at, and the part that was liked.
        now_seen = (clicked + missed * seen * (1.0 - liked)).sum(axis=0) / shown.sum(axis=0)
        now_liked = (clicked + missed * liked * (1.0 - seen)).sum(axis=1, keepdims=True) / shown.sum(
            axis=1, keepdims=True
        )
        moved = max(np.abs(now_seen - seen).max(), np.abs(now_liked - liked).max())
        seen, liked = now_seen, now_liked
        if moved < _SETTLED:
            break
    return _relative(seen)


def _relative(seen: Floats) -> Floats:
    """Probabilities as shares of the largest, none of them 0."""
    shares: Floats = np.maximum(seen / seen.max(), _LEAST)
    return shares


def _as_clicks(clicks: ArrayLike) -> Floats:
    array = _as_numbers("clicks", clicks)
    if not len(array):
        raise ValueError("clicks: expected at least one position, got an empty list")
    return array


def _as_examination(examination: ArrayLike, count: int) -> Floats:
    array = _as_numbers("examination", examination)
    if len(array) < count or not ((array > 0.0) & (array <= 1.0)).all():
        raise ValueError(
            f"examination: expected a number above 0 and at most 1 for each of {count} positions, got {examination!r}"
        )
    return array


def _as_numbers(name: str, given: ArrayLike) -> Floats:
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: expected real numbers of shape (n,), got {given!r}") from error
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers of shape (n,), got {given!r}")
    return array
