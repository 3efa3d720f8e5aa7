"""dLinUCB: a coordinator over linear members that notices when tastes shift.

Every member is a reward model with a confidence width. A reward outside a member's interval is a miss, and a member
that misses too often in its recent window is out of date: the coordinator spawns a new member as soon as no member is
beyond doubt, retires the lost ones, and lets the member with the lowest plausible miss rate choose. Wu, Iyer and
Wang, SIGIR 2018, Algorithm 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import (
    LARGEST,
    Change,
    ChangeKind,
    Floats,
    as_count,
    as_dim,
    as_example,
    as_number,
    as_pool,
    as_reward,
    not_finite,
)
from driftbandit.kernels import windows
from driftbandit.kernels.ridge import usable
from driftbandit.models import MODELS, TUNED, Radius, RewardModel, RidgeModel, TunedRidge
from driftbandit.policies.base import MemberPolicy
from driftbandit.policies.choosing_memory.click_warning import ClickWarning, ClickWatch
from driftbandit.policies.choosing_memory.unknown_noise import UnknownNoise
from driftbandit.state import ChangeLog, Stateful

Rule = Literal["paper", "released"]

CLICK_EVIDENCE = ("log_likelihood_ratio", "bound", "age", "updates")
"""Names of a change's numbers where clicks showed it, many at a time, instead of misses."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member as it stands now.

    Attributes
    ----------
    id : int
        Counted from 0 in order of birth.
    spawned_at : int
        Round after which it was added.
    age : int
        Rounds it has been judged on.
    updates : int
        Rewards it accepted; the others were misses.
    miss_rate : float
        Share of misses in its window.
    width : float
        Half-width of the confidence interval of that share.
    spawn_bound, retire_bound : float
        A new member is spawned when every miss rate is above the first; above the second a member is retired.
    """

    id: int
    spawned_at: int
    age: int
    updates: int
    miss_rate: float
    width: float
    spawn_bound: float
    retire_bound: float


class DLinUCB(MemberPolicy):
    """Dynamic linear bandit: the paper's policy.

    With the defaults it follows Algorithm 1 as printed, except that epsilon is positive (the printed sign narrows the
    interval by the noise instead of widening it); `preset` gives the settings behind the paper's table and the
    authors' code. Like the paper it takes |theta| <= 1 for granted: scale rewards and features so that rewards are
    about as large as |x| at most, or every reward is a miss (you are warned).

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float or 'auto'
        Standard deviation of a reward around its mean; 'auto' estimates it, and |theta| too, and judges 0/1 rewards
        by many at a time.
    ridge : float
        Regularisation of a member (the paper's lambda).
    explore : float, optional
        Constant multiplier of sqrt(x' A^-1 x) in the arm choice; by default the radius of the miss test (the paper's
        alpha_t).
    delta : float
        Share of misses that a healthy member is allowed (delta_1).
    spawn_delta : float
        Share of misses above which no member is beyond doubt (delta_1 tilde); equal to `delta` keeps a single member.
    window_delta : float
        Error probability of the miss-rate estimate (delta_2).
    window : int
        How many recent rounds the miss rate looks at (tau).
    model : str or callable
        What a member is: 'ridge', 'logistic', 'thompson', or a `RewardModel` subclass (or any callable that takes
        `dim` and the keywords `noise`, `ridge`, `explore` and `delta`; a subclass of `RidgeModel` also gets
        `radius`). The coordinator sees its predictions and widths only.
    max_members : int
        At this many members the one with the highest miss rate makes room for a new one.
    radius : {'paper', 'released'}
        Confidence radius and epsilon of the miss test: as printed, or as in the authors' code. Ridge and Thompson
        members only.
    counting : {'paper', 'released'}
        How the miss rate is counted and compared: divided by the window's length, first width 0, < and >= as printed;
        or divided by the length plus one, first width 0.5, <= and > as in the authors' code.
    seed : int
        Seed of the policy's own generator, used by members that sample.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> policy = DLinUCB(dim=5, noise=0.1)
    >>> for t in range(1000):
    ...     features = rng.standard_normal((10, 5))
    ...     arm = policy.choose(features)
    ...     taste = 0.5 if t < 500 else -0.5  # every weight flips its sign
    ...     changes = policy.learn(features[arm], features[arm].sum() * taste)
    >>> [(change.kind, change.round) for change in policy.changes]
    [('spawned', 516), ('retired', 518)]
    """

    evidence = ("miss_rate", "bound", "age", "updates")

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "table1": {"explore": 0.6, "counting": "released"},
        "released": {"explore": 0.6, "counting": "released", "radius": "released"},
    }
    """Settings of the named presets, over the defaults: the paper as printed (with epsilon positive), the setting that
    reproduces its Table 1, and the authors' released code."""

    _parts = (*MemberPolicy._parts, "_ledger", "_count", "_spawned", "_unknown")
    _growing = frozenset({"_bank", "_ledger"})

    def __init__(
        self,
        dim: int,
        noise: float | Literal["auto"],
        *,
        ridge: float = 0.1,
        explore: float | None = None,
        delta: float = 0.01,
        spawn_delta: float = 0.002,
        window_delta: float = 0.1,
        window: int = 200,
        model: str | Callable[..., RewardModel] = "ridge",
        max_members: int = 50,
        radius: Rule = "paper",
        counting: Rule = "paper",
        seed: int = 0,
    ) -> None:
        dim = as_dim(dim)
        self.noise: float | Literal["auto"] = "auto" if noise == "auto" else _as_noise(noise)
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)
        self.explore = None if explore is None else as_number("explore", explore, 0.0)
        self.delta = _as_probability("delta", delta)
        self.spawn_delta = as_number("spawn_delta", spawn_delta, 0.0, self.delta)
        self.window_delta = _as_probability("window_delta", window_delta)
        self.window = as_count("window", window)
        self.max_members = as_count("max_members", max_members)
        self.model, self.radius, self.counting = model, radius, counting
        for name, value in (("radius", radius), ("counting", counting)):
            if value not in ("paper", "released"):
                raise ValueError(f"{name}: expected 'paper' or 'released', got {value!r}")
        super().__init__(dim, self._build_model(dim, model, radius), seed)
        # Two-sided bound on Gaussian noise: sqrt(2) * sigma * erfinv(1 - delta).
        spread = NormalDist().inv_cdf(1.0 - self.delta / 2.0)
        released = float(counting == "released")
        if self.noise == "auto":
            self._log = ChangeLog(self.evidence, CLICK_EVIDENCE)
            epsilon = math.inf  # until there is an estimate
            alarm = math.log(1.0 / (self.delta * self.window_delta))
            self._unknown: Stateful = UnknownNoise(
                dim, window=self.window, quantile=spread, squared=radius == "released", alarm=alarm
            )
        else:
            epsilon = spread * (self.noise**2 if radius == "released" else self.noise)
            self._unknown = Stateful()  # nothing to remember
        self._rules = np.array(
            [
                epsilon,
                self.delta,
                self.spawn_delta,
                math.log(1.0 / self.window_delta) / 2.0,
                released,
                0.5 * released,
                math.sqrt(math.log(self.window)),
                released,
            ]
        )
        self._ledger = np.zeros((1, windows.RING + self.window), dtype=np.int64)
        self._count = self._spawned = 0
        self._clicks = None if self.noise == "auto" else ClickWatch(epsilon, self.delta)
        self._plain = False  # nothing to look after but the members
        self._add_member()

    def _build_model(self, dim: int, model: str | Callable[..., RewardModel], radius: Rule) -> RewardModel:
        settings: dict[str, Any] = {"ridge": self.ridge, "explore": self.explore, "delta": self.delta}
        named = TUNED if self.noise == "auto" else MODELS
        if isinstance(model, str):
            if model not in named:
                raise ValueError(f"model: expected one of {', '.join(named)}, got {model!r}")
            model = named[model]
        if not callable(model):
            raise ValueError(f"model: expected a name or something that builds a model, got {model!r}")
        rule = Radius.released if radius == "released" else Radius.paper
        known = 1.0 if self.noise == "auto" else self.noise
        if self.noise != "auto":
            settings["noise"] = known
        if isinstance(model, type) and issubclass(model, RidgeModel):
            settings["radius"] = rule(dim, noise=known, ridge=self.ridge, delta=self.delta)
            if issubclass(model, TunedRidge):
                settings["squared"] = radius == "paper"
            elif self.noise == "auto":
                raise ValueError(f"model: {model.__name__} cannot follow noise='auto'; derive it from TunedRidge")
        return model(dim, **settings)

    @classmethod
    def preset(cls, name: str, dim: int, noise: float | Literal["auto"], **overrides: Any) -> Self:
        """Build the policy with the settings of `PRESETS`, any of them overridden by keyword."""
        if name not in cls.PRESETS:
            raise ValueError(f"preset: expected one of {', '.join(cls.PRESETS)}, got {name!r}")
        return cls(dim, noise, **{**cls.PRESETS[name], **overrides})

    @property
    def members(self) -> tuple[Member, ...]:
        """The members as they stand, oldest first."""
        return tuple(self._describe(entry) for entry in self._ledger[: self._count])

    @property
    def leader(self) -> int:
        """Id of the member that chooses the next arm."""
        return int(self._ledger[self._leader, windows.ID])

    @property
    def noise_estimate(self) -> float | None:
        """What ``noise='auto'`` takes the noise for; None before there is enough data, or where the noise was given."""
        return (self._unknown.deviation or None) if isinstance(self._unknown, UnknownNoise) else None

    @property
    def judges_clicks(self) -> bool:
        """Whether, so far, many rewards are judged at a time instead of by misses: ``noise='auto'`` on clicks."""
        return isinstance(self._unknown, UnknownNoise) and self.rounds > 0 and bool(self._unknown.lumpy)

    @property
    def miss_test(self) -> tuple[float, float, float]:
        """Miss rate of the leading member, and the rates above which members are spawned and retired."""
        leader = self._describe(self._ledger[self._leader])
        return leader.miss_rate, leader.spawn_bound, leader.retire_bound

    def facts(self) -> dict[str, Any]:
        """The estimated noise (None where it was given), and whether clicks are judged many at a time."""
        return {"noise": self.noise_estimate, "judges_clicks": self.judges_clicks}

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Show the reward of an arm with these features, shape (dim,), to every member; returns the changes."""
        x = as_example(features, self.dim)
        if type(reward) is not float or not self._low <= reward <= self._high:
            reward = as_reward(reward, self._low, self._high)
        if not self._plain and isinstance(self._unknown, UnknownNoise):
            return self._learn_unknown(self._unknown, x, reward)
        leader = self._model.judge(self._bank, self._ledger, self._rules, self._count, x, reward)
        if leader >= 0:
            changes: tuple[Change, ...] = ()
            self.rounds += 1
            self._leader = leader
        elif leader == windows.NOT_FINITE:
            raise not_finite(x)
        else:
            self.rounds += 1
            changes = self._review()
        if not self._plain:
            self._look_for_clicks(reward)  # last: neither bad features nor the warning itself may half learn
        return changes

    @property
    def learns_many(self) -> bool:
        """Whether `learn_many` can be used: for ridge members and a noise that is given."""
        return type(self) is DLinUCB and type(self._model) is RidgeModel

    def learn_many(self, features: Floats, rewards: Floats) -> tuple[int, tuple[Change, ...], Floats]:
        """Learn rewards one after the other, as `learn` does, until one reveals a change.

        Parameters
        ----------
        features : array of shape (n, dim)
            Features of the arms that were played.
        rewards : array of shape (n,)
            Their rewards, finite.

        Returns
        -------
        learned : int
            How many were learned.
        changes : tuple of Change
            What the last of them revealed.
        before : array of shape (dim,)
            The leading member's weights before it.

        Examples
        --------
        >>> import numpy as np
        >>> policy = DLinUCB(2, noise=0.1, window=20)
        >>> xs, rewards = np.tile([1.0, 0.0], (100, 1)), np.repeat([0.9, -0.9], 50)
        >>> learned, changes, before = policy.learn_many(xs, rewards)
        >>> learned, changes[0].kind, before.round(2).tolist()
        (55, 'spawned', [0.9, 0.0])
        """
        if not self.learns_many:
            raise ValueError("learn_many: only for ridge members and a noise that is given; use learn")
        features = as_pool(features, self.dim)
        rewards = np.ascontiguousarray(rewards, dtype=np.float64)
        if rewards.shape != (len(features),) or not (np.abs(rewards) <= LARGEST).all():
            raise ValueError(f"rewards: expected {len(features)} finite numbers of at most {LARGEST:g} in size")
        before = np.empty(self._model.size)
        learned, leader = self._model.judge_many(  # type: ignore[attr-defined]
            self._bank, self._ledger, self._rules, self._count, self._leader, features, rewards, before
        )
        weights: Floats = before[1 : 1 + self.dim]  # a ridge row is [n, theta, A^-1]
        if leader == windows.NOT_FINITE:
            if learned == 1:
                raise not_finite(features[0])
            learned -= 1  # the next call says what is wrong with it
            leader = windows.leader(self._ledger, self._rules, self._count)
        self.rounds += learned
        changes: tuple[Change, ...] = ()
        if leader == windows.REVIEW:
            changes = self._review()
        else:
            self._leader = leader
        for reward in rewards[:learned].tolist():
            if self._plain:
                break
            self._look_for_clicks(reward)  # last, as in `learn`
        return learned, changes, weights

    def _learn_unknown(self, unknown: UnknownNoise, x: Floats, reward: float) -> tuple[Change, ...]:
        """Learn a reward whose noise is not known, and from it about the noise."""
        row, updates = self.leading_row, int(self._ledger[self._leader, windows.UPDATES])
        mean, leverage = self._model.measure(row, x)
        if not math.isfinite(mean) or not math.isfinite(leverage) or not usable(x[np.newaxis], self.ridge):
            raise not_finite(x)
        residual = reward - mean
        changes: tuple[Change, ...] = ()
        if unknown.lumpy:
            self._model.update(row, x, reward)
            windows.record(self._ledger[0], 0)
            self._ledger[0, windows.UPDATES] += 1
            self.rounds += 1
            evidence = unknown.suspicion(x, reward, residual, leverage, updates)
            if evidence >= unknown.alarm:
                changes = self._replace(unknown, evidence)
        else:
            self._rules[0] = unknown.epsilon
            leader = self._model.judge(self._bank, self._ledger, self._rules, self._count, x, reward)
            if leader == windows.NOT_FINITE:
                raise not_finite(x)
            self.rounds += 1
            if leader >= 0:
                self._leader = leader
            else:
                changes = self._review()
                if any(change.kind == "spawned" and change.evidence["age"] < self.window for change in changes):
                    unknown.doubt()
        unknown.observe(x, reward, residual, leverage, updates)
        self._model.tune(self._bank[: self._count], *unknown.deviation_and_reach())
        return changes

    def _replace(self, unknown: UnknownNoise, evidence: float) -> tuple[Change, ...]:
        """Let a new member, with what the shadow learned, take the place of the only one."""
        age, updates = self._ledger[0, [windows.AGE, windows.UPDATES]].tolist()
        before = dict(zip(CLICK_EVIDENCE, (evidence, unknown.alarm, float(age), float(updates)), strict=True))
        changes = (
            Change(self.rounds, "spawned", self._spawned, before),
            Change(self.rounds, "retired", self.leader, before),
        )
        unknown.correct(self._model, self._bank[0])
        self._enter(0)
        return self._report(*changes)

    def _review(self) -> tuple[Change, ...]:
        """Retire lost members and spawn a new one where none is fine (lines 16 to 26)."""
        entries = self._ledger[: self._count]
        standings = [windows.standing(*windows.miss_rate(entry, self._rules), self._rules) for entry in entries]
        retired = [m for m, verdict in enumerate(standings) if verdict == windows.LOST]
        # A spawn is what the best of the old members made necessary, so its numbers are the evidence.
        calmest = min((self._describe(entry) for entry in entries), key=lambda m: m.miss_rate)
        spawn = windows.FINE not in standings
        if spawn and self._count - len(retired) == self.max_members:
            retired.append(max(range(self._count), key=lambda m: self._describe(entries[m]).miss_rate))
        changes = [self._change("retired", self._describe(entries[m])) for m in retired]
        keep = [m for m in range(self._count) if m not in retired]
        self._bank[: len(keep)] = self._bank[keep]
        self._ledger[: len(keep)] = self._ledger[keep]
        self._count = len(keep)
        if spawn:
            changes.insert(0, self._change("spawned", calmest, member=self._spawned))
            self._add_member()
        self._leader = windows.leader(self._ledger, self._rules, self._count)
        self._report(*changes)
        if any(change.kind == "retired" and change.evidence["updates"] == 0.0 for change in changes):
            self._warn_of_scale()
        return tuple(changes)

    def _warn_of_scale(self) -> None:
        if self.warned.first("scale"):
            warnings.warn(
                "a member was retired without having accepted a single reward: rewards fall outside a fresh member's "
                "interval; scale them down (a ridge member takes |theta| <= 1 for granted) or raise noise",
                RuntimeWarning,
                stacklevel=4,
            )

    def _add_member(self) -> None:
        if self._count == len(self._bank):
            self._bank = np.concatenate([self._bank, np.zeros_like(self._bank)])
            self._ledger = np.concatenate([self._ledger, np.zeros_like(self._ledger)])
        self._model.reset(self._bank[self._count])
        self._enter(self._count)
        self._count += 1

    def _enter(self, m: int) -> None:
        """Open the ledger of a member just born."""
        self._ledger[m] = 0
        self._ledger[m, : windows.AGE] = self._spawned, self.rounds
        self._spawned += 1

    def _look_for_clicks(self, reward: float) -> None:
        """Warn, once, where the noise that was given is no use on rewards of 0 and one other value."""
        watch = self._clicks
        if watch is None or not watch.still_clicks(reward):
            self._plain = True
        elif (problem := watch.verdict()) is not None:
            self._plain = True
            if self.warned.first("clicks"):
                warnings.warn(problem, ClickWarning, stacklevel=3)

    def _describe(self, entry: np.ndarray[Any, np.dtype[np.int64]]) -> Member:
        rate, width = windows.miss_rate(entry, self._rules)
        identity, spawned_at, age, _, updates = entry[: windows.RING].tolist()
        return Member(
            identity,
            spawned_at,
            age,
            updates,
            rate,
            width,
            self.spawn_delta + width,
            self.delta + width,
        )

    def _change(self, kind: ChangeKind, why: Member, member: int | None = None) -> Change:
        evidence = {
            "miss_rate": why.miss_rate,
            # A member that only made room was not lost: what it crossed is the bound of doubt.
            "bound": why.retire_bound if kind == "retired" and why.miss_rate >= why.retire_bound else why.spawn_bound,
            "age": float(why.age),
            "updates": float(why.updates),
        }
        return Change(self.rounds, kind, why.id if member is None else member, evidence)

    def _after_restore(self) -> None:
        rows = len(self._ledger)
        if not self._leader < self._count <= rows == len(self._bank):
            raise ValueError("state: count, leader, bank and ledger contradict each other")
        if self._count > self.max_members:
            raise ValueError(f"state: count: {self._count} members are more than max_members, {self.max_members}")
        if (self._ledger[:, windows.AGE] < 0).any():
            raise ValueError("state: ledger: ages must not be negative")


def _as_probability(name: str, value: float) -> float:
    number = as_number(name, value, 0.0, 1.0, open_low=True)
    if number == 1.0:
        raise ValueError(f"{name}: expected a number in (0, 1), got {value!r}")
    return number


def _as_noise(value: float) -> float:
    try:
        return as_number("noise", value, 0.0)
    except ValueError as error:
        raise ValueError(f"{error} (or 'auto')") from error
