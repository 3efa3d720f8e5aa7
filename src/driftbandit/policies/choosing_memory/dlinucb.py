"""dLinUCB: a coordinator over linear members that notices when tastes shift.

Every member is a reward model with a confidence width. A reward outside a member's interval is a miss, and a member
that misses too often in its recent window is out of date: the coordinator spawns a new member as soon as no member is
beyond doubt, retires members that miss far too often, and lets the member with the lowest plausible miss rate choose.
Wu, Iyer and Wang, SIGIR 2018; the lines of their Algorithm 1 are marked below, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from driftbandit.core import Change, as_count, as_dim, as_example, as_number, as_reward, not_finite, unknown_name
from driftbandit.kernels import windows
from driftbandit.models import RewardModel
from driftbandit.policies.base import MemberPolicy
from driftbandit.policies.choosing_memory import dlinucb_settings as read
from driftbandit.policies.choosing_memory.click_warning import warn_of_scale
from driftbandit.policies.choosing_memory.many_rewards import learn_many_dlinucb
from driftbandit.policies.choosing_memory.members import EVIDENCE, Member, change_of, check_members, describe
from driftbandit.policies.choosing_memory.unknown_noise import CLICK_EVIDENCE
from driftbandit.policies.entry import Brief, Entry, Variants, from_brief
from driftbandit.state import ChangeLog


class DLinUCB(MemberPolicy):
    """Dynamic linear bandit: the paper's policy.

    With the defaults it follows Algorithm 1 as printed, except that epsilon is positive (the printed sign narrows the
    interval by the noise instead of widening it). Like the paper it takes |theta| <= 1 for granted: scale rewards and
    features so that rewards are about as large as |x| at most, or every reward is a miss (you are warned).

    Parameters
    ----------
    dim : int
        Number of features.
    noise : float or 'auto'
        Standard deviation of a reward around its mean (sigma); 'auto' estimates it, and |theta| too.
    ridge : float
        Regularisation of a member (lambda).
    explore : float, optional
        Constant multiplier of sqrt(x' A^-1 x) in the arm choice; by default the radius of the miss test (alpha_t).
    delta : float
        Share of misses that a healthy member is allowed (delta_1).
    spawn_delta : float
        Share of misses above which no member is beyond doubt (delta_1 tilde); equal to `delta` keeps a single member.
    window_delta : float
        Error probability of the miss-rate estimate (delta_2).
    window : int
        How many recent rounds the miss rate looks at (tau).
    model : str or callable
        What a member is: 'ridge', 'logistic', 'thompson', a `RewardModel` subclass, or any callable that takes `dim`
        and the keywords `noise`, `ridge`, `explore` and `delta`. The coordinator sees predictions and widths only.
    max_members : int
        At this many members, the one with the highest miss rate makes room for a new one.
    radius : {'paper', 'released'}
        Confidence radius and epsilon of ridge and Thompson members: as printed, or as in the authors' code.
    counting : {'paper', 'released'}
        How the miss rate is counted: divided by the window's length, first width 0, compared by < and >= as printed; or
        divided by the length plus one, first width 0.5, compared by <= and > as in the authors' code.
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

    evidence = EVIDENCE
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = read.PRESETS
    """Settings of the named presets, over the defaults."""

    _parts = (*MemberPolicy._parts, "_ledger", "_count", "_spawned", "_watch")
    _stored_as: ClassVar[dict[str, str]] = {"_watch": "unknown"}
    _growing = frozenset({"_bank", "_ledger"})

    def __init__(
        self,
        dim: int,
        noise: read.Noise,
        *,
        ridge: float = 0.1,
        explore: float | None = None,
        delta: float = 0.01,
        spawn_delta: float = 0.002,
        window_delta: float = 0.1,
        window: int = 200,
        model: str | Callable[..., RewardModel] = "ridge",
        max_members: int = 50,
        radius: read.Rule = "paper",
        counting: read.Rule = "paper",
        seed: int = 0,
    ) -> None:
        dim = as_dim(dim)
        self.noise = read.as_noise(noise)
        self.ridge = as_number("ridge", ridge, 0.0, open_low=True)  # line 1
        self.explore = None if explore is None else as_number("explore", explore, 0.0)
        self.delta = read.as_probability("delta", delta)
        self.spawn_delta = as_number("spawn_delta", spawn_delta, 0.0, self.delta)
        self.window_delta = read.as_probability("window_delta", window_delta)
        self.window = as_count("window", window)
        self.max_members = as_count("max_members", max_members)
        self.model = model
        self.radius, self.counting = read.as_rule("radius", radius), read.as_rule("counting", counting)
        super().__init__(dim, read.build_model(self, dim, model), seed)
        self._log = ChangeLog(EVIDENCE, CLICK_EVIDENCE)
        self._watch = read.build_watch(self)
        self._rules = read.build_rules(self, self._watch.epsilon)
        self._ledger = np.zeros((1, windows.RING + self.window), dtype=np.int64)
        self._count = self._spawned = 0
        self._add_member()  # line 2

    @classmethod
    def preset(cls, name: str, dim: int, noise: read.Noise, **overrides: Any) -> Self:
        """Build the policy with the settings of `PRESETS`, any of them overridden by keyword."""
        if name not in cls.PRESETS:
            raise ValueError(unknown_name("preset", name, cls.PRESETS))
        return cls(dim, noise, **{**cls.PRESETS[name], **overrides})

    # Line 3: rounds come from outside, as one call of `choose` and one of `learn` each.
    # Line 4: `_leader` is the member with the lowest miss rate - sqrt(ln tau) * width; `learn` keeps it up to date.
    # Line 5: the candidates are the rows of `features`.
    # Line 6: the leader plays argmax x'theta + radius * sqrt(x' A^-1 x), in `kernels.ridge.optimistic_arm`.
    choose = MemberPolicy.choose

    def learn(self, features: ArrayLike | None, reward: float, arm: int | None = None) -> tuple[Change, ...]:
        """Show the reward of an arm with these features, shape (dim,), to every member; returns the changes."""
        x = as_example(features, self.dim)
        if type(reward) is not float or not self._low <= reward <= self._high:  # line 7
            reward = as_reward(reward, self._low, self._high)
        watch = self._watch
        seen = watch.before(self, x, reward) if watch.busy else None
        # Lines 8 to 15 are compiled, in `kernels.windows.judge_round`:
        # line 8: a new member will be created, unless one turns out to be fine
        # line 9: for every member,
        # line 10: a miss is |x'theta - reward| > radius * sqrt(x' A^-1 x) + epsilon
        # lines 11 to 13: without a miss, the member learns: A += x x', b += reward * x, theta = A^-1 b
        # line 14: n = min(age, tau)
        # line 15: miss rate = misses in the last n rounds / n, width = sqrt(ln(1 / delta_2) / (2 n))
        leader = self._model.judge(self._bank, self._ledger, self._rules, self._count, x, reward)
        if leader == windows.NOT_FINITE:
            raise not_finite(x)
        self.rounds += 1
        changes: tuple[Change, ...] = ()
        if leader >= 0:
            self._leader = leader
        else:
            changes = self._review()
        return watch.after(self, x, reward, seen, changes) if watch.busy else changes

    def _review(self) -> tuple[Change, ...]:
        """Retire lost members, and spawn a new one if none is fine; only called if there is work to do."""
        members = self.members
        retired, create = [], True
        for m, member in enumerate(members):
            standing = windows.standing(member.miss_rate, member.width, self._rules)
            if standing == windows.FINE:  # line 16
                create = False  # line 17
            elif standing == windows.LOST:  # line 18
                retired.append(m)  # line 19
        # lines 20 and 21: end of the loop over members
        if create and len(members) - len(retired) == self.max_members:  # not in the paper: a member makes room
            retired.append(max(range(len(members)), key=lambda m: members[m].miss_rate))
        changes = [change_of("retired", self.rounds, members[m].id, members[m]) for m in retired]
        keep = [m for m in range(len(members)) if m not in retired]
        self._bank[: len(keep)] = self._bank[keep]
        self._ledger[: len(keep)] = self._ledger[keep]
        self._count = len(keep)
        if create:  # line 22, also if no member is left, because then none was fine
            # The best of the old members made the spawn necessary, so its numbers are the evidence.
            calmest = min(members, key=lambda member: member.miss_rate)
            changes.insert(0, change_of("spawned", self.rounds, self._spawned, calmest))
            self._add_member()  # lines 23 to 26
        self._leader = windows.leader(self._ledger, self._rules, self._count)  # line 27: on to line 4
        self._report(*changes)
        if any(members[m].updates == 0 for m in retired):
            warn_of_scale(self)
        return tuple(changes)

    def _add_member(self) -> None:
        if self._count == len(self._bank):
            self._bank = np.concatenate([self._bank, np.zeros_like(self._bank)])
            self._ledger = np.concatenate([self._ledger, np.zeros_like(self._ledger)])
        self._model.reset(self._bank[self._count])  # line 24: A = ridge * I, b = theta = 0
        self._enter(self._count)  # line 25
        self._count += 1

    def _enter(self, m: int) -> None:
        """Open the ledger of a member that was just born: nothing judged, no misses."""
        self._ledger[m] = 0
        self._ledger[m, [windows.ID, windows.SPAWNED_AT]] = self._spawned, self.rounds
        self._spawned += 1

    @property
    def members(self) -> tuple[Member, ...]:
        """The members as they stand, oldest first."""
        return tuple(describe(entry, self._rules) for entry in self._ledger[: self._count])

    @property
    def leader(self) -> int:
        """Id of the member that chooses the next arm."""
        return int(self._ledger[self._leader, windows.ID])

    @property
    def miss_test(self) -> tuple[float, float, float]:
        """Miss rate of the leading member, and the rates above which members are spawned and retired."""
        leader = describe(self._ledger[self._leader], self._rules)
        return leader.miss_rate, leader.spawn_bound, leader.retire_bound

    @property
    def noise_estimate(self) -> float | None:
        """The noise that ``noise='auto'`` estimates; None before there is enough data, or if the noise was given."""
        return self._watch.deviation or None

    @property
    def judges_clicks(self) -> bool:
        """Whether the rewards so far are clicks, which ``noise='auto'`` judges many at a time instead of by misses."""
        return self.rounds > 0 and self._watch.lumpy

    def facts(self) -> dict[str, Any]:
        """The estimated noise (None if it was given), and whether clicks are judged many at a time."""
        return {"noise": self.noise_estimate, "judges_clicks": self.judges_clicks}

    @property
    def learns_many(self) -> bool:
        """Whether `learn_many` can be used: it needs a given noise and a model that can judge many rewards at once."""
        return self._watch.learns_many and self._model.judges_many

    learn_many = learn_many_dlinucb

    def _after_restore(self) -> None:
        check_members(self._bank, self._ledger, self._leader, self._count, self.max_members)


def _tried(brief: Brief, preset: str, explore: float) -> dict[str, Any]:
    return {**DLinUCB.PRESETS[preset], "explore": explore}


_GRID = {"preset": ("table1", "released"), "explore": (0.1, 0.3, 0.6)}
_TOLD_THE_NOISE: dict[str, Any] = {
    "policy": DLinUCB,
    "told": ("noise",),
    "untold": {"noise": "auto"},
    "page": "dlinucb",
}

ENTRIES = (
    Entry(
        name="dlinucb",
        title="dLinUCB",
        summary="members with a miss-rate test; the settings behind the paper's Table 1",
        settings=from_brief("dim", "noise", "seed", **DLinUCB.PRESETS["table1"]),
        place=20,
        variants=(Variants("dlinucb-tuned", "dLinUCB, tuned", _GRID, _tried, place=60),),
        **_TOLD_THE_NOISE,
    ),
    Entry(
        name="dlinucb-paper",
        title="dLinUCB (printed)",
        summary="Algorithm 1 line by line, with epsilon positive",
        settings=from_brief("dim", "noise", "seed", **DLinUCB.PRESETS["paper"]),
        place=30,
        **_TOLD_THE_NOISE,
    ),
    Entry(
        name="dlinucb-released",
        title="dLinUCB (released)",
        summary="the radius and epsilon of the authors' released code",
        settings=from_brief("dim", "noise", "seed", **DLinUCB.PRESETS["released"]),
        place=40,
        **_TOLD_THE_NOISE,
    ),
    Entry(
        name="dlinucb-auto",
        title="dLinUCB (auto)",
        summary="the settings of dlinucb, with the noise estimated; works on clicks",
        policy=DLinUCB,
        settings=from_brief("dim", "seed", noise="auto", **DLinUCB.PRESETS["table1"]),
        page="dlinucb",
        place=50,
    ),
)
