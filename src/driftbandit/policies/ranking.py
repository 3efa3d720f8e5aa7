"""The best arms of a pool in order: by their scores in one pass, or by choosing again and again from those left."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import TIE, Floats, as_count


def rank(policy: Any, features: ArrayLike | None, k: int, arms: ArrayLike | None = None, **asked: Any) -> list[int]:
    """Indices of the `k` best arms, best first, from any policy; the same as its `rank` if it has one.

    Policies of your own need no `rank`: a policy that does not say ``ranks_by_scores`` is asked `k` times, each time
    without the arms that it has chosen already.

    Examples
    --------
    >>> class Last:
    ...     def choose(self, features, arms=None):
    ...         return len(features) - 1
    >>> rank(Last(), [[1.0], [2.0], [3.0]], k=2)
    [2, 1]
    """
    k = as_count("k", k)
    if not getattr(policy, "ranks_by_scores", False):
        return _by_choice(policy, features, k, arms, asked)
    if policy.is_random:  # one draw decides the whole order
        return best_first(policy.scores(features, arms, **asked), k, policy.tie_is_relative)
    # Two compiled loops may round the same score differently, so `choose` itself names the first.
    first = int(policy.choose(features, arms, **asked))
    if k == 1:
        return [first]
    others = best_first(policy.scores(features, arms, **asked), k, policy.tie_is_relative, first)
    return [first, *others]


def best_first(scores: Floats, k: int, relative: bool = False, without: int | None = None) -> list[int]:
    """Indices of the `k` highest scores, all of them if there are fewer; `without` one that is already taken.

    In each place stands the lowest index among the scores that tie with the highest one left: those within `TIE` of it,
    or, if `relative`, within this share of it.

    Examples
    --------
    >>> best_first(np.array([1.0, 3.0, 2.0, 3.0 + 1e-13]), 3)
    [1, 3, 2]
    """
    order = np.argsort(-scores, kind="stable")
    if without is not None:
        order = order[order != without]
        k -= 1
    ranked: list[int] = []
    taken = np.zeros(len(order), dtype=bool)
    tied: list[tuple[int, int]] = []  # index and place in `order` of the scores that tie with the highest one left
    highest = reached = 0
    while len(ranked) < min(k, len(order)):
        while taken[highest]:
            highest += 1
        best = float(scores[order[highest]])
        least = best - (TIE * abs(best) if relative else TIE)
        while reached < len(order) and scores[order[reached]] >= least:
            heappush(tied, (int(order[reached]), reached))
            reached += 1
        index, place = heappop(tied)
        taken[place] = True
        ranked.append(index)
    return ranked


def _by_choice(
    policy: Any, features: ArrayLike | None, k: int, arms: ArrayLike | None, asked: dict[str, Any]
) -> list[int]:
    """Choose `k` times, each time from the arms that are left."""
    sizes = [len(given) for given in (features, arms) if hasattr(given, "__len__")]  # type: ignore[arg-type]
    if len(set(sizes)) > 1:
        raise ValueError(f"arms: expected one id for each of {sizes[0]} rows of features, got {sizes[1]}")
    ranked = [int(policy.choose(features, arms, **asked))]
    left = np.delete(np.arange(sizes[0] if sizes else 0), ranked)
    rows = None if features is None else np.asarray(features)
    ids = None if arms is None else np.asarray(arms)
    while len(ranked) < k and len(left):
        index = policy.choose(None if rows is None else rows[left], None if ids is None else ids[left], **asked)
        ranked.append(int(left[index]))
        left = np.delete(left, index)
    return ranked
