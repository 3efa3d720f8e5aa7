"""DriftUCB: follows shifts and drift without being told the noise, the number of changes, or the scale of anything.

One incumbent model learns from every reward since the last alarm. Three parts work beside it, and each can be switched
off: a ladder of younger models, one of which replaces the incumbent when it explains the recent rewards so much better
that chance is ruled out (the alarm); a few experts that forget at different speeds, for slow drift; and a mixture of
incumbent and experts, weighted by how well they predicted, which acts. The noise level and the sizes of rewards and
features are estimated as rewards come, so units do not matter. Our own policy; docs/policies/driftucb.md says what each
part buys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbandit.core import (
    LARGEST,
    Change,
    Floats,
    as_belief,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_pool,
    as_reward,
    not_finite,
)
from driftbandit.kernels.driftucb import acting, alone, compact, drift, frames, relearning, rows, scales
from driftbandit.kernels.driftucb.ahead import NOTHING
from driftbandit.kernels.driftucb.experts import BELIEVES
from driftbandit.kernels.driftucb.ladder.births import clear
from driftbandit.policies.base import PolicyBase
from driftbandit.policies.choosing_memory.explanation import Expert, Explanation
from driftbandit.policies.choosing_memory.many_rewards import learn_many_driftucb
from driftbandit.policies.choosing_memory.older_states import of_today
from driftbandit.policies.choosing_memory.short_states import SHORT, long_form, short_form
from driftbandit.policies.entry import Entry, Variants, from_brief
from driftbandit.state import ChangeLog, check_array

_ROUNDING = 1e-6
_STEP = 16  # most lines by which the memory of the first rewards grows at a time


class DriftUCB(PolicyBase):
    """The policy that needs to be told nothing.

    Parameters
    ----------
    dim : int
        Number of features.
    explore : float
        Multiplier of an arm's standard deviation in the choice; it rises to `explore_most` while the arms played are
        much better known than the arms shown.
    explore_most : float, optional
        See `explore`; by default 3, or `explore` if that is more.
    delta : float
        How rare a false alarm should be: an alarm needs log-evidence of ln((incumbent's rewards + 2) / delta).
    memory : sequence of float
        Memory of the experts, in rounds; empty for none.
    share : float
        Share of the weight that is redistributed every round, half of that share to the incumbent.
    detect : bool
        Whether younger models may replace the incumbent; if False, there are no alarms.
    mix : bool
        Whether the weighted mixture acts; if False, the heaviest model does.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> policy = DriftUCB(dim=5)
    >>> for t in range(1000):
    ...     features = rng.standard_normal((10, 5))
    ...     arm = policy.choose(features)
    ...     taste = [0.5, 0.5, 0.5, 0.5, 0.5] if t < 500 else [0.5, 0.5, 0.5, 0.5, -0.5]
    ...     changes = policy.learn(features[arm], features[arm] @ taste + 0.1 * rng.standard_normal())
    >>> [(change.kind, change.round) for change in policy.changes]
    [('restarted', 502)]
    >>> why = policy.explain()
    >>> [feature for feature, _, _ in why.moved][:1], round(why.noise, 1)
    ([4], 0.1)
    """

    dim: int
    evidence: ClassVar[tuple[str, ...]] = ("log_evidence", "threshold", "shift_at")
    minds_pending = True
    can_pool: ClassVar[bool] = True
    _parts = (*PolicyBase._parts, "_memo", "_seen")  # and the bank, in another form
    _growing = frozenset({"_seen"})
    _derived = frozenset({"_own", "_trying", "_taught"})

    def __init__(
        self,
        dim: int,
        *,
        explore: float = 0.5,
        explore_most: float | None = None,
        delta: float = 0.02,
        memory: Sequence[float] = (50.0, 500.0, 5_000.0, 50_000.0),
        share: float = 0.001,
        detect: bool = True,
        mix: bool = True,
    ) -> None:
        super().__init__()
        self.dim = as_dim(dim)
        self.explore = as_number("explore", explore, 0.0)
        most = max(3.0, self.explore) if explore_most is None else explore_most
        self.explore_most = as_number("explore_most", most, self.explore)
        self.delta = as_number("delta", delta, 0.0, 1.0, open_low=True)
        if not isinstance(memory, Iterable):
            raise ValueError(f"memory: expected a sequence of numbers, got {memory!r}")
        self.memory = tuple(as_number("memory", rounds, 1.0) for rounds in memory)
        self.share = as_number("share", share, 0.0, 1.0)
        self.detect = bool(detect)
        self.mix = bool(mix)
        keep = [1.0 - 1.0 / rounds for rounds in self.memory]
        self._rules = np.array([self.explore, self.explore_most, self.delta, self.share, self.detect, self.mix, *keep])
        self._begin()

    def _begin(self) -> None:
        """Know nothing."""
        experts = len(self.memory)
        self._own = alone.with_rules(self._rules, self.dim)
        _, self._memo, self._bank = alone.parts(self._own)
        self._memo[scales.MEMO] = 1.0
        self._memo[scales.COLUMNS] = self.dim
        drift.units_of(self._memo, experts)[:] = 1.0
        self._seen = np.zeros((0, self.dim + 1))  # the first rewards, behind the features of their arms
        clear(drift.rungs_of(self._bank, experts))
        drift.derive(self._memo, self._bank, experts)
        self._trying = True
        self._taught = True  # whether it learned all that it knows itself, in this process

    @property
    def noise(self) -> float:
        """Estimated standard deviation of a reward around its mean; NaN before the first reward that is not 0."""
        return math.sqrt(self._memo[scales.NOISE]) if self._memo[scales.REWARD_SQUARES] else math.nan

    @property
    def theta(self) -> Floats:
        """Weights of the incumbent."""
        theta: Floats = self._bank[drift.INCUMBENT, rows.THETA : rows.THETA + self.dim] + self._anchor()
        return theta

    @property
    def feature_weights(self) -> Floats:
        """Weights of the incumbent."""
        return self.theta

    @property
    def weights_before_change(self) -> Floats:
        """Weights that the incumbent had when the latest alarm was raised."""
        before: Floats = drift.before_alarm(self._memo, len(self.memory))[: self.dim] + self._anchor()
        return before

    def facts(self) -> dict[str, Any]:
        """The estimated noise, the incumbent's age and the experts' weights."""
        why = self.explain()
        experts = [{"memory": None if math.isinf(e.memory) else e.memory, "weight": e.weight} for e in why.experts]
        return {"noise": None if math.isnan(why.noise) else why.noise, "age": why.age, "experts": experts}

    def choose(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, pending: int = 0) -> int:
        """Index of the arm to play among this round's candidates, shape (K, dim); `arms` is ignored.

        `pending` is the number of earlier choices whose rewards are still to come. From five on, the arm is the best
        under weights drawn at random from what is known, so that a batch of choices does not play one arm throughout.
        The same call gives the same answer.
        """
        pool = as_pool(features, self.dim)
        if type(pending) is not int or pending < 0:
            pending = as_count("pending", pending, 0)
        best: int = alone.choose(self._own, pool, pending)
        if best < 0:
            raise self._not_usable(pool)
        return best

    ranks_by_scores = True
    tie_is_relative: ClassVar[bool] = True  # choices must not depend on the unit of rewards

    def scores(self, features: ArrayLike | None, arms: ArrayLike | None = None, *, pending: int = 0) -> Floats:
        """Score of every candidate, the highest of which `choose` plays; arguments are as in `choose`."""
        pool = as_pool(features, self.dim)
        scores: Floats = acting.arm_scores(
            self._rules, self._memo, self._bank, pool, as_count("pending", pending, 0), NOTHING
        )
        if not len(scores):
            raise self._not_usable(pool)
        return scores

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Learn the reward of an arm with these features, shape (dim,); returns the changes it revealed."""
        x = as_example(features, self.dim)
        if type(reward) is not float or not -LARGEST <= reward <= LARGEST:
            reward = as_reward(reward)
        fired = self._learn_young(x, reward) if self._trying else alone.learn(self._own, x, reward)
        if fired < 0:
            raise self._not_usable(x)
        self.rounds += 1
        return self._report_alarm() if fired else ()

    @property
    def learns_many(self) -> bool:
        """Whether `learn_many` may be called instead of `learn`."""
        return True

    learn_many = learn_many_driftucb

    def _report_alarm(self) -> tuple[Change, ...]:
        return self._report(alarm_of(self._memo[scales.ALARM_EVIDENCE : scales.ALARM_AGE + 1], self.rounds))

    def explain(self) -> Explanation:
        """Which experts act, the noise, and what moved at the latest alarm."""
        changes = self.changes
        moved: tuple[tuple[int, float, float], ...] = ()
        if changes:
            before, now = self.weights_before_change, self.theta
            order = np.argsort(-np.abs(now - before), kind="stable").tolist()
            moved = tuple((i, float(before[i]), float(now[i])) for i in order)
        return Explanation(
            experts=tuple(
                Expert(memory, weight)
                for memory, weight in zip((math.inf, *self.memory), self._weights().tolist(), strict=True)
            ),
            noise=self.noise,
            age=int(self._bank[drift.INCUMBENT, rows.COUNT]),
            last_change=changes[-1] if changes else None,
            moved=moved,
        )

    def believe(self, mean: ArrayLike, spread: ArrayLike, noise: float) -> None:
        """Take this as known before any reward: weights ~ N(mean, spread), rewards with variance `noise`.

        `mean` has shape (dim,), `spread` is a covariance of shape (dim, dim). The rewards learned so far are learned
        again from there. After 64 rewards, or an alarm, a policy knows better by itself, and nothing changes.
        """
        mean, spread, noise = as_belief(mean, spread, noise, self.dim)
        try:
            np.linalg.cholesky(spread)
        except np.linalg.LinAlgError as error:
            raise ValueError("spread: expected a positive definite matrix") from error
        count = int(self._memo[scales.TRIED])
        if count > BELIEVES or self._log.total:
            return
        relearning.believe(len(self.memory), self._memo, self._bank, mean, spread, noise)
        relearning.relearn(self._rules, self._memo, self._bank, self._seen[:count])

    def state(self) -> dict[str, NDArray[Any]]:
        """Copy everything learned so far into flat float64 and int64 arrays, by name."""
        experts = len(self.memory)
        stored = np.empty(compact.compact_shape(self.dim, experts))
        compact.pack(self._memo, self._bank, stored, experts)
        return {**super().state(), "bank": stored}

    @property
    def spare(self) -> int:
        """Bytes of the zeros that fill whole vectors, which a state does without."""
        count, width = compact.compact_shape(self.dim, len(self.memory))
        return self._own.nbytes - self._memo.nbytes - self._own.itemsize * count * width

    def short_state(self) -> dict[str, NDArray[Any]] | None:
        """What a young policy has learned, in fewer bytes than `state`; None if that is not enough to know all.

        These are its rewards and the features of their arms, of which it remembers the first anyway. `restore` learns
        them again, in the same order: on the same machine, that gives the same policy bit for bit. A policy that was
        copied or took over a `state` has none, since another machine or version may have rounded otherwise. These
        rewards were learned with features in single precision, which take half the bytes.

        Examples
        --------
        >>> policy = DriftUCB(dim=25)
        >>> changes = policy.learn([1.0] * 25, 0.5)
        >>> {name: array.nbytes for name, array in policy.short_state().items()}
        {'features': 100, 'rewards': 8}
        """
        count = int(self._memo[scales.TRIED])
        if not self._taught or not 0 < count == self.rounds <= SHORT or self._memo[scales.SPREAD] > 0.0:
            return None
        return short_form(self._seen[:count])

    def restore(self, state: Mapping[str, ArrayLike]) -> Self:
        """Take back what `state` or `short_state` returned, from an object built with the same settings.

        Raises
        ------
        ValueError
            If an array is missing, unknown, of another shape or type, or inconsistent; then nothing is changed.
        """
        rewards = long_form(state, self.dim)
        if rewards is None:
            taught = self._taught
            try:
                return super().restore(of_today(state, self))
            except ValueError:
                self._taught = taught
                raise
        before = {name: vars(self)[name] for name in (*self._parts, "_bank", *self._derived)}
        self.rounds, self._log = 0, ChangeLog(self.evidence)
        self._begin()
        try:
            for line in rewards:
                self.learn(line[:-1], float(line[-1]))
        except BaseException as error:
            vars(self).update(before)  # of which nothing was changed: all arrays are new
            if isinstance(error, ValueError):
                raise ValueError(f"state: {error}") from error
            raise
        return self

    def _learn_young(self, x: Floats, reward: float) -> int:
        """Learn one of the first rewards, and remember it; returns what `alone.learn` returns."""
        memo, seen = self._memo, self._seen
        count = int(memo[scales.TRIED])
        if count == len(seen):
            seen = widened(seen)
        if count < frames.SINGLE:
            x = frames.in_single(x)
        fired = alone.learn(self._own, x, reward)
        fired = relearning.remember(self._rules, memo, self._bank, seen, x, reward, fired)
        if memo[scales.TRIED] > count:
            self._seen = seen
        if memo[scales.TRIED] == frames.TRIAL:
            self._seen, self._trying = seen[:0].copy(), False
        return fired

    def _not_usable(self, features: Floats) -> ValueError:
        if not np.isfinite(features).all():
            return not_finite(features)
        return ValueError(
            f"features: an absolute value of {np.abs(features).max():g} is too large beside the first ones learned "
            f"(|x|^2 was {self._memo[scales.FIRST_SQUARE]:g}); scale the features"
        )

    def _anchor(self) -> Floats:
        """What the frame adds to the weights of every model; see `frames`."""
        anchor: Floats = drift.anchor_of(self._memo, len(self.memory))[: self.dim]
        return anchor

    def _weights(self) -> Floats:
        weights: Floats = self._memo[scales.MEMO : scales.MEMO + 1 + len(self.memory)]
        return weights

    def _take(self, flat: Mapping[str, NDArray[Any]], prefix: str) -> None:
        super()._take(flat, prefix)
        stored, experts = flat[f"{prefix}bank"], len(self.memory)
        check_array("bank", stored, np.dtype(np.float64), compact.compact_shape(self.dim, experts))
        stored = np.array(stored, order="C")  # kernels are compiled once, for arrays that may be written to
        if not compact.is_sound(self._memo, stored, experts):
            raise ValueError("state: bank: expected counts of rewards that fit into it")
        compact.unpack(self._memo, self._bank, stored, experts)

    def _after_restore(self) -> None:
        self._trying = bool(self._memo[scales.TRIED] < frames.TRIAL)
        self._taught = self.rounds == 0
        memo, bank = self._memo, self._bank  # one of them, or both, may not be a part of one array yet
        if "_own" not in vars(self):  # it is not pickled
            self._own = alone.with_rules(self._rules, self.dim)
        _, self._memo, self._bank = alone.parts(self._own)
        if memo.shape != self._memo.shape or bank.shape != self._bank.shape:
            raise ValueError("pickle: made by another version of driftbandit; between versions, use state and restore")
        self._memo[:], self._bank[:] = memo, bank
        if self._memo[scales.COLUMNS] not in (self.dim, self.dim + 1) or self._memo[scales.TRIED] > frames.TRIAL:
            raise ValueError("state: memo: expected one column per feature, or one more, and at most 256 rewards tried")
        if self._trying and self._memo[scales.TRIED] > len(self._seen):
            raise ValueError("state: seen: expected a line for every reward tried")
        check_memos(self._memo[np.newaxis], len(self.memory))


def check_memos(memos: Floats, experts: int) -> None:
    """Raise ValueError unless every line may be the `_memo` of a policy."""
    signed = np.delete(memos[:, : scales.MEMO], (scales.HIT_VALUE, scales.ALARM_EVIDENCE), axis=1)
    if (signed < 0.0).any() or ((memos[:, scales.FIRST_SQUARE] > 0.0) & (memos[:, scales.NOISE] <= 0.0)).any():
        raise ValueError("state: memo: counts and squares must not be negative, nor the noise 0")
    weights = memos[:, scales.MEMO : scales.MEMO + 1 + experts]
    if (weights < 0.0).any() or (np.abs(weights.sum(axis=1) - 1.0) > _ROUNDING).any():
        raise ValueError("state: memo: expected shares that add up to 1")


def widened(seen: Floats) -> Floats:
    """The first rewards, with room for more."""
    more: Floats = np.zeros((room_for(len(seen) + 1) - len(seen), seen.shape[1]))
    return np.concatenate([seen, more])


def room_for(count: int) -> int:
    """Lines that a policy keeps for so many first rewards: a power of two up to 16, then a multiple of 16.

    >>> [room_for(count) for count in (0, 1, 3, 16, 17, 33)]
    [0, 1, 4, 16, 32, 48]
    """
    return 1 << (count - 1).bit_length() if 0 < count <= _STEP else -(-count // _STEP) * _STEP


def alarm_of(numbers: Floats, rounds: int) -> Change:
    """The change that an alarm after so many rounds stands for; `numbers` are the three that `memo` keeps of it."""
    log_evidence, threshold, age = numbers.tolist()
    facts = {"log_evidence": log_evidence, "threshold": threshold, "shift_at": rounds - age}
    return Change(rounds, "restarted", 0, facts)


ENTRIES = (
    Entry(
        name="driftucb",
        title="DriftUCB",
        summary="younger models challenge the incumbent, experts follow drift; our own",
        policy=DriftUCB,
        settings=from_brief("dim"),
        page="driftucb",
        place=10,
        variants=(  # with one part switched off, to see what that part buys
            Variants("driftucb-no-ladder", "DriftUCB without ladder", {"detect": (False,)}, place=70),
            Variants("driftucb-no-experts", "DriftUCB without experts", {"memory": ((),)}, place=80),
            Variants("driftucb-no-mixture", "DriftUCB without mixture", {"mix": (False,)}, place=90),
        ),
    ),
)
