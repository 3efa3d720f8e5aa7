"""Ridge regression that goes through logged events: at each it chooses, and then learns what was displayed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Floats, Ints
from driftbandit.kernels.compile import jit
from driftbandit.kernels.ridge import optimistic_arm, update

Bytes = NDArray[np.int8]

# When to learn a logged event: never, only if the policy chose what was displayed, or always.
NEVER, IF_CHOSEN, ALWAYS = range(3)


@jit
def watch(
    act: Floats,
    test: Floats,
    bank: Floats,
    member: int,
    features: Floats,
    offsets: Ints,
    shown: Ints,
    rewards: Floats,
    lessons: Bytes,
    choices: Ints,
) -> tuple[int, bool]:
    """Go through logged events: write each choice into `choices`, then learn the displayed arm as `lessons` says.

    Event t has the pool ``features[offsets[t]:offsets[t + 1]]``; `act` are the settings for choices, `test` those for
    updates. Returns the number of events done, and False if the next one is not usable.
    """
    for event in range(len(shown)):
        pool = features[offsets[event] : offsets[event + 1]]
        choice = optimistic_arm(act, bank, member, pool)
        if choice < 0:
            return event, False
        choices[event] = choice
        lesson = lessons[event]
        if (lesson == ALWAYS or (lesson == IF_CHOSEN and choice == shown[event])) and not update(
            test, bank[member], pool[shown[event]], rewards[event]
        ):
            return event, False
    return len(shown), True
