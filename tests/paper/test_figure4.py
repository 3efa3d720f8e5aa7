"""Figure 4 on made-up files in the official layout, and against the authors' logs where the real ones are."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `data`")

from driftbandit import Change, compare, summarise
from driftbandit.environments.lastfm import LastFM
from driftbandit.evaluation.detection import followed_by_chance, shifts_followed
from driftbandit.evaluation.trace import Trace
from driftbandit.paper import figure4, figure4_claims, figure4_detection, figure4_policies
from driftbandit.paper.figure4_picture import Panel, reward_figure

ROOT = Path(__file__).parents[2]
PLACES = (Path(os.environ.get("DRIFTBANDIT_DATA", "/nowhere")), ROOT.parent / "shared" / "data")
REAL = next((place for place in PLACES if (place / "lastfm" / "user_taggedartists.dat").exists()), None)


@pytest.fixture
def made_up(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "lastfm"
    folder.mkdir()
    rows = ["userID\tartistID\ttagID\tday\tmonth\tyear"]
    for user in range(15):
        for artist in rng.permutation(400)[:14]:
            rows += [f"{user}\t{artist}\t{tag}\t1\t{artist % 12 + 1}\t2009" for tag in rng.permutation(50)[:2]]
    (folder / "user_taggedartists.dat").write_text("\n".join(rows) + "\n")
    groups = ["userID\tcluster", *(f"{user}\t{user % 3}" for user in range(15))]
    (folder / "user_clusters_200.tsv").write_text("\n".join(groups) + "\n")
    return tmp_path


def test_the_figure_is_made_of_what_there_is(made_up):
    artefact = figure4.run(data=str(made_up), seeds=[0], processes=1)
    assert list(artefact.figures) == ["figure4"]
    assert len(artefact.figures["figure4"].axes) == 2  # Delicious is not there
    answered, totals, orders, advantage, noises, adts, verdict = artefact.tables
    assert len(answered.cells) == 2 * 6  # users and clusters; six policies
    assert [cells[0] for cells in answered.cells[:3]] == [
        "LastFM users: dLinUCB",
        "LastFM users: dLinUCB noise='auto', one member",
        "LastFM users: DriftUCB",
    ]
    assert all(row[2] in ("holds", "holds in part", "does not hold") for row in verdict.cells)
    assert len(verdict.cells) == 4  # nothing is said about Delicious, which is not there
    json.dumps(artefact.data, allow_nan=False)
    assert len(totals.cells) == 4 * 4
    assert totals.cells[0][0] == "LastFM users: dLinUCB"
    assert totals.cells[0][3] == "22,031"
    assert len(advantage.cells) == 4
    assert len(noises.cells) == len(figure4.NOISES) + 1
    assert len(adts.cells) == len(figure4.ADTS_SETTINGS) + 1
    assert adts.cells[-1] == ("authors' log", "20,709", "5,191")
    rewards = {(row["setting"], row["policy"]): row["reward"] for row in artefact.data["rows"]}
    by_order = [
        rewards[stream, "adts"] for stream in ("LastFM users", "LastFM users, order 1", "LastFM users, order 2")
    ]
    assert orders.cells[2][:5] == ("LastFM: adTS", *(f"{total:,.0f}" for total in (*by_order, np.mean(by_order))))
    # The noise of the main runs is among those of the sensitivity, and dLinUCB draws nothing: the same total.
    assert ("noise 0.25", f"{rewards['LastFM users', 'dlinucb']:,.0f}") in [cells[:2] for cells in noises.cells]


def trace_with(alarms, shifts=(1000, 4500, 6000), rounds=20_000, policy="dlinucb", stream="LastFM clusters", seed=0):
    return Trace(
        policy=policy,
        setting=stream,
        seed=seed,
        choices=np.zeros(rounds, dtype=np.int64),
        rewards=np.ones(rounds),
        regret=np.zeros(rounds),
        shifts=np.array(shifts),
        changes=tuple(Change(alarm, "spawned", 1, {}) for alarm in alarms),
        seconds=1.0,
        detects=True,
    )


def test_an_alarm_counts_for_the_changes_up_to_its_reach():
    assert shifts_followed([1300], [1000], 300) == 1
    assert shifts_followed([1301], [1000], 300) == 0
    assert shifts_followed([1000], [1000], 300) == 0  # the reward before the change
    assert shifts_followed([1001], [1000], 300) == 1
    assert shifts_followed([], [1000], 300) == 0
    assert shifts_followed([1300], [1100, 1200], 300) == 2


def test_chance_is_what_a_clock_that_does_not_know_the_changes_finds():
    """Alarms every 1,000 rounds lie within 300 rounds after a change in 3 of 10 rotations, then after all of them."""
    counts = followed_by_chance([500, 1500, 2500, 3500], [1000, 2000, 3000], 4000, 300)
    assert set(counts.tolist()) == {0, 3}
    assert counts.mean() / 3 == pytest.approx(0.3, abs=0.06)  # four standard errors of 1,000 rotations
    again = followed_by_chance([500, 1500, 2500, 3500], [1000, 2000, 3000], 4000, 300)
    assert (counts == again).all()
    other = followed_by_chance([500, 1500, 2500, 3500], [1000, 2000, 3000], 4000, 300, seed=1)
    assert (counts != other).any()


def test_a_rotation_counts_as_if_the_alarms_had_been_moved():
    """Every rotation by hand, with a change so near the end that its reach is cut off."""
    alarms, shifts, rounds = [1, 250, 400, 990, 1000], [100, 300, 950], 1000
    counts = followed_by_chance(alarms, shifts, rounds, 60, rotations=200, seed=4)
    offsets = np.random.default_rng(4).integers(rounds, size=200)
    by_hand = [shifts_followed([(a - 1 + offset) % rounds + 1 for a in alarms], shifts, 60) for offset in offsets]
    assert counts.tolist() == by_hand
    assert len(set(by_hand)) > 2
    assert followed_by_chance([], shifts, rounds, 60, rotations=5).tolist() == [0] * 5


def test_alarms_are_told_from_a_clock():
    sharp = figure4_detection.answers_of([trace_with([1010, 4520, 6030], seed=seed) for seed in range(2)])
    late = figure4_detection.answers_of([trace_with(range(800, 20_000, 1000))])
    assert (sharp.share, sharp.quality.missed, sharp.quality.false_alarms) == (1.0, 0, 0)
    assert sharp.quality.median_delay == 20
    assert sharp.luck < 0.03  # all three are followed in 280 of 20,000 rotations, which are the same for all runs
    assert 0.03 < sharp.chance < 0.06
    assert (late.share, late.quality.median_delay, late.irregular) == (1 / 3, 800, 0.0)
    assert late.luck > 0.3
    half = figure4_detection.answers_of([trace_with([1010, 4520], seed=seed) for seed in range(2)])
    verdicts = [figure4_claims._identifies(row).verdict for row in (sharp, half, late)]
    assert verdicts == ["holds", "holds in part", "does not hold"]


def test_restarts_by_the_clock_count_as_alarms_and_windows_have_none():
    restarts = figure4_policies.restarts_of(800)
    row = figure4_detection.answers_of([figure4_detection._with_restarts(trace_with([], policy=restarts))])
    assert (row.alarms, row.gap, row.irregular) == (24, 800, 0.0)
    silent = replace(trace_with([]), policy=figure4_policies.window_of(800))
    assert figure4_detection.answers_of([silent]).cells()[2:] == ("–",) * 7


def test_the_ticks_and_lines_of_the_cluster_panels_are_in_the_legend():
    runs = [trace_with([1010, 4600]), trace_with([], policy="linucb"), trace_with([900], policy="adts")]
    figure = reward_figure([Panel("(c)", runs, show_changes=True), Panel("(a)", runs)], 0.04)
    clusters, users = ([text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes)
    assert clusters == ["dLinUCB", "LinUCB", "adTS", "true change", "dLinUCB's alarms", "adTS's alarms"]
    assert users == ["dLinUCB", "LinUCB", "adTS"]


def test_what_was_tuned_is_kept_until_the_runs_change(made_up, tmp_path, monkeypatch):
    found = {"clusters": LastFM(folder=str(made_up / "lastfm"), by="group")}
    options = {"processes": 1, "out": tmp_path / "out"}
    totals = figure4_detection._tuning_totals(found, [100], options)
    assert len(totals) == len(figure4_policies.RESTARTS) + len(figure4_policies.WINDOWS)
    played = []
    monkeypatch.setattr(figure4_detection, "compare", lambda *given, **options: played.append(given) or [])
    assert figure4_detection._tuning_totals(found, [100], options) == totals
    assert not played
    for other in ({"seeds": [101]}, {"options": {**options, "fresh": True}}):
        figure4_detection._tuning_totals(**{"found": found, "seeds": [100], "options": options, **other})
    assert len(played) == 2
    (tmp_path / "out" / "tuning.json").write_text("[]")
    figure4_detection._tuning_totals(found, [100], options)
    assert len(played) == 3


def test_without_any_data_it_says_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="figure4 needs LastFM or Delicious"):
        figure4.run(data=str(tmp_path), seeds=[0])


@pytest.mark.skipif(REAL is None, reason="set DRIFTBANDIT_DATA to the folder of the HetRec data sets")
def test_rewards_on_lastfm_are_those_of_the_authors_logs():
    """Within 5 % of the published totals, with settings chosen on other pool seeds; dLinUCB ahead as in the paper.

    adTS is left out of the first: its settings in the authors' runs are not known.
    """
    folder = str(REAL / "lastfm")
    seeds = range(200, 203)
    users, clusters = LastFM(folder=folder), LastFM(folder=folder, by="group")
    without = {name: figure4.BUILDERS[name] for name in ("linucb", "dlinucb")}
    traces = compare(without, {"LastFM users": users}, seeds, processes=1)
    traces += compare(figure4.BUILDERS, {"LastFM clusters": clusters}, seeds, processes=1)
    reward = {(row.setting, row.policy): row.reward for row in summarise(traces)}
    for (stream, policy), logged in figure4.LOGGED.items():
        if policy != "adts":
            assert reward[stream, policy] == pytest.approx(logged, rel=0.05)
    assert reward["LastFM users", "dlinucb"] > reward["LastFM users", "linucb"]
    for other in ("linucb", "adts"):
        assert reward["LastFM clusters", "dlinucb"] > reward["LastFM clusters", other]


@pytest.mark.skipif(REAL is None, reason="set DRIFTBANDIT_DATA to the folder of the HetRec data sets")
def test_alarms_on_lastfm_clusters_know_nothing_of_the_changes():
    """What an independent implementation found: 16 alarms for 9 changes, 7 % answered, and blind restarts earn more."""
    clusters = {"LastFM clusters": LastFM(folder=str(REAL / "lastfm"), by="group")}
    blind = figure4_policies.restarts_of(figure4_policies.PACE)
    builders = {"dlinucb": figure4_policies.dlinucb, blind: figure4_policies.PLAIN[blind]}
    traces = compare(builders, clusters, range(200, 203), processes=1)
    ours, restarts = (
        figure4_detection.answers_of([trace for trace in traces if trace.policy == policy]) for policy in builders
    )
    assert (ours.alarms, ours.changes) == (16, 9)
    assert ours.share == pytest.approx(2 / 27)
    assert ours.chance == pytest.approx(0.25, abs=0.03)
    assert ours.quality.median_delay == pytest.approx(826, abs=1)
    assert (round(restarts.reward), round(ours.reward)) == (6348, 6193)
