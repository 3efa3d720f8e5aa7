"""The runs behind the golden traces and the reference path: every policy in one small world.

``python tests/golden/worlds.py`` prints the traces as JSON; redirect it to traces.json after a change that is meant to
change choices, and say so in the changelog.
"""

import json
import sys
import warnings
import zlib

from driftbandit import (
    DAL,
    MASTER,
    MUCB,
    PHTUCB,
    WMDUCB1,
    AdTS,
    CusumUCB,
    DLinUCB,
    GammaRestart,
    GLRklUCB,
    MetaBandit,
    PSLinUCB,
    synthetic,
)
from driftbandit.evaluation.simulate import simulate
from driftbandit.policies.choosing_memory.click_warning import ClickWarning
from driftbandit.policies.registry import REGISTRY, Brief


class Turns:
    """A policy with a scope as a plain one: four users take turns."""

    def __init__(self, policy):
        self.inner, self.rounds = policy, 0

    def choose(self, features, arms=None):
        return self.inner.choose(features, scope=self.rounds % 4)

    def learn(self, features, reward, arm=None):
        self.rounds += 1
        return self.inner.learn(features, reward, scope=(self.rounds - 1) % 4)


def builder_of(entry):
    return (lambda brief: Turns(entry.build(brief))) if entry.scoped else entry.build


BUILDERS = {name: builder_of(entry) for name, entry in REGISTRY.items()} | {
    "dlinucb-thompson": lambda brief: DLinUCB(brief.dim, brief.noise, model="thompson", seed=brief.seed),
    "dlinucb-logistic": lambda brief: DLinUCB(brief.dim, 0.25, model="logistic", window=20, explore=0.3),
    "dlinucb-auto-clicks": lambda brief: DLinUCB(brief.dim, "auto", explore=0.3, delta=0.5, window_delta=0.9),
    # Settings quick enough to detect something in a short run.
    "adts-quick": lambda brief: AdTS(brief.dim, window=30, check_every=10, seed=brief.seed),
    "wmducb1-quick": lambda brief: WMDUCB1(window=20, check_every=2, delta=1.0, reward_range=(-1.0, 1.0)),
    "wmducb1-pooled": lambda brief: WMDUCB1(
        window=30, check_every=10, delta=1.0, stream="pooled", reward_range=(-1.0, 1.0)
    ),
    "meta-bandit-quick": lambda brief: MetaBandit(threshold=0.5, trial=50, reward_range=brief.reward_range),
    "ps-linucb-quick": lambda brief: PSLinUCB(brief.dim, brief.noise, window=25, ridge=0.1, explore=0.1),
    "dal-quick": lambda brief: DAL(brief.dim, brief.noise, horizon=500, burn_in=50, ridge=0.1, explore=0.1),
    "master-quick": lambda brief: MASTER(
        brief.dim, brief.noise, rate=0.2, scale=1.0, first=2.0, second=2.0, reward_range=brief.reward_range, explore=0.1
    ),
    "gamma-restart-quick": lambda brief: GammaRestart(threshold=0.5, reward_range=brief.reward_range),
    "cusum-ucb-quick": lambda brief: CusumUCB(
        calibration=10, slack=0.05, threshold=0.5, reward_range=brief.reward_range, seed=brief.seed
    ),
    "pht-ucb-quick": lambda brief: PHTUCB(slack=0.05, threshold=0.5, reward_range=brief.reward_range, seed=brief.seed),
    "glr-klucb-quick": lambda brief: GLRklUCB(delta=1.0, splits=20, reward_range=(-0.6, 0.75), seed=brief.seed),
    "glr-klucb-local-quick": lambda brief: GLRklUCB(
        restart="local", delta=1.0, splits=20, reward_range=(-0.6, 0.75), seed=brief.seed
    ),
    "m-ucb-quick": lambda brief: MUCB(window=20, threshold=1.5, reward_range=brief.reward_range, seed=brief.seed),
}

FEW_ARMS = (
    "wmducb1-quick",
    "wmducb1-pooled",
    "meta-bandit-quick",
    "gamma-restart-quick",
    "cusum-ucb-quick",
    "pht-ucb-quick",
    "glr-klucb-quick",
    "glr-klucb-local-quick",
    "m-ucb-quick",
)
CLICKS = ("dlinucb-logistic", "dlinucb-auto-clicks")


def trace_of(name, horizon=500, **world):
    """Choices and changes of a policy; clicks for those that are made for them."""
    preset = "table1-clicks-v1" if name in CLICKS else "table1-v1"
    settings = {"period": 150, "noise": 0.05, "arms": 3 if name in FEW_ARMS else 1000}
    settings |= {"pool": min(settings["arms"], 10)}
    settings |= ({"clicks": (0.01, 0.99)} if "clicks" in preset else {}) | world
    rounds = synthetic(preset, seed=12345, horizon=horizon, **settings)
    brief = Brief(rounds.dim, rounds.noise, rounds.reward_range, rounds.shifts.tolist(), seed=zlib.crc32(name.encode()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClickWarning)
        trace = simulate(BUILDERS[name](brief), rounds)
    changes = [f"{change.round} {change.kind} {change.member}" for change in trace.changes]
    return {"choices": " ".join(str(choice) for choice in trace.choices), "changes": changes}


if __name__ == "__main__":
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else BUILDERS
    world = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    json.dump({name: trace_of(name, **world) for name in names}, sys.stdout, indent=1)
    print()
