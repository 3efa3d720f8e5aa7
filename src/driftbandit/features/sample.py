"""What `Encoder.fit` learns from: contexts, arms, and which of them belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from driftbandit.core import Ints
from driftbandit.features.tables import Columns, columns_of

_MOST_PAIRS = 5_000
"""So many pairs of a context and an arm, at equal distances, are projected."""


@dataclass(frozen=True)
class Sample:
    """A sample as columns.

    Attributes
    ----------
    context, arms : dict of str to sequence
        The columns of either side.
    contexts, count : int
        Number of contexts, and of arms.
    owners, members : array of int64
        Pairs: context owners[r] was, or might be, shown arm members[r].
    """

    context: Columns
    arms: Columns
    contexts: int
    count: int
    owners: Ints
    members: Ints

    @classmethod
    def read(
        cls, sample: Any, arms: Any, context_names: Sequence[str] | None, arm_names: Sequence[str] | None
    ) -> Sample:
        """Read any of the forms that `Encoder.fit` takes; the names are those of the declared columns."""
        if arms is not None:
            context, contexts = columns_of(sample, "sample", context_names)
            table, count = columns_of(_listed(arms), "arms", arm_names)
            pairs = min(_MOST_PAIRS, contexts * count)
            chosen = np.linspace(0, max(contexts * count - 1, 0), pairs).astype(np.int64)
            owners, members = chosen // max(count, 1), chosen % max(count, 1)
        elif isinstance(sample, Sequence) and len(sample) and all(_is_decision(one) for one in sample):
            context, contexts = columns_of([one[0] for one in sample], "sample", context_names)
            pools = [_listed(one[1]) for one in sample]
            table, count = columns_of(list(chain.from_iterable(pools)), "sample", arm_names)
            chosen = np.linspace(0, max(count - 1, 0), min(_MOST_PAIRS, count)).astype(np.int64)
            owners, members = np.repeat(np.arange(contexts), [len(pool) for pool in pools])[chosen], chosen
        else:
            if context_names is None or arm_names is None:
                raise ValueError(
                    "sample: expected (context, arms) pairs; from a single table, declare which of its columns belong "
                    "to the context and which to the arms"
                )
            context, contexts = columns_of(sample, "sample", context_names)
            table, count = columns_of(sample, "sample", arm_names)
            owners = members = np.linspace(0, max(count - 1, 0), min(_MOST_PAIRS, count)).astype(np.int64)
        if not contexts or not count:
            raise ValueError(f"sample: expected at least one context and one arm, got {contexts} and {count}")
        return cls(context, table, contexts, count, owners, members)


def _is_decision(one: Any) -> bool:
    return isinstance(one, tuple | list) and len(one) == 2 and isinstance(one[0], Mapping)


def _listed(arms: Any) -> Any:
    """Arms as a list of dictionaries, if they come as a dictionary of dictionaries by id."""
    if isinstance(arms, Mapping) and arms and all(isinstance(arm, Mapping) for arm in arms.values()):
        return list(arms.values())
    return arms
