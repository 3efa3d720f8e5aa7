"""Run policies through a log, once for all of them, batch by batch.

Two questions can be asked of a log, and the answers differ:

**Shadow value.** What would this policy have earned per decision, had it chosen what is shown while learning from
everything that was logged? The policy chooses before each event and then learns the logged reward, whatever was
displayed. The estimate is of the mean over events of the value of the policy as it was before each of them.

**Replayed value.** What would it have earned, had it learned from its own choices alone? An event is accepted with
probability min(1, c pi / p), and only then learned (Dudik, Erhan, Langford and Li, 2012). The policy sees
about the share c of the events, so drift looks 1 / c times faster to it.

A policy's pi is 1 for its choice. For a policy that draws at random, this is one draw: unbiased, a little noisier. A
policy that says `is_uniform` has pi = 1 / K exactly.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbandit.core import Change, Floats, Ints, Policy, ScopedPolicy, as_number, takes_scope
from driftbandit.evaluation.logged.progressive import UNIFORM, BestArm, RewardModel
from driftbandit.evaluation.logged.valuation import Estimand, Valuation
from driftbandit.evaluation.samples import Sample
from driftbandit.kernels.watching import ALWAYS, IF_CHOSEN, NEVER
from driftbandit.logs import Events

LOGGER, ALIKE, BEST_ARM = "logger", "uniform", "best arm"
"""Names of the baselines: who made the log, all candidates alike, and the best fixed arm as far as it is known."""

Lessons = NDArray[np.int8]
Policies = Mapping[str, Policy | ScopedPolicy]


def shadow_values(
    policies: Policies,
    log: Iterable[Events],
    *,
    ridge: float = 1.0,
    baselines: bool = True,
    bounded: bool = False,
    on_ray: Collection[str] = (),
) -> dict[str, Valuation]:
    """What policies would have earned while learning every logged reward: the shadow value.

    Parameters
    ----------
    policies : mapping of str to policy
        Fresh policies by name; they learn as they go. Scoped policies are told the log's scopes, context-free ones its
        arm ids.
    log : iterable of Events
        The log in order, read once. Memory grows by a few numbers per event, not by its features.
    ridge : float
        Regularisation of the reward model.
    baselines : bool
        Whether the results include 'uniform' and 'best arm' (see `progressive.BestArm`). The 'logger' is always there.
    bounded : bool
        Whether predictions are held between the smallest and the largest reward so far, 0 and 1 included: what a
        confidence sequence of doubly robust estimates needs (`robust_sequences.dr_sequence`).
    on_ray : collection of str
        Names of policies that run on a Ray cluster, each on a core of its own, while the others run here. Copies of
        them learn; the policies themselves stay as they were. The results are the same.

    Returns
    -------
    dict of str to Valuation
        By name, baselines first.

    Examples
    --------
    >>> from driftbandit import LinUCB
    >>> rng = np.random.default_rng(0)
    >>> events = Events(
    ...     features=np.tile(np.eye(2), (500, 1)), arms=np.tile([0, 1], 500), offsets=np.arange(0, 1001, 2),
    ...     shown=rng.integers(2, size=500), propensities=np.full(500, 0.5), rewards=np.zeros(500),
    ...     scopes=np.zeros(500), times=np.arange(500), rows=np.arange(500),
    ... )
    >>> events.rewards[:] = events.shown == 1  # the second arm always pays
    >>> values = shadow_values({"linucb": LinUCB(2)}, [events])
    >>> [(name, round(value.interval().estimate, 1)) for name, value in values.items()]
    [('logger', 0.6), ('uniform', 0.5), ('best arm', 1.0), ('linucb', 1.0)]
    """
    passage = _Passage(policies, "shadow", ridge, baselines, bounded, on_ray)
    return passage.through(log, lambda events: _all(events, ALWAYS))


def replayed_values(
    policies: Policies,
    log: Iterable[Events],
    *,
    c: float | None = None,
    seed: int = 0,
    ridge: float = 1.0,
    baselines: bool = True,
    bounded: bool = False,
) -> dict[str, Valuation]:
    """What policies would have earned while learning only events that are accepted: the replayed value.

    All events count in the estimates, whether accepted or not: each is a fresh look at the policy as it is.

    Parameters
    ----------
    policies, log, ridge, baselines, bounded :
        As in `shadow_values`; 'best arm', which learns everything, is left out.
    c : float, optional
        An event is accepted with probability min(1, c pi / p). By default the smallest propensity in the first batch,
        which keeps most. Where c pi / p exceeds 1 the policy's own history would contain the event more than once, and
        the answer is approximate; choose c no larger than the logger's smallest propensity.
    seed : int
        Seed of the draws that accept.

    Returns
    -------
    dict of str to Valuation
        By name, baselines first; `Valuation.share_accepted` says how much was learned.
    """
    rate = None if c is None else as_number("c", c, 0.0, 1.0, open_low=True)
    luck = np.random.default_rng(seed)

    def lessons(events: Events) -> Lessons:
        nonlocal rate
        if rate is None:
            rate = float(events.propensities.min())
        # A policy without chance accepts what it chose with min(1, c / p); what it did not choose, never.
        lucky = luck.random(len(events)) < rate / events.propensities
        return np.where(lucky, IF_CHOSEN, NEVER).astype(np.int8)

    return _Passage(policies, "replayed", ridge, baselines, bounded).through(log, lessons)


def _all(events: Events, lesson: int) -> Lessons:
    return np.full(len(events), lesson, dtype=np.int8)


class _Passage:
    """One passage of all policies through a log."""

    def __init__(
        self,
        policies: Policies,
        estimand: Estimand,
        ridge: float,
        baselines: bool,
        bounded: bool,
        on_ray: Collection[str] = (),
    ) -> None:
        if taken := {LOGGER, ALIKE, BEST_ARM} & set(policies):
            raise ValueError(f"policies: {sorted(taken)[0]!r} is the name of a baseline; give the policy another name")
        self._estimand = estimand
        self._ridge, self._bounded = ridge, bounded
        self._runs = [_Run(name, policy) for name, policy in policies.items()]
        self._away = [run for run in self._runs if run.name in on_ray]
        self._baselines = baselines
        self._best = BestArm() if baselines and estimand == "shadow" else None
        self._names = [*([ALIKE] if baselines else []), *([BEST_ARM] if self._best else []), *policies]
        self._shared: dict[str, list[NDArray[Any]]] = {name: [] for name in ("rewards", "predicted", "rows", "times")}
        self._weights: list[list[Floats]] = [[] for _ in self._names]
        self._expected: list[list[Floats]] = [[] for _ in self._names]
        self._smallest = 1.0

    def through(self, log: Iterable[Events], lessons: Any) -> dict[str, Valuation]:
        """Read the log once, and return what each policy would have earned."""
        model, dim, done = RewardModel(0), 0, 0
        for events in log:
            if not len(events):
                continue
            as_known(events)
            if not done:
                dim, model = events.dim, RewardModel(events.dim, ridge=self._ridge, bounded=self._bounded)
            if events.dim != dim:
                raise ValueError(f"log: expected {dim} features in every batch, got {events.dim}")
            plan = lessons(events)
            choices = self._go(events, plan, done)
            if self._best is not None:
                choices.insert(0, self._best.follow(events))
            if self._baselines:
                choices.insert(0, np.full(len(events), UNIFORM))
            self._keep(events, model, np.array(choices, dtype=np.int64).reshape(len(choices), len(events)))
            done += len(events)
        if not done:
            raise ValueError("log: expected at least one event, got none")
        return self._results(done)

    def _go(self, events: Events, lessons: Lessons, done: int) -> list[Ints]:
        """The choices of all policies at these events."""
        with self._sent(events, lessons, done) as results:
            near = [_gone(run.task, events, lessons, done) for run in self._runs if run not in self._away]
            far = results()
        passed = dict(zip([run.name for run in self._runs if run not in self._away], near, strict=True))
        passed |= dict(zip([run.name for run in self._away], far, strict=True))
        return [run.take(passed[run.name], events, lessons) for run in self._runs]

    def _sent(self, events: Events, lessons: Lessons, done: int) -> AbstractContextManager[Any]:
        if not self._away:
            return nullcontext(list)
        from driftbandit.evaluation.on_ray import started_on_ray  # noqa: PLC0415 - only this needs it

        return started_on_ray(_gone, [run.task for run in self._away], events, lessons, done)

    def _keep(self, events: Events, model: RewardModel, choices: Ints) -> None:
        predicted, expected = model.follow(events, choices)
        found = {"rewards": events.rewards, "predicted": predicted, "rows": events.rows, "times": events.times}
        for name, values in found.items():
            self._shared[name].append(values)
        alike = 1.0 / np.diff(events.offsets)
        for place, chosen in enumerate(choices):
            chances = np.where(chosen == UNIFORM, alike, chosen == events.shown)
            self._weights[place].append(chances / events.propensities)
            self._expected[place].append(expected[place])
        self._smallest = min(self._smallest, float(events.propensities.min()))

    def _results(self, count: int) -> dict[str, Valuation]:
        shared = {name: _joined(parts) for name, parts in self._shared.items()}
        rewards, everything = shared["rewards"], np.ones(count, dtype=bool)
        runs = {run.name: run for run in self._runs}
        # The logger's rewards are known, so they are the best prediction of themselves: every estimate is their mean.
        samples = {LOGGER: Sample(np.ones(count), rewards, rewards, rewards)}
        for place, name in enumerate(self._names):
            weights, expected = _joined(self._weights[place]), _joined(self._expected[place])
            samples[name] = Sample(weights, rewards, shared["predicted"], expected)
        return {
            name: Valuation(
                name=name,
                estimand=self._estimand,
                sample=sample,
                accepted=_joined(runs[name].accepted) if name in runs else everything,
                rows=shared["rows"],
                times=shared["times"],
                smallest_propensity=self._smallest,
                changes=tuple(runs[name].changes) if name in runs else (),
                seconds=runs[name].seconds if name in runs else 0.0,
            )
            for name, sample in samples.items()
        }


def _joined(parts: list[Any]) -> Any:
    """The parts as one array; they are let go, because a long log must not be held twice."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


class _Run:
    """One policy on its way through a log."""

    def __init__(self, name: str, policy: Any) -> None:
        self.name = name
        self.changes: list[tuple[int, Change]] = []
        self.accepted: list[NDArray[np.bool_]] = []
        self.seconds = 0.0
        self._policy = policy

    @property
    def task(self) -> tuple[str, Any]:
        """What goes through the next events: the policy and its name."""
        return self.name, self._policy

    def take(self, gone: _Gone, events: Events, lessons: Lessons) -> Ints:
        """Keep what the policy found at these events; returns its choices."""
        self._policy = gone.policy
        self.accepted.append((lessons == ALWAYS) | ((lessons == IF_CHOSEN) & (gone.choices == events.shown)))
        self.changes += gone.changes
        self.seconds += gone.seconds
        uniform = getattr(gone.policy, "is_uniform", False) is True
        return np.full(len(events), UNIFORM) if uniform else gone.choices


@dataclass(frozen=True)
class _Gone:
    """A policy that has gone through some events, and what it found there."""

    policy: Any
    choices: Ints
    changes: list[tuple[int, Change]]
    seconds: float


def _gone(task: tuple[str, Any], events: Events, lessons: Lessons, done: int) -> _Gone:
    """Let a policy go through some events, of which `done` came before."""
    name, policy = task
    changes: list[tuple[int, Change]] = []
    started = time.perf_counter()
    try:
        if getattr(policy, "watches_many", False):
            choices: Ints = policy.watch_many(events.features, events.offsets, events.shown, events.rewards, lessons)
        else:
            choices = _one_by_one(policy, events, lessons, done, changes)
    except ValueError as error:
        raise ValueError(f"policies: {name}: {error}") from error
    return _Gone(policy, choices, changes, time.perf_counter() - started)


def _one_by_one(policy: Any, events: Events, lessons: Lessons, done: int, changes: list[tuple[int, Change]]) -> Ints:
    choose, learn = policy.choose, policy.learn
    scoped = takes_scope(policy)
    choices = np.empty(len(events), dtype=np.int64)
    offsets, rewards, scopes = events.offsets.tolist(), events.rewards.tolist(), events.scopes.tolist()
    for event, (shown, lesson) in enumerate(zip(events.shown.tolist(), lessons.tolist(), strict=True)):
        start, stop = offsets[event], offsets[event + 1]
        whose = {"scope": scopes[event]} if scoped else {}
        choice = choose(events.features[start:stop], events.arms[start:stop], **whose)
        choices[event] = choice
        if lesson == ALWAYS or (lesson == IF_CHOSEN and choice == shown):
            place = start + shown
            found = learn(events.features[place], rewards[event], int(events.arms[place]), **whose)
            if found:
                changes.extend((done + event, change) for change in found)
    return choices


def as_known(events: Events) -> None:
    """Refuse events whose propensities are not known, naming the row of the first."""
    chances = events.propensities
    wrong = ~((chances > 0.0) & (chances <= 1.0))
    if wrong.any():
        where = int(np.argmax(wrong))
        raise ValueError(
            f"log: expected propensities above 0 and at most 1, got {chances[where]} in row {events.rows[where]}; say "
            "how the log was made"
        )
