"""Decisions, rewards, repetitions, delays, restarts and snapshots, in any order, against a plain dictionary."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from driftbandit.serving.loop.config import Plan
from driftbandit.serving.loop.events import Refused

from ..world import START, World

IDS = st.sampled_from([f"d{i}" for i in range(12)])
VALUES = st.sampled_from([0.0, 0.5, 1.0])
SCOPES = st.sampled_from(["ann", "bob", "eve"])


class Service(RuleBasedStateMachine):
    @initialize(
        policy=st.sampled_from(["linucb", "lints", "driftucb"]),
        learn=st.sampled_from(["window_close", "arrival"]),
        scoped=st.booleans(),
        default=st.sampled_from([None, 0.0]),
        shadow=st.sampled_from([None, Plan("lints"), Plan("driftucb")]),
    )
    def start(self, policy: str, learn: str, scoped: bool, default: float | None, shadow: Plan | None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name, "a.db"), snapshot_every=7, memory=100_000)
        self.learn, self.default = learn, default
        self.world.loop(
            dim=2, window=10.0, policy=policy, learn=learn, scoped=scoped, default_reward=default, shadow=shadow
        )
        self.arms = self.world.arms(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]))
        self.answers: dict[str, tuple[str, Any]] = {}
        self.expires: dict[str, int] = {}
        self.rewards: dict[str, float] = {}
        self.late = 0

    def _open(self, ident: str) -> bool:
        return self.expires[ident] > self.world.now

    @rule(ident=IDS, scope=SCOPES)
    def decide(self, ident: str, scope: str) -> None:
        if ident in self.answers and self.answers[ident][0] != scope:
            with pytest.raises(Refused, match="another body"):
                self.world.decide(ident, self.arms, scope)
            return
        created, answer = self.world.decide(ident, self.arms, scope)
        assert created == (ident not in self.answers)
        if created:
            self.answers[ident] = scope, answer
            self.expires[ident] = self.world.now + 10_000
        assert self.answers[ident] == (scope, answer)

    @rule(ident=IDS, value=VALUES)
    def reward(self, ident: str, value: float) -> None:
        found = self.world.reward(ident, value)
        if ident not in self.answers:
            assert found == "404"
        elif ident in self.rewards:
            assert found == ("duplicate" if self.rewards[ident] == value else "409")
        elif self._open(ident):
            assert found == "accepted"
            self.rewards[ident] = value
        else:
            assert found == "410"
            self.late += 1

    @rule(milliseconds=st.sampled_from([0, 1, 3_000, 9_999, 10_000, 60_000]))
    def wait(self, milliseconds: int) -> None:
        self.world.now += milliseconds

    @rule()
    def tick(self) -> None:
        self.world.engine.tick()
        self.world.engine.commit()

    @rule()
    def snapshot(self) -> None:
        self.world.engine.snapshot()

    @rule()
    def crash(self) -> None:
        before = self.world.engine.digest("x")
        self.world.restart()
        assert self.world.engine.digest("x") == before

    @invariant()
    def every_reward_is_learned_once(self) -> None:
        if not hasattr(self, "answers"):
            return
        self.world.engine.tick()
        self.world.engine.commit()
        learned = 0
        for ident in self.answers:
            closed = not self._open(ident)
            value = self.rewards.get(ident, self.default if closed else None)
            learned += value is not None and (closed or self.learn == "arrival")
        counts = self.world.counts()
        assert counts.learned == learned
        assert counts.decisions == len(self.answers)
        assert counts.rewards == len(self.rewards)
        assert counts.late == self.late
        assert self.world.engine.parts("x")[0].waiting == sum(map(self._open, self.answers))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.check()
            assert self.world.now >= START
            self.world.store.close()
            self.folder.cleanup()


TestService = Service.TestCase
TestService.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
