"""What the paper says about Figure 3, sentence by sentence, and whether it holds on the logs at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftbandit.evaluation.intervals import Interval
from driftbandit.evaluation.replay import Replay
from driftbandit.paper.figure3_members import Remark
from driftbandit.paper.figure3_ratios import Ratios
from driftbandit.paper.figure3_results import Replays, Side, counted, first_half, second_half
from driftbandit.paper.verdicts import Claim, judged

Field = Mapping[str, Sequence[Replay]]
"""Replays of one side by policy, one per log."""

GAINS = (("uniform-LinUCB", 0.50), ("N-LinUCB", 0.15), ("CLUB", 0.25))
"""Rivals of uniform-dLinUCB and the gains over them that the paper reports."""
BASELINES = ("uniform-LinUCB", "N-LinUCB", "uniform-adTS", "N-adTS", "CLUB", "WMDUCB1")
CLOSE = 0.8
"""Share of a printed gain that must be reached for it to hold."""
MOST = 0.5
"""Share of the changes of articles that must be found for 'most'."""
BY_CHANCE = 0.05


def claims_of(sides: Sequence[Side], replays: Replays, remarks: Mapping[str, Remark], ratio: Ratios) -> list[Claim]:
    """All claims that these replays can judge.

    Parameters
    ----------
    sides : sequence of Side
        Both sides of every log.
    replays : Replays
        Replays by side and policy.
    remarks : mapping of str to Remark
        Members against groups of users, by policy; the first is the paper's own dLinUCB.
    ratio : Ratios
        Finds ratios of rates.
    """
    claims = [_gain(replays["users"], ratio, rival, said) for rival, said in GAINS]
    claims += [check(replays["users"], ratio) for check in (_above_all, _personal, _slow)]
    if any(len(run.matched) for run in replays["articles"]["LinUCB"]):
        claims.append(_halves(replays["articles"], ratio))
        if sides[0].planted is not None:
            claims.append(_articles(sides, replays))
    claims.append(_groups(next(iter(remarks.values()))))
    return claims


def _text(ratio: Interval) -> str:
    return f"{ratio.estimate - 1:+.1%} ({ratio.low - 1:+.1%} to {ratio.high - 1:+.1%})"


def _gain(users: Field, ratio: Ratios, rival: str, said: float) -> Claim:
    gain = ratio(users["uniform-dLinUCB"], users[rival])
    return Claim(
        f"(a) uniform-dLinUCB gains about {said:.0%} over {rival}",
        _text(gain),
        judged(gain.low > 1.0 and gain.estimate - 1.0 >= CLOSE * said, gain.low > 1.0),
    )


def _above_all(users: Field, ratio: Ratios) -> Claim:
    """Significantly above every baseline, by both variants."""
    found = {
        name: [ratio(users[name], users[rival]) for rival in BASELINES] for name in ("uniform-dLinUCB", "N-dLinUCB")
    }
    above = {name: sum(found.low > 1.0 for found in ratios) for name, ratios in found.items()}
    text = ", ".join(f"{name} is clearly above {count} of {len(BASELINES)}" for name, count in above.items())
    return Claim(
        "(a) both variants of dLinUCB are a 'significant improvement compared with all baselines'",
        text,
        judged(min(above.values()) == len(BASELINES), max(above.values()) == len(BASELINES)),
    )


def _personal(users: Field, ratio: Ratios) -> Claim:
    ratios = {name: ratio(users[f"N-{name}"], users[f"uniform-{name}"]) for name in ("dLinUCB", "LinUCB", "adTS")}
    better = sum(found.low > 1.0 for found in ratios.values())
    return Claim(
        "(a) one model per group is better than one for all, for 'all bandit algorithms'",
        ", ".join(f"N-{name} {_text(found)}" for name, found in ratios.items()),
        judged(better == len(ratios), better > 0),
    )


def _slow(users: Field, ratio: Ratios) -> Claim:
    ratios = {name: ratio(users[name], users["uniform-LinUCB"]) for name in ("uniform-adTS", "WMDUCB1")}
    below = sum(found.high < 1.0 for found in ratios.values())
    return Claim(
        "(a) adTS and WMDUCB1 are 'even worse than LinUCB'",
        ", ".join(f"{name} {_text(found)}" for name, found in ratios.items()) + " against uniform-LinUCB",
        judged(below == len(ratios), below > 0),
    )


def _halves(articles: Field, ratio: Ratios) -> Claim:
    pair = articles["dLinUCB"], articles["LinUCB"]
    first, second = (ratio(*([half(run) for run in runs] for runs in pair)) for half in (first_half, second_half))
    return Claim(
        "(b) with models of articles dLinUCB is comparable to LinUCB at first and better in the second half",
        f"first half {_text(first)}, second half {_text(second)}",
        judged(first.low <= 1.0 <= first.high and second.low > 1.0, second.low > 1.0),
    )


def _articles(sides: Sequence[Side], replays: Replays) -> Claim:
    rewards, _ = counted([side for side in sides if side.kind == "articles"], "dLinUCB", replays["articles"]["dLinUCB"])
    found, shifts = len(rewards.delays), len(rewards.delays) + rewards.missed
    return Claim(
        "(c) 'in most articles the critical changes' are 'accurately recognized'",
        f"of {shifts} planted changes in the lives of articles, dLinUCB found {found}, with {rewards.false_alarms} "
        "other alarms",
        judged(found > MOST * shifts and rewards.false_alarms < found, found > rewards.false_alarms),
    )


def _groups(remark: Remark) -> Claim:
    return Claim(
        "members are 'closely correlated' with groups of users, which dLinUCB is not told",
        f"Cramer's V {remark.found:.4f}, after shuffling the groups {remark.chance:.4f} (as much in "
        f"{remark.luck:.0%} of the shuffles); {remark.at_once:.2f} members exist at the same time on average",
        judged(remark.luck < BY_CHANCE and remark.found > MOST, remark.luck < BY_CHANCE),
    )
