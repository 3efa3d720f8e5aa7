"""What a policy says about itself: its nature, its settings, and how to save it.

The evaluation, the service and `check_policy` ask these questions instead of looking at a policy's class, so that a
policy of your own that derives from `PolicyBase` is treated as the shipped ones are.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import LARGEST, Change, Floats, Ints
from driftbandit.models.base import RewardModel
from driftbandit.policies.ranking import rank

_DESCRIBES = {
    "is_random": "choose",
    "is_uniform": "choose",
    "scores_each_arm": "choose",
    "minds_pending": "choose",
    "ranks_by_scores": "choose",
    "scores": "choose",
    "rank": "choose",
    "scopes_apart": "learn",
    "learns_many": "learn",
    "can_pool": "learn",
    "short_state": "learn",
}
"""Traits that describe a method; they do not hold for a method that overrides it."""

_LONGEST_VALUE = 60


class Once:
    """Warnings that were given and are not repeated; copies of a policy share it, so that a thousand copies warn once.

    >>> warned = Once()
    >>> warned.first("clicks"), warned.first("clicks")
    (True, False)
    """

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: set[str] = set()

    def first(self, what: str) -> bool:
        """Whether `what` is new; from now on it is not."""
        if what in self._said:
            return False
        self._said.add(what)
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> Once:
        return self


class Traits:
    """The traits of a policy; subclasses override what does not fit them.

    A class that overrides `choose` must also define `is_random`, `is_uniform`, `scores_each_arm`, `minds_pending`,
    `ranks_by_scores` and `scores`; a class that overrides `learn` must also define `scopes_apart`, `learns_many` and
    `can_pool`. Inherited values describe the parents' methods, so without a definition the cautious answers of
    `PolicyBase` hold.
    """

    dim: int | None = None
    """Number of features, None for a context-free policy, which takes arm ids instead."""

    evidence: ClassVar[tuple[str, ...]] = ()
    """Names of the numbers that this policy's changes carry; empty if it never reports one."""

    warned: Once
    """Warnings that this policy or one of its copies has given."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        order = cls.__mro__
        for trait, method in _DESCRIBES.items():
            said = next(place for place, kind in enumerate(order) if trait in vars(kind))
            described = getattr(order[said], method, None)
            if described is not None and getattr(cls, method) is not described:
                neutral = next(kind for kind in order if trait in vars(kind) and not hasattr(kind, method))
                setattr(cls, trait, vars(neutral)[trait])

    # Choosing ------------------------------------------------------------------------------------------------------

    is_uniform: ClassVar[bool] = False
    """Whether `choose` plays every arm with the same probability."""

    @property
    def is_random(self) -> bool:
        """Whether `choose` may answer the same pool differently without having learned in between.

        If False, callers keep answers and look them up until the next reward, unless `minds_pending`.
        """
        return True

    scores_each_arm: ClassVar[bool] = False
    """Whether every arm is scored by a model of its own and the highest score is played, as `PerArm` does it.

    If True, the policy has `row_of` and `draws`, from which its choices can be computed without calling `choose`.
    """

    minds_pending: bool = False
    """Whether `choose` takes `pending`, the number of its choices whose rewards are still to come.

    If True, the same pool may be answered differently as `pending` grows, so that a batch of choices made before any
    reward does not play one arm throughout.
    """

    @property
    def ranks_by_scores(self) -> bool:
        """Whether `choose` plays the highest of the `scores`, so that they also tell the order of the other arms."""
        return False

    tie_is_relative: ClassVar[bool] = False
    """Whether scores tie that are within 1e-12 of the highest as a share of it, rather than within 1e-12."""

    def scores(self, *pool: Any, **asked: Any) -> Floats:
        """Score of every arm of a pool, called as `choose` is; the number that `choose` compares.

        A policy that draws its scores at random draws them anew in every call. If a policy has scores but chooses
        otherwise in some rounds, such as rounds of forced exploration, these are the scores of all other rounds.

        Raises
        ------
        NotImplementedError
            If the policy chooses without scores; use `rank`.
        """
        raise NotImplementedError(f"{type(self).__name__} chooses without scores; use rank")

    def rank(self, features: ArrayLike | None, k: int, arms: ArrayLike | None = None, **asked: Any) -> list[int]:
        """Indices of the `k` best arms among this round's candidates, best first; all arms if there are fewer.

        The first is the arm that `choose` plays. Where `choose` compares scores, the others follow by the same scores
        and the same rule for ties. Otherwise `choose` is asked again and again, each time without the arms it has
        already chosen. As with `choose`, nothing changes but random generators.

        Parameters
        ----------
        features, arms :
            This round's pool, as `choose` takes it.
        k : int
            Length of the list, at least 1.
        **asked :
            Further arguments of `choose`: `scope` for a policy with scopes, `pending` for `DriftUCB`.

        Examples
        --------
        >>> import numpy as np
        >>> from driftbandit import LinUCB
        >>> policy = LinUCB(dim=3)
        >>> for arm, reward in enumerate([0.0, 1.0, 0.5]):
        ...     changes = policy.learn(np.eye(3)[arm], reward)
        >>> policy.rank(np.eye(3), k=2)
        [1, 2]
        >>> policy.scores(np.eye(3)).round(2).tolist()
        [0.57, 1.48, 1.03]
        """
        return rank(self, features, k, arms, **asked)

    # Scopes --------------------------------------------------------------------------------------------------------

    is_scoped: ClassVar[bool] = False
    """Whether `choose` and `learn` take a `scope`; see `core.ScopedPolicy`."""

    @property
    def scopes_apart(self) -> bool:
        """Whether the rewards of one scope leave the choices for all others as they are."""
        return False

    @property
    def most_scopes(self) -> int | None:
        """Number of scopes beyond which some are forgotten; None if scopes are never forgotten."""
        return None

    can_pool: ClassVar[bool] = False
    """Whether the policy has `believe`, so that `PerScope` can tell its copies what all scopes have in common."""

    def believe(self, mean: ArrayLike, spread: ArrayLike, noise: float) -> None:
        """Take this as known before any reward: weights ~ N(mean, spread), rewards with variance `noise`.

        `mean` has shape (dim,), `spread` is a covariance of shape (dim, dim). Rewards learned before stay learned. What
        the policy is after the call must depend on the rewards it learned and on this belief, not on earlier beliefs.
        """
        raise NotImplementedError(f"{type(self).__name__} takes no belief; it cannot be pooled")

    # Learning ------------------------------------------------------------------------------------------------------

    @property
    def reward_bounds(self) -> tuple[float, float]:
        """Lowest and highest reward that `learn` takes."""
        return -LARGEST, LARGEST

    @property
    def learns_many(self) -> bool:
        """Whether `learn_many` may be called instead of `learn`."""
        return False

    def learn_many(self, features: Floats, rewards: Floats) -> tuple[int, tuple[Change, ...], Floats]:
        """Learn rewards one after the other until one reveals a change; see `DLinUCB.learn_many`."""
        raise NotImplementedError(f"{type(self).__name__} learns rewards one at a time; use learn")

    def short_state(self) -> dict[str, NDArray[Any]] | None:
        """What was learned in fewer bytes than `state`, for `restore`; None unless the policy has such a form now."""
        return None

    @property
    def spare(self) -> int:
        """Bytes that the arrays of a policy object take beyond those of its `state`."""
        return 0

    @property
    def watches_many(self) -> bool:
        """Whether `watch_many` may be called instead of `choose` and `learn`, event by event."""
        return False

    def watch_many(
        self, features: Floats, offsets: Ints, shown: Ints, rewards: Floats, lessons: NDArray[np.int8]
    ) -> Ints:
        """Go through logged events, choosing at each and then learning the displayed arm; returns the choices.

        Parameters
        ----------
        features : array of shape (m, dim)
            Features of all candidates, one pool after the other.
        offsets : array of shape (n + 1,)
            Where each event's pool starts, and the end of the last.
        shown : array of shape (n,)
            Position of the displayed arm in its pool.
        rewards : array of shape (n,)
            What it earned.
        lessons : array of int8, shape (n,)
            What to learn: 0 nothing, 1 the reward if the policy chose the displayed arm, 2 the reward.
        """
        raise NotImplementedError(f"{type(self).__name__} goes through logs one event at a time; use choose and learn")

    # Knowledge -----------------------------------------------------------------------------------------------------

    @property
    def reward_model(self) -> RewardModel | None:
        """The model that predicts rewards, which holds settings only; None for a policy without one."""
        return None

    @property
    def leading_row(self) -> Floats | None:
        """What the model that chooses next has learned; None for a policy without a `reward_model`."""
        return None

    @property
    def feature_weights(self) -> Floats | None:
        """Weights of the model that chooses next, one per feature; None for a policy without weights."""
        return None

    @property
    def weights_before_change(self) -> Floats | None:
        """`feature_weights` before the latest change; None for a policy that does not keep them."""
        return None

    @property
    def miss_test(self) -> tuple[float, float, float] | None:
        """Miss rate of the leading member, and the rates above which members are spawned and retired, or None."""
        return None

    @property
    def detects(self) -> bool:
        """Whether this policy looks for changes at all."""
        return bool(self.evidence)

    def facts(self) -> dict[str, Any]:
        """What the policy reports about its present state, as JSON, such as the estimated noise."""
        return {}

    # Settings ------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments by name, as this policy has them: ``type(policy)(**policy.settings())``.

        Every argument is also an attribute of the same name. Where None let the policy decide, the value is what the
        policy decided on. What was learned is not included; see `state` and `save`.

        Examples
        --------
        >>> from driftbandit import LinUCB
        >>> policy = LinUCB(dim=2, ridge=0.5)
        >>> policy.settings()
        {'dim': 2, 'ridge': 0.5, 'explore': 0.6}
        >>> LinUCB(**policy.settings()).ridge
        0.5
        """
        names = arguments(type(self))
        if missing := [name for name in names if not hasattr(self, name)]:
            kind = type(self).__name__
            raise TypeError(
                f"{kind}: expected the argument {missing[0]!r} of the constructor as an attribute, got none"
            )
        return {name: getattr(self, name) for name in names}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write class, settings and everything learned to one file, whole or not at all; `driftbandit.load` reads it.

        The file holds text and numbers only (no pickle), and names the version of its format.

        Raises
        ------
        ValueError
            If a setting cannot be written, such as a function; the message names the setting.
        """
        from driftbandit.policies.saving import save  # noqa: PLC0415 - which has to know the policies

        save(self, path)

    def __repr__(self) -> str:
        standing = [f"{name}={count}" for name, count in self._standing().items()]
        return f"<{self._signature()} {', '.join(standing)}>" if standing else self._signature()

    def _standing(self) -> dict[str, int]:
        """Numbers that `repr` shows behind the settings."""
        return {}

    def _signature(self) -> str:
        """The class with the settings that differ from its defaults, such as ``LinUCB(dim=2, ridge=0.5)``."""
        shown = []
        for name, default in arguments(type(self)).items():
            value = getattr(self, name, default)
            if isinstance(value, np.ndarray) or value != default:
                shown.append(f"{name}={_in_short(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def arguments(kind: type) -> dict[str, Any]:
    """Names and defaults of what a class's constructor takes; `inspect.Parameter.empty` where there is no default."""
    gathers = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(kind).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind not in gathers}


def _in_short(value: object) -> str:
    """A setting on one short line."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Traits):
        return value._signature()
    if isinstance(value, np.ndarray):
        return f"<array of shape {value.shape}>"
    text = value.__name__ if callable(value) and hasattr(value, "__name__") else " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
