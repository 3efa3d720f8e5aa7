"""LinUCB and LinTS for many scopes: one row of `kernels.ridge` per scope."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.batch.shelf import Arrays, Loops, Shelf, repeated
from driftbandit.kernels import many
from driftbandit.kernels.ridge import LARGEST_SQUARE
from driftbandit.models.ridge import RidgeModel
from driftbandit.models.thompson import ThompsonModel
from driftbandit.policies.linear.lints import LinTS
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.state import check_words


class LinearShelf(Shelf):
    """Rows of LinUCB or LinTS, and for LinTS the words of one generator per scope."""

    def __init__(self, policy: LinUCB | LinTS, size: int) -> None:
        super().__init__(policy, size)
        model = policy.reward_model
        self.draws = type(model) is ThompsonModel
        if not isinstance(model, RidgeModel) or type(model) not in (RidgeModel, ThompsonModel):
            raise ValueError("policy: a LinUCB that was given a belief cannot be put into flat arrays; use PerScope")
        scoring = model.scoring(policy.leading_row)
        assert scoring is not None  # both models score with plain settings
        self._act, self._test = scoring, model._test
        self._rows = repeated(self._first["bank"][0], size)
        self._words = repeated(self._first["generator"], size if self.draws else 1)

    @property
    def loops(self) -> Loops:  # type: ignore[override]
        if self.draws:
            return Loops(many.choose_lints, many.learn_ridge, many.step_lints, many.replay_lints)
        return Loops(many.choose_linucb, many.learn_ridge, many.step_linucb, many.replay_linucb)

    @property
    def state(self) -> tuple[Any, ...]:
        return self._act, self._test, self._rows, self.rounds, self._words

    def arrays(self) -> dict[str, NDArray[Any]]:
        words = {"words": self._words} if self.draws else {}
        return {"rows": self._rows, "rounds": self.rounds, **words}

    def _take(self, arrays: Arrays) -> None:
        for words in arrays["words"] if self.draws else ():
            check_words(words)
        self._rows = arrays["rows"]
        self._words = arrays["words"] if self.draws else self._words

    def largest_square(self) -> float:
        return LARGEST_SQUARE * float(self.policy.ridge)

    def _parts_of(self, scope: int) -> dict[str, NDArray[Any]]:
        words = self._words[scope if self.draws else 0]
        return {"bank": self._rows[scope : scope + 1].copy(), "leader": np.array(0), "generator": words.copy()}

    def _put_parts(self, scope: int, state: Arrays) -> None:
        self._rows[scope] = state["bank"][0]
        if self.draws:
            self._words[scope] = state["generator"]
