"""LastFM and Delicious: tiny made-up files in the official layout, and the real ones where they are."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra `data`")

from driftbandit.environments.delicious import Delicious
from driftbandit.environments.delicious import load as load_delicious
from driftbandit.environments.hetrec import Interactions, group_of, hybrid_user, social_groups, tag_features
from driftbandit.environments.lastfm import LastFM
from driftbandit.environments.lastfm import load as load_lastfm
from driftbandit.environments.tables import data_folder, read_names, read_numbers

ROOT = Path(__file__).parents[2]
REAL = next(
    (
        place
        for place in (Path(os.environ.get("DRIFTBANDIT_DATA", "/nowhere")), ROOT.parent / "shared" / "data")
        if (place / "lastfm" / "user_taggedartists.dat").exists()
    ),
    None,
)
needs_real_data = pytest.mark.skipif(REAL is None, reason="set DRIFTBANDIT_DATA to the folder of the HetRec data sets")

USERS, ITEMS, TAGS = 12, 60, 40


def write(path, header, rows):
    lines = ["\t".join(header), *("\t".join(str(cell) for cell in row) for row in rows)]
    path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")


@pytest.fixture
def lastfm(tmp_path):
    """Twelve users in two circles of friends; ids have gaps, times are out of order in the file."""
    rng = np.random.default_rng(0)
    rows = []
    for user in range(USERS):
        for artist in rng.permutation(ITEMS)[: 8 + user]:
            month = int(rng.integers(1, 12))
            tags = rng.permutation(TAGS)[: rng.integers(1, 4)]
            rows += [(2 * user + 2, 3 * artist + 1, 5 * tag + 1, 1, month, 2008) for tag in tags]
    folder = tmp_path / "lastfm"
    folder.mkdir()
    write(folder / "user_taggedartists.dat", ("userID", "artistID", "tagID", "day", "month", "year"), rows)
    friends = [(a, b) for a in range(2, 26, 2) for b in range(2, 26, 2) if a != b and (a < 14) == (b < 14)]
    write(folder / "user_friends.dat", ("userID", "friendID"), friends)
    write(folder / "user_clusters_200.tsv", ("userID", "cluster"), [(u, 7 if u < 14 else 3) for u in range(2, 24, 2)])
    load_lastfm.cache_clear()
    return folder


def test_events_follow_the_rule_of_the_published_logs(tmp_path):
    """Equal neighbours are one event, unless the day is not the first of a month."""
    folder = tmp_path / "lastfm"
    folder.mkdir()
    rows = [
        (2, 10, 1, 1, 4, 2009),
        (2, 10, 2, 1, 4, 2009),  # the same event
        (2, 11, 1, 1, 4, 2009),
        (2, 10, 3, 1, 4, 2009),  # not next to the first two: another event
        (3, 10, 1, 7, 5, 2011),
        (3, 10, 2, 7, 5, 2011),  # day 7: an event of its own
        (3, 12, 3, 1, 5, 2011),
    ]
    write(folder / "user_taggedartists.dat", ("userID", "artistID", "tagID", "day", "month", "year"), rows)
    write(folder / "user_clusters_200.tsv", ("userID", "cluster"), [(2, 1), (3, 1)])
    data = load_lastfm(folder, components=1)
    assert data.users.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.items.tolist() == [0, 1, 0, 0, 0, 2]


def test_a_round_has_one_tagged_item_and_others_that_its_user_never_tagged(lastfm):
    data = load_lastfm(lastfm, components=5)
    rounds = hybrid_user(data, by="user", least_events=3, pool=8, seed=1)
    tagged = set(zip(data.tagged_users.tolist(), data.tagged_items.tolist(), strict=True))
    boundaries = [0, *rounds.shifts.tolist(), len(rounds)]
    assert len(boundaries) == USERS + 1
    for user, (start, stop) in enumerate(itertools.pairwise(boundaries)):
        for pool, reward in zip(rounds.pools[start:stop], rounds.rewards[start:stop], strict=True):
            assert len(set(pool.tolist())) == 8
            assert [(user, item) in tagged for item in pool.tolist()] == reward.astype(bool).tolist()
            assert reward.sum() == 1.0
    where = rounds.rewards.argmax(axis=1)
    assert len(set(where.tolist())) == 8, "the tagged item must not betray itself by its place"
    assert rounds.regret_of(where).sum() == 0.0


def tagged_by_one(items, others, repeats):
    """A user with an event for all but the last `others` items, each tagged several times."""
    rows = np.tile(np.arange(items - others), repeats)
    nobody = np.zeros(len(rows), dtype=np.int64)
    events = {"users": nobody, "items": rows, "times": np.arange(len(rows))}
    return Interactions(np.eye(items), **events, tagged_users=nobody, tagged_items=rows, groups=np.array([-1]))


def test_items_that_a_user_tagged_again_and_again_count_once():
    data = tagged_by_one(items=40, others=30, repeats=9)  # 90 assignments, of 10 items
    pools = hybrid_user(data, by="user", pool=12).pools
    assert ((pools < 10).sum(axis=1) == 1).all()


def test_a_user_who_tagged_almost_everything_has_a_full_pool():
    """Seven of seven that are left, out of 300: drawing at random would never find them."""
    data = tagged_by_one(items=300, others=7, repeats=1)
    pools = hybrid_user(data, by="user", least_events=1, pool=8).pools
    np.testing.assert_array_equal(np.sort(pools, axis=1)[:, 1:], np.tile(np.arange(293, 300), (293, 1)))
    with pytest.raises(ValueError, match="pool: a user tagged 293 of 300 items, too many to find 8 others"):
        hybrid_user(data, by="user", least_events=1, pool=9)


def test_events_of_a_user_are_in_the_order_of_time(lastfm):
    data = load_lastfm(lastfm, components=5)
    rounds = hybrid_user(data, by="user", least_events=1, pool=5)
    start, stop = 0, int(rounds.shifts[0])
    shown = rounds.pools[start:stop][rounds.rewards[start:stop] == 1.0]
    first = np.flatnonzero(data.users == 0)
    np.testing.assert_array_equal(shown, data.items[first[np.argsort(data.times[first], kind="stable")]])


@pytest.mark.parametrize("settings", [{}, {"order": 4}, {"by": "group"}])
def test_the_user_behind_each_round(lastfm, settings):
    world = LastFM(folder=str(lastfm), **settings)
    data, users = world.interactions(), world.users()
    rounds = hybrid_user(data, by=world.by, order=world.order, pool=5)
    tagged = set(zip(data.tagged_users.tolist(), data.tagged_items.tolist(), strict=True))
    shown = rounds.pools[rounds.rewards == 1.0]
    assert len(users) == len(rounds)
    np.testing.assert_array_equal(rounds.scopes, users)
    assert set(zip(users.tolist(), shown.tolist(), strict=True)) <= tagged
    owners = users if world.by == "user" else data.groups[users]
    assert (np.flatnonzero(np.diff(owners)) + 1).tolist() == rounds.shifts.tolist()


def test_least_events_and_order(lastfm):
    data = load_lastfm(lastfm, components=5)
    counts = np.bincount(data.users)
    least = int(np.sort(counts)[3])
    kept = hybrid_user(data, by="user", least_events=least, pool=5)
    assert len(kept) == counts[counts >= least].sum()
    natural, shuffled, again = (hybrid_user(data, by="user", pool=5, order=order) for order in (0, 4, 4))
    assert natural.shifts.tolist() != shuffled.shifts.tolist()
    np.testing.assert_array_equal(shuffled.pools, again.pools)
    with pytest.raises(ValueError, match="enough events"):
        hybrid_user(data, by="user", least_events=10_000)


def test_groups_come_from_the_published_partition_in_the_order_of_their_ids(lastfm):
    data = load_lastfm(lastfm, components=5)
    assert data.groups.tolist() == [7] * 6 + [3] * 5 + [-1]
    rounds = hybrid_user(data, by="group", largest=2, pool=5)
    assert rounds.shifts.tolist() == [int((data.groups[data.users] == 3).sum())]


def test_without_it_friends_are_clustered():
    people = np.arange(0, 40, 2)
    first, second = zip(*[(a, b) for a in people for b in people if a != b and (a < 20) == (b < 20)], strict=True)
    groups = social_groups(people, np.array(first), np.array(second), count=2)
    assert len(set(groups[:10].tolist())) == len(set(groups[10:].tolist())) == 1
    assert groups[0] != groups[-1]
    lonely = social_groups(np.append(people, 99), np.array(first), np.array(second), count=2)
    assert lonely[-1] == -1
    assert group_of(np.array([1, 5, 9]), np.array([9, 1]), np.array([4, 2])).tolist() == [2, -1, 4]


@pytest.mark.parametrize("reduction", ["svd", "pca"])
def test_features_are_components_of_tf_idf(reduction):
    rng = np.random.default_rng(1)
    items, tags = rng.integers(30, size=400), rng.integers(20, size=400)
    items[:30], tags[:20] = np.arange(30), np.arange(20)
    features = tag_features(items, tags, np.ones(400), 19, reduction)
    counts = np.zeros((30, 20))
    np.add.at(counts, (items, tags), 1.0)
    weighted = counts * (np.log(31 / (1 + (counts > 0).sum(axis=0))) + 1)
    weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
    if reduction == "pca":
        weighted -= weighted.mean(axis=0)
    # 19 of 20 components: inner products are kept but for the smallest direction.
    gap = np.abs(features @ features.T - weighted @ weighted.T)
    assert gap.max() <= np.linalg.svd(weighted)[1][-1] ** 2 + 1e-9


def test_too_many_components_are_refused():
    with pytest.raises(ValueError, match="components: expected fewer than 2"):
        tag_features(np.array([0, 1]), np.array([0, 1]), np.ones(2), 5, "svd")


def test_delicious_bookmarks_are_events_whatever_their_tags(tmp_path):
    folder = tmp_path / "delicious"
    folder.mkdir()
    rows = [(8, 98, 1, 500), (8, 98, 2, 500), (8, 96, 1, 400), (9, 98, 3, 100), (9, 50, 0, 200)]
    write(folder / "user_taggedbookmarks-timestamps.dat", ("userID", "bookmarkID", "tagID", "timestamp"), rows)
    tags = [(98, 1, 3), (98, 2, 1), (96, 1, 1), (77, 9, 1), (98, 3, 1)]  # bookmark 50 has no known tag
    write(folder / "bookmark_tags.dat", ("bookmarkID", "tagID", "tagWeight"), tags)
    data = load_delicious(folder, components=1)
    assert data.users.tolist() == [0, 0, 1, 1]
    assert data.items.tolist() == [2, 1, 2, 0]
    assert data.features.shape == (3, 1)
    assert data.features[0, 0] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"userID\tartistID\n", "tagID.* missing"),
        (b"userID\tartistID\ttagID\tday\tmonth\tyear\n", "got none"),
        (b"userID\tartistID\ttagID\tday\tmonth\tyear\n1\t2\t3\t1\t4\n", "line 2: expected 6 columns, got 5"),
        (b"userID\tartistID\ttagID\tday\tmonth\tyear\n1\t2\t3\t1\t4\t2009\n1\tx\t3\t1\t4\t2009\n", "line 3: artistID"),
        (b"userID\tartistID\ttagID\tday\tmonth\tyear\n1\t2\t3\t1\t4\tNaN\n", "line 2: year|:2: year"),
        (b"userID\tartistID\ttagID\tday\tmonth\tyear\n1\t2\t3\t1\t4\t\n", "year: expected a whole number"),
        (b"userID\tartistID\ttagID\tday\tmonth\tyear\n1\t2\t3.5\t1\t4\t2009\n", "line 2: tagID"),
        (b"userID\tartistID\ttagID\tday\tmonth\tyear\nuserID\tartistID\ttagID\tday\tmonth\tyear\n", "line 2: userID"),
        ("userID\tartistID\ttagID\tday\tmonth\tyear\n1\té\t3\t1\t4\t2009\n".encode("latin-1"), "line 2: artistID"),
        (b"\x00\xff\xfe garbage", "missing"),
    ],
)
def test_bad_tables_are_named_with_their_line(tmp_path, content, message):
    path = tmp_path / "user_taggedartists.dat"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_numbers(path, ("userID", "artistID", "tagID", "day", "month", "year"))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1: expected the columns"),
        (b"tagID\n1\n", "tagValue missing"),
        (b"tagID\ttagValue\n1\trock\n2\n", ":3: expected 2 columns, got 1"),
        (b"tagID\ttagValue\nx\trock\n", ":2: tagID: expected a whole number, got 'x'"),
    ],
)
def test_bad_names_are_named_with_their_line(tmp_path, content, message):
    path = tmp_path / "tags.dat"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_names(path, "tagID", "tagValue")
    assert str(path) in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_numbers(tmp_path / "nothing.dat", ("a",))
    with pytest.raises(ValueError, match="got a folder"):
        read_numbers(tmp_path, ("a",))
    with pytest.raises(FileNotFoundError, match="lastfm: no data in"):
        LastFM(folder=str(tmp_path / "nowhere")).rounds(0)
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="DRIFTBANDIT_DATA"):
        data_folder("lastfm")
    (tmp_path / "lastfm").mkdir()
    assert data_folder("lastfm") == tmp_path / "lastfm"


@needs_real_data
def test_the_real_streams_are_those_of_the_published_logs():
    rounds = LastFM(folder=str(REAL / "lastfm")).rounds(0)
    assert rounds.pools.shape == (93_164, 25)
    assert rounds.catalogue.shape == (12_523, 25)
    assert len(rounds.shifts) == 990
    clusters = LastFM(folder=str(REAL / "lastfm"), by="group").rounds(0)
    assert clusters.shifts.tolist() == [1712, 3358, 5679, 7241, 9461, 12082, 14098, 15678, 17898]
    assert len(clusters) == 19_558


@needs_real_data
def test_the_real_delicious_stream():
    rounds = Delicious(folder=str(REAL / "delicious")).rounds(0)
    assert rounds.pools.shape == (96_929, 25)
    assert len(rounds.shifts) == 1675
    # Random picks are right once in 25: 3,877 expected, standard deviation 61.
    picks = np.random.default_rng(0).integers(25, size=len(rounds))
    assert abs(rounds.rewards[np.arange(len(rounds)), picks].sum() - 3877) < 5 * 61
