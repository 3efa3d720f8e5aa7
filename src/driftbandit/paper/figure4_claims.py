"""What the paper says about Figure 4, sentence by sentence, and whether it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from driftbandit.core import Floats
from driftbandit.evaluation.trace import Trace
from driftbandit.paper.figure4_detection import WITHIN, Answers
from driftbandit.paper.figure4_policies import PACE, V, restarts_of
from driftbandit.paper.verdicts import Claim, judged

ALMOST_ALWAYS = 0.9
"""Share of the changes that must be answered for 'almost always'."""
QUITE_CLOSE = 0.75
"""Share of the way from LinUCB to the oracle that must be made for 'quite close'."""
BY_CHANCE = 0.05
EARLY = 10
"""The beginning of a stream is its first tenth."""


def claims_of(traces: Sequence[Trace], scored: Sequence[Answers], adts: Mapping[str, float]) -> list[Claim]:
    """The claims that can be judged with these data sets.

    Parameters
    ----------
    traces : sequence of Trace
        Runs of the figure's policies.
    scored : sequence of Answers
        Alarms of dLinUCB and its rivals against the changes.
    adts : mapping of str to float
        Reward of adTS on LastFM users by setting; empty without LastFM.
    """
    curves: dict[tuple[str, str], Floats] = {}
    for place in dict.fromkeys((trace.setting, trace.policy) for trace in traces):
        runs = [np.cumsum(trace.rewards) for trace in traces if (trace.setting, trace.policy) == place]
        curves[place] = np.mean(runs, axis=0)
    found = {(row.stream, row.policy): row for row in scored}
    streams = list(dict.fromkeys(row.stream for row in scored))
    claims = []
    if "LastFM users" in streams:
        claims += [
            _more_on_lastfm(curves, adts),
            _identifies(found["LastFM clusters", "dlinucb"]),
            _near_oracle(curves),
        ]
    if "Delicious users" in streams:
        claims.append(_catches_up(curves))
    if len(streams) == 4:
        claims.append(_harder(found))
    claims.append(_detection_pays(found, streams))
    return claims


def _more_on_lastfm(curves: Mapping[tuple[str, str], Floats], adts: Mapping[str, float]) -> Claim:
    ours, linucb, theirs = (curves["LastFM users", policy][-1] for policy in ("dlinucb", "linucb", "adts"))
    best = max(adts, key=lambda name: adts[name])
    return Claim(
        "(a) 'dLinUCB outperformed both LinUCB and adTS on LastFM'",
        f"dLinUCB {ours:,.0f}, LinUCB {linucb:,.0f}, adTS {theirs:,.0f} with v = {V:g}; with other settings from the "
        f"authors' code ({best}) adTS earns {adts[best]:,.0f}",
        judged(ours > max(linucb, theirs, adts[best]), ours > max(linucb, theirs)),
    )


def _catches_up(curves: Mapping[tuple[str, str], Floats]) -> Claim:
    """Whether both start behind LinUCB and end ahead of it, in every order of the users or in the authors'."""
    orders = [stream for stream, policy in curves if stream.startswith("Delicious users") and policy == "linucb"]
    holds, ends = {}, []
    for stream in orders:
        linucb = curves[stream, "linucb"]
        others = [curves[stream, policy] for policy in ("dlinucb", "adts")]
        early = len(linucb) // EARLY
        holds[stream] = all(other[early] < linucb[early] and other[-1] > linucb[-1] for other in others)
        ends.append(" and ".join(f"{other[-1] / linucb[-1] - 1:+.1%}" for other in others))
    behind = [curves["Delicious users", policy] for policy in ("dlinucb", "adts", "linucb")]
    early = len(behind[0]) // EARLY
    start = ", ".join(f"{curve[early]:,.0f}" for curve in behind)
    return Claim(
        "(b) on Delicious 'both adTS and dLinUCB are worse than LinUCB at the beginning', then 'quickly catch up'",
        f"after a tenth of the stream dLinUCB, adTS and LinUCB have {start}; at the end dLinUCB and adTS against "
        f"LinUCB have {'; '.join(ends)}, by order of the users",
        judged(all(holds.values()), holds["Delicious users"]),
    )


def _identifies(row: Answers) -> Claim:
    above = row.luck < BY_CHANCE and row.share > row.chance
    return Claim(
        "(c) on LastFM 'dLinUCB can almost always correctly identify the changes'",
        f"{row.alarms:.0f} alarms for {row.changes} changes; {row.share:.0%} of the changes have an alarm within "
        f"{WITHIN} rounds, alarms rotated at random give {row.chance:.0%}; the median delay is "
        f"{row.quality.median_delay:,.0f} rounds",
        judged(above and row.share >= ALMOST_ALWAYS, above),
    )


def _near_oracle(curves: Mapping[tuple[str, str], Floats]) -> Claim:
    ours, linucb, oracle = (curves["LastFM clusters", policy][-1] for policy in ("dlinucb", "linucb", "oracle"))
    way = (ours - linucb) / (oracle - linucb)
    return Claim(
        "(c) on LastFM dLinUCB has 'quite close performance to this oracle'",
        f"dLinUCB {ours:,.0f}, oracle {oracle:,.0f}, LinUCB {linucb:,.0f}: {way:.0%} of the way from LinUCB to the "
        "oracle",
        judged(way >= QUITE_CLOSE, way > 0.0),
    )


def _harder(found: Mapping[tuple[str, str], Answers]) -> Claim:
    lastfm, delicious = (found[f"{title} clusters", "dlinucb"] for title in ("LastFM", "Delicious"))
    gains = [row.share - row.chance for row in (lastfm, delicious)]
    shares = [f"{row.share:.0%} (chance {row.chance:.0%})" for row in (lastfm, delicious)]
    return Claim(
        "(d) on Delicious change detection is 'much harder'",
        f"changes with an alarm within {WITHIN} rounds: {shares[1]} on Delicious, {shares[0]} on LastFM",
        judged(gains[0] > gains[1] and lastfm.luck < BY_CHANCE),
    )


def _detection_pays(found: Mapping[tuple[str, str], Answers], streams: Sequence[str]) -> Claim:
    pairs = [(found[stream, restarts_of(PACE)].reward, found[stream, "dlinucb"].reward) for stream in streams]
    ahead = sum(ours > blind for blind, ours in pairs)
    listed = "; ".join(
        f"{blind:,.0f} against {ours:,.0f} on {stream}" for stream, (blind, ours) in zip(streams, pairs, strict=True)
    )
    return Claim(
        "not said, but meant: detecting the changes is what earns the reward",
        f"LinUCB restarted blindly every {PACE:,} rounds against dLinUCB: {listed}",
        judged(ahead == len(streams), ahead > len(streams) / 2),
    )
