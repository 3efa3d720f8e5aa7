"""Figure 4 on made-up files in the official layout, and against the authors' logs where the real ones are."""

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `data`")

from driftbandit import compare, summarise
from driftbandit.environments.lastfm import LastFM
from driftbandit.paper import figure4

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
        for artist in rng.permutation(80)[:14]:
            rows += [f"{user}\t{artist}\t{tag}\t1\t{artist % 12 + 1}\t2009" for tag in rng.permutation(50)[:2]]
    (folder / "user_taggedartists.dat").write_text("\n".join(rows) + "\n")
    groups = ["userID\tcluster", *(f"{user}\t{user % 3}" for user in range(15))]
    (folder / "user_clusters_200.tsv").write_text("\n".join(groups) + "\n")
    return tmp_path


def test_the_figure_is_made_of_what_there_is(made_up):
    artefact = figure4.run(data=str(made_up), seeds=[0], processes=1)
    assert list(artefact.figures) == ["figure4"]
    assert len(artefact.figures["figure4"].axes) == 2  # Delicious is not there
    totals, orders, advantage, noises, adts = artefact.tables
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
