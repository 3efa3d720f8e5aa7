"""Figure 5: tags weighed by hand, the whole figure on made-up files, and the real stream where the files are."""

import io
import math
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `data`")
pytest.importorskip("wordcloud", reason="needs the extra `data`")

from driftbandit import DLinUCB, simulate, synthetic
from driftbandit.environments.lastfm import LastFM, Tagging, load_tagging
from driftbandit.extras import pip_install
from driftbandit.paper import figure5
from driftbandit.paper.figure5 import Cloud, Watched, cloud_figure
from driftbandit.paper.figure5_tastes import Tastes, profile_members

ROOT = Path(__file__).parents[2]
PLACES = (Path(os.environ.get("DRIFTBANDIT_DATA", "/nowhere")), ROOT.parent / "shared" / "data")
REAL = next((place for place in PLACES if (place / "lastfm" / "user_taggedartists.dat").exists()), None)
TAGS = ("hard rock", "black metal", "britpop", "hip hop", "jazz", "rap", "trip-hop", "popular")


@pytest.fixture
def small():
    """Two users of four rounds each: 0 gave rock three times and pop once, 2 gave metal twice and pop twice."""
    users, tags = np.array([0, 0, 0, 0, 1, 2, 2, 2, 2]), np.array([0, 0, 0, 2, 4, 1, 1, 2, 2])
    return Tastes(np.repeat([0, 2], 4), Tagging(users, tags, TAGS))


def test_only_users_of_the_stream_count(small):
    assert small.names == ["hard rock", "black metal", "britpop"]
    np.testing.assert_allclose(small.whole, [3 / 8, 2 / 8, 3 / 8])


def test_a_tag_weighs_by_its_share_and_its_lift(small):
    served = small.served(np.arange(4))
    assert served.tolist() == [1.0, 0.0]
    shares, weights, genres = (part[0] for part in small.weigh(served[np.newaxis]))
    np.testing.assert_allclose(shares, [3 / 4, 0.0, 1 / 4])
    np.testing.assert_allclose(weights, [0.75 * math.log2(2.0), 0.0, 0.25 * math.log2(2 / 3)])
    np.testing.assert_allclose(genres, [2.0, 0.0, 2 / 3, 0.0])
    assert small.users_of_tags(served).tolist() == [1, 0, 1]


def test_a_user_counts_by_the_share_of_his_rounds(small):
    served = small.served(np.arange(3, 8))
    assert served.tolist() == [0.25, 1.0]
    shares, _, _ = small.weigh(served[np.newaxis])
    np.testing.assert_allclose(shares[0], np.array([0.75, 2.0, 2.25]) / 5.0)


def test_whoever_serves_everybody_stands_out_by_nothing(small):
    profiles, by_chance = profile_members(small, np.zeros(8, dtype=np.int64), 1)
    assert [(profile.member, profile.rounds, profile.users) for profile in profiles] == [(0, 8, 2)]
    assert profiles[0].distance == pytest.approx(0.0)
    assert profiles[0].weights == {}
    np.testing.assert_allclose(by_chance[:, :3], 1.0)


def test_members_come_longest_first_with_their_heaviest_tags(small, monkeypatch):
    monkeypatch.setattr(figure5, "LEAST_USERS", 1)
    chosen_by = np.array([3, 3, 3, 3, 5, 5, 5, 3])
    first, second = profile_members(small, chosen_by, 3)[0]
    assert (first.member, first.rounds, first.users) == (3, 5, 2)
    assert (second.member, second.rounds, second.users) == (5, 3, 1)
    assert list(second.weights) == ["black metal", "britpop"]
    assert second.lifts["black metal"] == pytest.approx(2.0)
    assert second.distance == pytest.approx(0.5 * math.log2(2.0) + 0.5 * math.log2(4 / 3))
    assert profile_members(small, chosen_by, 4)[0] == [first]


def test_tags_of_too_few_users_are_not_shown(small, monkeypatch):
    monkeypatch.setattr(figure5, "LEAST_USERS", 2)
    (profile,), _ = profile_members(small, np.array([0, 0, 0, 0, 0, 1, 1, 1]), 5)
    assert profile.users == 2
    assert list(profile.weights) == [], "rock is one user's, and pop weighs less than nothing"


@pytest.mark.parametrize(
    ("tag", "genres"),
    [
        ("post-rock", ["rock"]),
        ("rockabilly", []),
        ("black metal", ["metal"]),
        ("metalcore", []),
        ("synthpop", ["pop"]),
        ("popular", []),
        ("pop rock", ["rock", "pop"]),
        ("hip hop", ["hip-hop"]),
        ("hiphop", ["hip-hop"]),
        ("german rap", ["hip-hop"]),
        ("trip-hop", []),
        ("rapcore", []),
    ],
)
def test_genres_by_words(tag, genres):
    assert [name for name, words in figure5.GENRES.items() if words.search(tag)] == genres


def test_the_member_that_chose_is_the_leader_at_that_time():
    rounds = synthetic("table1", seed=3, horizon=2000)
    watched = Watched(rounds.dim, rounds.noise)
    plain = DLinUCB(rounds.dim, rounds.noise)
    trace = simulate(watched, rounds)
    leaders = []
    for t in range(len(rounds)):
        pool = rounds.catalogue[rounds.pools[t]]
        leaders.append(plain.leader)
        assert plain.choose(pool) == trace.choices[t]
        plain.learn(pool[trace.choices[t]], rounds.rewards[t, trace.choices[t]])
    assert watched.chosen_by == leaders
    assert len(set(leaders)) >= 3, "two shifts"


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
    names = ["tagID\ttagValue", *(f"{tag}\t{TAGS[tag % len(TAGS)]} {tag}" for tag in range(49)), "49\tmúsica $ | <b>"]
    (folder / "tags.dat").write_bytes(("\r\n".join(names) + "\r\n").encode("latin-1"))
    (folder / "user_clusters_200.tsv").write_text("userID\tcluster\n0\t1\n")
    return tmp_path


def png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def test_the_figure_on_made_up_files(made_up):
    artefact = figure5.run(data=str(made_up), seeds=[7, 8])
    genres, longest, tags, verdict = artefact.tables
    assert verdict.title == "Verdict"
    assert [row[0] for row in genres.cells] == ["rock", "metal", "pop", "hip-hop"]
    member = artefact.data["members"][0]
    assert artefact.data["seed"] == 7
    assert longest.cells[0][:2] == (f"member {member['member']}", f"{member['rounds']:,}")
    assert tags.cells
    assert member["rounds"] <= 15 * 14
    assert len(artefact.figures["figure5"].axes) == len({row[1] for row in genres.cells}) + len(longest.cells)
    again = figure5.run(data=str(made_up), seeds=[7])
    assert again.data == artefact.data
    assert png(again.figures["figure5"]) == png(artefact.figures["figure5"])


def test_names_of_tags_are_read_whatever_they_are(made_up):
    tagging = load_tagging(made_up / "lastfm")
    assert tagging.names[-1] == "música $ | <b>"
    assert tagging.names[0] == "hard rock 0"
    assert len(tagging.users) == len(tagging.tags) == 15 * 14 * 2


def test_without_data_it_says_where_it_looked(tmp_path):
    with pytest.raises(FileNotFoundError, match="lastfm: no data in"):
        figure5.run(data=str(tmp_path), seeds=[0])


def test_clouds_come_in_rows_and_no_words_are_no_error():
    words = {"heavy": 1.0, "light": 0.2}
    figure = cloud_figure([[Cloud("$a$", words)], [Cloud("b", words), Cloud("none", {})]])
    first, second, empty = figure.axes
    assert (first.images[0].get_array() < 128).any()
    assert (first.images[0].get_array() != second.images[0].get_array()).any(), "a colour for each row"
    assert [text.get_text() for text in empty.texts] == ["nothing stands out"]


def test_without_wordcloud_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordcloud", None)
    with pytest.raises(ImportError, match=re.escape(pip_install("data"))):
        cloud_figure([[Cloud("a", {"b": 1.0})]])


@pytest.mark.skipif(REAL is None, reason="set DRIFTBANDIT_DATA to the folder of the HetRec data sets")
def test_the_real_stream_and_its_tags():
    folder = REAL / "lastfm"
    stream, tagging = LastFM(folder=str(folder)).users(), load_tagging(folder)
    assert len(stream) == 93_164
    assert len(np.unique(stream)) == 991
    assert len(tagging.users) == 186_479
    tastes = Tastes(stream, tagging)
    assert tastes.names[int(np.argmax(tastes.whole))] == "rock"
