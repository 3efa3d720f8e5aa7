"""The policies of Figure 4, and the rivals that its detection is held against.

They have a module of their own, because runs are repeated when the module of their policy changes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from driftbandit.core import Policy
from driftbandit.policies.choosing_memory.dlinucb import DLinUCB
from driftbandit.policies.choosing_memory.driftucb import DriftUCB
from driftbandit.policies.forgetting.restart_linucb import RestartLinUCB
from driftbandit.policies.forgetting.sw_linucb import SWLinUCB
from driftbandit.policies.linear.linucb import LinUCB
from driftbandit.policies.linear.oracle import OracleLinUCB
from driftbandit.policies.registry import Brief, Builder
from driftbandit.policies.restarting.adts import AdTS

EXPLORE = 0.3
"""Exploration of the LinUCB in every policy of Figure 4 that has one."""
RIDGE = 0.1

NOISES = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4)
"""Noise levels that the sensitivity of dLinUCB is shown for."""

V = 0.4
"""Scale of adTS's posterior: the default of the authors' library. Their simulation script and our Table 1 use 0.1."""

ADTS_SETTINGS: dict[str, dict[str, Any]] = {
    "v 0.4, window 200, every 50": {"explore": 0.4},
    "v 0.4, window 500, every 50": {"explore": 0.4, "window": 500},
    "v 0.4, window 80, every 10": {"explore": 0.4, "window": 80, "check_every": 10},
    "v 0.1, window 200, every 50": {"explore": 0.1},
    "v 0.1, window 80, every 10": {"explore": 0.1, "window": 80, "check_every": 10},
}
"""Settings of adTS found in the authors' code; it is not known which of these their LastFM runs used."""

PACE = 1133
"""Median number of rewards between two alarms of dLinUCB on LastFM clusters (pool seed 200): a blind rival's pace."""
LENGTHS = (100, 200, 400, 800, 1600, 3200)
"""Periods of restarts and lengths of windows to choose from."""

AUTO = "dLinUCB noise='auto', one member"
DRIFTUCB = "driftucb"


def linucb(brief: Brief) -> Policy:
    """LinUCB as in the authors' runs."""
    return LinUCB(brief.dim, explore=EXPLORE)


def dlinucb(brief: Brief) -> Policy:
    """dLinUCB with the settings of the authors' code."""
    return DLinUCB.preset("released", brief.dim, brief.noise, explore=EXPLORE)


def adts(brief: Brief) -> Policy:
    """adTS with the settings of the authors' library."""
    return AdTS(brief.dim, explore=V, seed=brief.seed)


def oracle(brief: Brief) -> Policy:
    """LinUCB that is told where the next user or cluster begins."""
    return OracleLinUCB(brief.dim, shifts=brief.shifts, explore=EXPLORE)


BUILDERS: dict[str, Builder] = {"dlinucb": dlinucb, "linucb": linucb, "adts": adts, "oracle": oracle}


def told(noise: float, brief: Brief) -> Policy:
    """dLinUCB that is told this noise."""
    return dlinucb(replace(brief, noise=noise))


def adts_with(name: str, brief: Brief) -> Policy:
    """adTS with one of `ADTS_SETTINGS`."""
    return AdTS(brief.dim, seed=brief.seed, **ADTS_SETTINGS[name])


def auto(brief: Brief) -> Policy:
    """dLinUCB that estimates the noise: on these 0/1 rewards, one member and a likelihood-ratio test."""
    return DLinUCB.preset("released", brief.dim, "auto", explore=EXPLORE)


def driftucb(brief: Brief) -> Policy:
    """DriftUCB with its defaults."""
    return DriftUCB(brief.dim)


def restarted(period: int, brief: Brief) -> Policy:
    """LinUCB that forgets everything every `period` rewards."""
    return RestartLinUCB(brief.dim, brief.noise, period=period, ridge=RIDGE, explore=EXPLORE)


def windowed(window: int, brief: Brief) -> Policy:
    """LinUCB on the last `window` rewards."""
    return SWLinUCB(brief.dim, brief.noise, window=window, ridge=RIDGE, explore=EXPLORE)


def restarts_of(period: int) -> str:
    """Name of `restarted`."""
    return f"LinUCB restarted every {period:,}"


def window_of(length: int) -> str:
    """Name of `windowed`."""
    return f"LinUCB on the last {length:,}"


RESTARTS: dict[str, Builder] = {restarts_of(length): partial(restarted, length) for length in LENGTHS}
WINDOWS: dict[str, Builder] = {window_of(length): partial(windowed, length) for length in LENGTHS}
PLAIN: dict[str, Builder] = {AUTO: auto, DRIFTUCB: driftucb, restarts_of(PACE): partial(restarted, PACE)}
"""Policies beside dLinUCB for which nothing is chosen."""
