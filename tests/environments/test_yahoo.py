"""The R6A reader, held against a slow and obvious one; and made-up files, held against their plan."""

import gzip
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driftbandit.environments.log import Log
from driftbandit.environments.r6a_parser import Parser
from driftbandit.environments.yahoo import Report, day_files, read_yahoo
from driftbandit.environments.yahoo_plan import DAY, START, Plan
from driftbandit.environments.yahoo_synthetic import BLEMISHES, write_synthetic
from driftbandit.kernels import r6a

USER = "|user 2:0.000012 3:0.000000 4:0.000006 5:0.000023 6:0.999958 1:1.000000"
FIRST = "|109498 2:0.306008 3:0.000450 4:0.077048 5:0.230439 6:0.386055 1:1.000000"
SECOND = "|109513 2:0.211406 3:0.000036 4:0.002773 5:0.569886 6:0.215900 1:1.000000"
LINE = f"1241160900 109513 0 {USER} {FIRST} {SECOND}"

EVENTS = ("times", "pools", "shown", "rewards", "users")
ARRAYS = tuple(field.name for field in fields(Log))


def write(path, text, *, pack=False):
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if pack else content)
    return path


def assert_equal(one, other):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def events_of(log):
    """Events as plain tuples, with the candidates' ids and features spelled out."""
    return [
        (
            int(log.times[event]),
            int(log.articles[log.candidates(event)][log.shown[event]]),
            float(log.rewards[event]),
            tuple(log.users[event].tolist()),
            tuple(log.articles[log.candidates(event)].tolist()),
            tuple(map(tuple, log.features[log.candidates(event)].tolist())),
        )
        for event in range(len(log))
    ]


NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,18})?"
PAIRS = rf" *(?:\d{{1,18}}:{NUMBER}(?=[ |]|\Z) *)*"
WHOLE = re.compile(
    rf" *(\d{{1,18}}) +(\d{{1,18}}) +([01]) *\|user(?=[ |])({PAIRS})((?:\|\d{{1,18}}(?=[ |]|\Z){PAIRS})+)".encode()
)


def slow_row(pairs):
    found = [pair.split(b":") for pair in pairs.split()]
    if sorted(int(which) for which, _ in found) != [1, 2, 3, 4, 5, 6]:
        raise ValueError
    values = [float(value) for _, value in sorted((int(which), value) for which, value in found)]
    if not np.isfinite(values).all():
        raise ValueError
    return tuple(values)


def slow_read(content):
    """Events, as `events_of` gives them, by regular expression and `float`."""
    features, events = {}, []
    for line in content.split(b"\n")[:-1]:
        match = WHOLE.fullmatch(line)
        if not match or len(line) > r6a.LONGEST:
            continue
        try:
            user = slow_row(match[4])
            blocks = [re.match(rb"(\d+)(.*)", part).groups() for part in match[5].split(b"|")[1:]]
            rows = {int(article): slow_row(pairs) for article, pairs in blocks}
        except ValueError:
            continue
        displayed = int(match[2])
        if len(rows) < len(blocks) or displayed not in rows:
            continue
        for article, row in rows.items():
            features.setdefault(article, row)
        seen = tuple(features[article] for article in rows)
        events.append((int(match[1]), displayed, float(match[3]), user, tuple(rows), seen))
    return events


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A made-up day, its plan, and what is read from it."""
    path = tmp_path_factory.mktemp("made") / "day"
    plan = write_synthetic(path, 60_000, seed=7)
    log, report = read_yahoo(path)
    return path, plan, log, report


# Good lines


def test_the_line_of_the_data_sheet(tmp_path):
    log, report = read_yahoo(write(tmp_path / "day", LINE + "\n"))
    assert log.times.tolist() == [1241160900]
    assert log.articles.tolist() == [109498, 109513]
    assert log.candidates(0).tolist() == [0, 1]
    assert (log.shown.tolist(), log.rewards.tolist()) == ([1], [0.0])
    assert log.users.tolist() == [[1.0, 0.000012, 0.0, 0.000006, 0.000023, 0.999958]]
    assert log.features.tolist() == [
        [1.0, 0.306008, 0.000450, 0.077048, 0.230439, 0.386055],
        [1.0, 0.211406, 0.000036, 0.002773, 0.569886, 0.215900],
    ]
    assert report == Report(lines=1, events=1)


def test_articles_and_pools_are_kept_once_and_candidates_in_the_order_of_the_line(tmp_path):
    other = f"1241160901 109498 1 {USER} {SECOND} {FIRST}"
    log, _ = read_yahoo(write(tmp_path / "day", f"{LINE}\n{other}\n{LINE}\n{LINE}\n{other}\n"))
    assert log.articles.tolist() == [109498, 109513]
    assert log.pools.tolist() == [0, 1, 0, 0, 1]
    assert log.pool_members.tolist() == [0, 1, 1, 0]
    assert log.displayed().tolist() == [1, 0, 1, 1, 0]


def test_many_articles_and_pools_outgrow_every_table(tmp_path):
    lines = []
    for k in range(1500):
        ids = [1000 + k, 5, 2000 + 3 * k, 9000 + k]
        blocks = " ".join(f"|{article} 1:1 2:{article} 3:0 4:0 5:0 6:0" for article in ids)
        lines.append(f"{k} {ids[k % 4]} {k % 2} {USER} {blocks}\n".encode())
    log, report = read_yahoo(write(tmp_path / "day", b"".join(lines)))
    assert report.events == 1500
    assert events_of(log) == slow_read(b"".join(lines))
    assert len(log.pool_offsets) == 1501
    np.testing.assert_array_equal(log.features[:, 1], log.articles)


@given(
    st.one_of(
        st.decimals(-999, 999, places=6).map(str),
        st.from_regex(r"[+-]?[0-9]{1,7}\.?[0-9]{0,7}", fullmatch=True),
        st.from_regex(r"\.[0-9]{1,13}(e[+-]?[0-9])?", fullmatch=True),
        st.from_regex(r"[0-9]{1,15}(e[+-]?[01]?[0-9])?", fullmatch=True),
    )
)
def test_numbers_of_15_digits_are_rounded_as_python_rounds_them(number):
    text = np.frombuffer(f"{number} \n".encode(), dtype=np.int8)
    assert r6a.real_number(text, 0) == (float(number), len(number))


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-290, max_value=1e290))
def test_long_numbers_are_right_to_the_last_bits(number):
    text = np.frombuffer(f"{number!r} \n".encode(), dtype=np.int8)
    value, end = r6a.real_number(text, 0)
    assert end == len(repr(number))
    assert value == pytest.approx(number, rel=4e-16, abs=0)


@pytest.mark.parametrize(
    "word", ["nan", "inf", "-inf", "1e999", "-1e309", "", "-", ".", "e5", "1e", "1e+", "x1", "+-1"]
)
def test_what_is_no_finite_number(word):
    assert r6a.real_number(np.frombuffer(f"{word}\n".encode(), dtype=np.int8), 0)[1] == -1


def test_compiled_or_not_the_same_log(tmp_path):
    write_synthetic(
        tmp_path / "day", 60, candidates=4, blemishes={kind: 0.05 for kind in BLEMISHES if "long" not in kind}
    )
    log, report = read_yahoo(tmp_path / "day")
    log.save(tmp_path / "compiled")
    script = f"""
        from driftbandit.environments.yahoo import read_yahoo
        log, report = read_yahoo({str(tmp_path / "day")!r})
        log.save({str(tmp_path / "plain")!r})
        print(report)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "compiled").read_bytes()
    assert done.stdout.strip() == str(report)
    assert report.skipped


# Files and folders


def test_plain_and_packed_and_any_block_size_give_the_same_log(made, tmp_path):
    path, _, log, _ = made
    part = b"".join(path.read_bytes().splitlines(keepends=True)[:5000])
    plain, packed = write(tmp_path / "day", part), write(tmp_path / "day.gz", part, pack=True)
    expected = log.slice(0, 5000)
    halves = gzip.compress(part[:999_999]), gzip.compress(part[999_999:])
    members = write(tmp_path / "members.gz", b"".join(halves) + bytes(5000))
    padded = write(tmp_path / "padded.gz", bytes(512).join(halves))
    unnamed = write(tmp_path / "unnamed", part, pack=True)
    for source in (plain, packed, members, padded, unnamed):
        for block_bytes in (977, 65_536, 1 << 24):
            read, report = read_yahoo(source, block_bytes=block_bytes)
            assert report == Report(lines=5000, events=5000)
            for name in EVENTS:
                np.testing.assert_array_equal(getattr(read, name), getattr(expected, name))
            np.testing.assert_array_equal(read.features, log.features[: len(read.articles)])


def test_days_of_a_folder_are_read_in_order_and_once(tmp_path):
    plan = write_synthetic(tmp_path, 3000, days=3, candidates=5, compress=True)
    assert [file.name[-5:] for file in day_files(tmp_path)] == ["01.gz", "02.gz", "03.gz"]
    whole, report = read_yahoo(tmp_path)
    assert (report.lines, report.events) == (3000, 3000)
    assert (np.diff(whole.times) >= 0).all()
    assert plan.files == tuple(file.name for file in day_files(tmp_path))
    second = tmp_path / plan.files[1]
    write(tmp_path / second.stem, gzip.decompress(second.read_bytes()))
    (tmp_path / "notes.txt").write_text("not a day")
    assert [file.name[-5:] for file in day_files(tmp_path)] == ["01.gz", "90502", "03.gz"]
    assert_equal(read_yahoo(tmp_path)[0], whole)
    parts = [read_yahoo(file)[0] for file in day_files(tmp_path)]
    assert events_of(whole) == [event for part in parts for event in events_of(part)]
    named, _ = read_yahoo([tmp_path / plan.files[2], str(tmp_path / plan.files[0])])
    assert events_of(named) == events_of(parts[2]) + events_of(parts[0])


def test_line_numbers_start_anew_in_every_file_and_a_few_are_kept(tmp_path):
    one = write(tmp_path / "one", f"\n{LINE}\n\n\n\n")
    two = write(tmp_path / "two", f"{LINE}\n\n\n\nbad\n")
    log, report = read_yahoo([one, two])
    assert len(log) == 2
    assert report.skipped == {"empty line": 7, "wrong column count": 1}
    assert report.examples == {
        "empty line": [(str(one), 1), (str(one), 3), (str(one), 4), (str(one), 5), (str(two), 2)],
        "wrong column count": [(str(two), 5)],
    }
    assert str(report).splitlines()[0] == "10 lines, 2 events"
    assert f"{two}:2, ..." in str(report)


def test_progress_ends_at_the_size_of_the_files(made):
    calls = []
    read_yahoo(made[0], block_bytes=1 << 20, progress=lambda done, total: calls.append((done, total)))
    size = made[0].stat().st_size
    assert calls[-1] == (size, size)
    assert sorted(calls) == calls
    assert len(calls) > 10


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux to reset the memory peak")
def test_memory_beyond_the_log_does_not_grow_with_the_files(made):
    script = f"""
        from dataclasses import fields
        import numpy as np
        from driftbandit.environments.log import Log
        from driftbandit.environments.yahoo import read_yahoo

        def memory(name):
            rows = dict(row.split(":") for row in open("/proc/self/status"))
            return 1024 * int(rows[name].split()[0])

        read_yahoo({str(made[0])!r})
        for times in (1, 8):
            open("/proc/self/clear_refs", "w").write("5")
            before = memory("VmRSS")
            log, _ = read_yahoo([{str(made[0])!r}] * times)
            print(memory("VmHWM") - before, sum(np.asarray(getattr(log, part.name)).nbytes for part in fields(Log)))
            del log
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    (_, small), (peak, large) = (map(int, row.split()) for row in done.stdout.splitlines())
    assert large > 7 * small
    # A constant 4 MB block, its unpacked lines and small tables; it used to be another copy of the log, 33 MB here.
    assert peak - large < large / 2


def test_missing_empty_and_misplaced_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent: no such file or folder"):
        read_yahoo(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match="absent: no such file"):
        read_yahoo([tmp_path / "absent"])
    with pytest.raises(ValueError, match=f"{tmp_path}: no day files"):
        read_yahoo(tmp_path)
    with pytest.raises(ValueError, match=f"{tmp_path}: expected a file, got a folder"):
        read_yahoo([tmp_path])
    with pytest.raises(ValueError, match="source: expected at least one file"):
        read_yahoo([])
    with pytest.raises(ValueError, match="block_bytes"):
        read_yahoo(tmp_path, block_bytes=0)
    for name in ("day", "day.gz"):
        with pytest.raises(ValueError, match=f"{name}: the file is empty"):
            read_yahoo(write(tmp_path / name, b""))
    with pytest.raises(ValueError, match=r"day\.gz: the file is empty"):
        read_yahoo(write(tmp_path / "day.gz", b"", pack=True))
    with pytest.raises(ValueError, match=r"day\.gz: not a gzip file, at line 1"):
        read_yahoo(write(tmp_path / "day.gz", LINE + "\n"))


def damage(packed, how):
    if how == "truncated":
        return packed[: 3 * len(packed) // 4]
    if how == "without trailer":
        return packed[:-8]
    if how == "head only":
        return packed[:5]
    if how == "wrong checksum":
        return packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]
    if how == "garbage behind":
        return packed + b"garbage"
    middle = len(packed) // 2
    return packed[:middle] + bytes(50) + packed[middle + 50 :]


@pytest.mark.parametrize(
    "how", ["truncated", "without trailer", "head only", "wrong checksum", "garbage behind", "overwritten"]
)
def test_a_damaged_gz_is_an_error_or_one_more_blemish(tmp_path, made, how):
    lines = made[0].read_bytes().splitlines(keepends=True)[:2000]
    path = write(tmp_path / "day.gz", damage(gzip.compress(b"".join(lines)), how))
    with pytest.raises(ValueError, match=r"day\.gz: the gzip data (are damaged|break off).*, at line \d+$"):
        read_yahoo(path)
    log, report = read_yahoo(path, lenient=True)
    assert report.skipped["truncated file"] == 1
    assert report.lines == report.events + sum(report.skipped.values())
    assert report.examples["truncated file"] == [(str(path), report.lines)]
    expected = made[2]
    # Where bytes were overwritten, some lines may unpack to something else before the damage shows.
    whole = len(log) if how != "overwritten" else 900
    for name in EVENTS:
        np.testing.assert_array_equal(getattr(log, name)[:whole], getattr(expected, name)[:whole])
    if how in ("truncated", "without trailer", "garbage behind"):
        assert len(log) > 1400


# Blemishes

SPOILED = [
    ("", "empty line"),
    ("   ", "empty line"),
    (LINE + "\r", "Windows line end"),
    ("\r", "Windows line end"),
    (LINE.replace("user", "usér"), "invalid bytes"),
    (LINE.encode("latin-1").replace(b"2:0.3", b"2:\xe9.3"), "invalid bytes"),
    (LINE.replace("|", "\x00|"), "invalid bytes"),
    (LINE.replace(" 0 ", "\t0 "), "invalid bytes"),
    (LINE.replace(" 0 |", " |"), "wrong column count"),
    (LINE.replace(" 0 |", " 0 0 |"), "wrong column count"),
    ("timestamp displayed_article click user", "wrong column count"),
    ("|", "wrong column count"),
    (LINE.replace("1241160900", "May1"), "not a number"),
    (LINE.replace("1241160900", "-5"), "not a number"),
    (LINE.replace("1241160900", "1" * 19), "not a number"),
    (LINE.replace(" 109513 0", " id-109513 0"), "not a number"),
    (LINE.replace("|109498", "|abc"), "not a number"),
    (LINE.replace("|109498", "|"), "not a number"),
    (LINE.replace("|109498", "|109498.0"), "not a number"),
    (LINE.replace("|109498", "|user"), "not a number"),
    (LINE.replace("0.077048", "nan"), "not a number"),
    (LINE.replace("0.077048", "inf"), "not a number"),
    (LINE.replace("0.077048", "1e400"), "not a number"),
    (LINE.replace("0.077048", "0.07.7048"), "not a number"),
    (LINE.replace("0.077048", ""), "not a number"),
    (LINE.replace("4:0.077048", "4 0.077048"), "not a number"),
    (LINE.replace("0.000012", "NaN"), "not a number"),
    (LINE.replace(" 0 |", " 2 |"), "click not 0 or 1"),
    (LINE.replace(" 0 |", " 01 |"), "click not 0 or 1"),
    (LINE.replace(" 0 |", " click |"), "click not 0 or 1"),
    (LINE.replace(USER + " ", ""), "missing feature block"),
    (LINE.replace(USER, "|user"), "missing feature block"),
    (LINE.replace(USER, USER.replace("user", "users")), "missing feature block"),
    (LINE.replace(FIRST, "|109498"), "missing feature block"),
    (f"1241160900 109513 0 {USER}", "missing feature block"),
    ("1241160900 109513 0", "missing feature block"),
    (LINE.replace(" 4:0.000006", ""), "too few features"),
    (LINE.replace(" 4:0.077048", ""), "too few features"),
    (LINE.replace(" 4:0.002773 5:0.569886 6:0.215900 1:1.000000", ""), "too few features"),
    (LINE.replace("4:0.077048", "7:0.077048"), "feature id not 1 to 6"),
    (LINE.replace("4:0.000006", "0:0.000006"), "feature id not 1 to 6"),
    (LINE.replace("4:0.077048", "3:0.077048"), "doubled feature"),
    (LINE + " 4:0.1", "doubled feature"),
    (f"{LINE} {FIRST}", "doubled candidate"),
    (LINE.replace(" 109513 0", " 109512 0"), "displayed article not a candidate"),
    (LINE.replace("900 109", "900" + " " * r6a.LONGEST + "109"), "line too long"),
    ("x" * (3 * r6a.LONGEST), "line too long"),
    (LINE + " |1 1:1 2:1 3:1 4:1 5:1 6:1" * r6a.MOST_CANDIDATES, "line too long"),
]


@pytest.mark.parametrize(("spoiled", "kind"), SPOILED, ids=range(len(SPOILED)))
@pytest.mark.parametrize("block_bytes", [50, 1 << 20])
def test_a_blemished_line_is_skipped_and_reported_and_its_neighbours_are_read(tmp_path, spoiled, kind, block_bytes):
    bad = spoiled if isinstance(spoiled, bytes) else spoiled.encode()
    other = LINE.replace(FIRST, FIRST.replace("109498", "109499"))
    content = b"\n".join([LINE.encode(), bad, other.encode(), bad, LINE.encode(), b""])
    path = write(tmp_path / "day", content)
    log, report = read_yahoo(path, block_bytes=block_bytes)
    assert report.skipped == {kind: 2}
    assert report.examples == {kind: [(str(path), 2), (str(path), 4)]}
    assert (report.lines, report.events, report.noted) == (5, 3, {})
    assert log.articles.tolist() == [109498, 109513, 109499]
    assert log.pools.tolist() == [0, 1, 0]
    assert events_of(log) == slow_read(content)


def test_every_kind_is_tried_above_or_below():
    tried = {kind for _, kind in SPOILED} | {"half a last line", "truncated file", "changed features"}
    assert tried == set(r6a.KINDS)


@pytest.mark.parametrize("block_bytes", [50, 1 << 20])
@pytest.mark.parametrize("rest", [LINE, LINE[:100], "1", "x" * (2 * r6a.LONGEST)], ids=["whole", "half", "1", "long"])
def test_a_last_line_without_end_is_not_trusted(tmp_path, rest, block_bytes):
    log, report = read_yahoo(write(tmp_path / "day", f"{LINE}\n{rest}"), block_bytes=block_bytes)
    assert len(log) == 1
    assert report.skipped == {"half a last line": 1}
    assert report.examples["half a last line"][0][1] == report.lines == 2


def test_changed_features_are_noted_and_the_first_are_kept(tmp_path):
    changed = LINE.replace("0.306008", "0.306009")
    path = write(tmp_path / "day", f"{LINE}\n{changed}\n{changed}\n{LINE}\n")
    log, report = read_yahoo(path)
    assert log.features[0, 1] == 0.306008
    assert log.pools.tolist() == [0, 0, 0, 0]
    assert (report.events, report.skipped, report.noted) == (4, {}, {"changed features": 2})
    assert report.examples == {"changed features": [(str(path), 2), (str(path), 3)]}
    assert "kept: changed features: 2" in str(report)


def test_a_difference_in_any_byte_of_the_candidates_is_noticed():
    start = LINE.index(FIRST)
    for place in range(start, len(LINE)):
        other = LINE[:place] + ("7" if LINE[place] != "7" else "8") + LINE[place + 1 :]
        content = f"{LINE}\n{other}\n{LINE}\n".encode()
        parser = Parser()
        parser.feed(content)
        skipped, noted = parser.counts[: r6a.CHANGED].sum(), parser.counts[r6a.CHANGED]
        log = parser.log()
        assert events_of(log) == slow_read(content)
        assert skipped or noted or len(log.articles) == 3, other[start:]


def test_articles_of_skipped_lines_leave_no_trace(tmp_path):
    odd = LINE.replace("0.306008", "0.9").replace(" 109513 0", " 1 0")
    log, report = read_yahoo(write(tmp_path / "day", f"{odd}\n{LINE}\n"))
    assert log.features[0, 1] == 0.306008
    assert (len(log.pool_offsets), report.noted) == (2, {})


def test_a_file_of_something_else_gives_an_empty_log(tmp_path):
    content = np.random.default_rng(0).integers(256, size=300_000, dtype=np.uint8).tobytes()
    log, report = read_yahoo(write(tmp_path / "image", content))
    assert len(log) == report.events == 0
    assert (log.users.shape, log.features.shape, log.pool_offsets.tolist()) == ((0, 6), (0, 6), [0])
    assert report.lines == sum(report.skipped.values()) == content.count(b"\n") + 1


THIRD = SECOND.replace("109513", "109514")
BASE = b"".join(
    f"{1241160900 + k} {109498 if k % 3 else 109513} {k % 2} {USER} {FIRST} {f'{THIRD} ' * (k > 4)}{SECOND}\n".encode()
    for k in range(8)
)
EDIT = st.tuples(
    st.sampled_from(["replace", "insert", "delete"]),
    st.integers(0, len(BASE) - 1),
    st.one_of(
        st.integers(0, 255).map(lambda byte: bytes([byte])), st.sampled_from([b"\n", b" ", b"|", b":", b".", b"1"])
    ),
)


@settings(max_examples=600)
@given(st.lists(EDIT, max_size=8), st.integers(0, 300), st.sampled_from([1, 64, 700, 1 << 20]))
def test_whatever_happens_to_the_bytes_the_slow_reader_agrees(edits, cut, size):
    content = bytearray(BASE)
    for how, place, byte in edits:
        if how == "replace":
            content[place : place + 1] = byte
        elif how == "insert":
            content[place:place] = byte
        else:
            del content[place : place + 1]
    content = bytes(content[: len(content) - cut])
    parser = Parser()
    for start in range(0, len(content), size):
        parser.feed(content[start : start + size])
    parser.end_file(r6a.HALF)
    log = parser.log()
    expected = slow_read(content)
    found = events_of(log)
    assert [event[:3] + event[4:5] for event in found] == [event[:3] + event[4:5] for event in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose([one[3], *one[5]], [other[3], *other[5]], rtol=1e-15)
    assert parser.lines == len(found) + parser.counts[: r6a.CHANGED].sum()
    assert parser.lines == content.count(b"\n") + (not content.endswith(b"\n"))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.integers(0, 7)), st.randoms(use_true_random=False))
def test_lines_that_nobody_touched_survive_in_order(tmp_path, touched, random):
    lines = BASE.splitlines(keepends=True)
    for k in touched:
        spoiled = bytearray(lines[k])
        spoiled[random.randrange(len(spoiled) - 1)] = random.choice(b"\x00\xff\t|#x")
        lines[k] = bytes(spoiled)
    log, _ = read_yahoo(write(tmp_path / "day", b"".join(lines)))
    times = log.times.tolist()
    assert times == sorted(set(times))
    assert {1241160900 + k for k in range(8) if k not in touched} <= set(times)


# Made-up files


def test_lines_have_the_format_of_the_data_sheet(made):
    path, plan, _, _ = made
    with open(path, "rb") as file:
        line = file.readline().decode()
    features = r"2:0\.\d{6} 3:0\.\d{6} 4:0\.\d{6} 5:0\.\d{6} 6:0\.\d{6} 1:1\.000000"
    assert re.fullmatch(rf"{START} \d{{6}} [01] \|user {features}( \|\d{{6}} {features}){{20}}\n", line)
    assert 1400 < len(line) < 1700
    assert plan.files == ("day",)


def test_reading_a_made_up_file_gives_its_plan_back(made):
    _, plan, log, report = made
    assert report == Report(lines=60_000, events=60_000)
    assert log.times[0] == START
    assert (np.diff(log.times) >= 0).all()
    assert START + DAY - 10 <= log.times[-1] < START + DAY
    rows = np.searchsorted(plan.articles, log.articles)
    np.testing.assert_array_equal(plan.articles[rows], log.articles)
    np.testing.assert_array_equal(plan.features[rows], log.features)
    for event in range(0, len(log), 997):
        alive = (plan.born <= log.times[event]) & (plan.died > log.times[event])
        assert sorted(log.articles[log.candidates(event)]) == plan.articles[alive].tolist()
        assert alive.sum() == 20


def test_articles_live_as_long_as_asked(tmp_path):
    plan = write_synthetic(tmp_path / "day", 10, days=1, lifetime=(2.0, 5.0))
    hours = (plan.died - plan.born) / 3600
    assert hours.min() >= 2.0
    assert hours.max() <= 5.0
    assert len(plan.articles) > 20 * 24 / 5
    assert (np.diff(plan.born) >= 0).all()


def test_clicks_follow_the_planned_rates(made):
    _, plan, log, _ = made
    article = np.searchsorted(plan.articles, log.articles)[log.displayed()]
    segment = plan.segment(log.times)
    chance = plan.rates[article, plan.groups, segment]
    assert plan.rates.min() >= 0.02
    assert plan.rates.max() <= 0.10
    checked = 0
    for keys in (article * 4 + segment, plan.groups * 4 + segment, article * 100 + plan.groups):
        for key in np.unique(keys):
            cell = keys == key
            expected = chance[cell].sum()
            if expected >= 15:  # enough clicks for a normal distribution
                checked += 1
                error = np.sqrt((chance[cell] * (1 - chance[cell])).sum())
                assert abs(log.rewards[cell].sum() - expected) < 5 * error
    assert checked > 50


def test_clicks_depend_on_article_group_and_segment(tmp_path):
    # Rates from 5 to 95 %: at those of the real log a test could not tell groups apart without many more lines.
    plan = write_synthetic(tmp_path / "day", 20_000, clicks=(0.05, 0.95), candidates=8)
    log, _ = read_yahoo(tmp_path / "day")
    article = np.searchsorted(plan.articles, log.articles)[log.displayed()]
    segment = plan.segment(log.times)
    chance = plan.rates[article, plan.groups, segment]
    without = {
        "segment": plan.rates[article, plan.groups, 0],
        "group": plan.rates.mean(axis=1)[article, segment],
        "article": plan.rates.mean(axis=0)[plan.groups, segment],
    }
    for name, other in without.items():
        # Standard normal if clicks follow `chance`; if they followed `other` its mean were -power.
        part = chance - other
        scale = np.sqrt((part**2 * chance * (1 - chance)).sum())
        power = (part**2).sum() / scale
        assert power > 10, name
        assert abs((part * (log.rewards - chance)).sum()) / scale < 5, name


def test_rates_change_for_everyone_at_every_planted_time_and_for_a_share_if_asked(tmp_path, made):
    plan = made[1]
    assert plan.rates.shape[1:] == (5, 4)
    assert len(plan.changes) == 3
    assert (np.diff(plan.changes, prepend=START, append=START + DAY) > DAY / 4 / 2 - 1).all()
    assert (np.abs(np.diff(plan.rates, axis=2)) > 0).all()
    # The clicks show it: the rate of an article that lives on differs from one segment to the next.
    jumps = np.abs(np.diff(plan.rates.mean(axis=1), axis=1))
    assert jumps.max() > 0.01
    some = write_synthetic(tmp_path / "day", 10, share=0.3, days=1, candidates=200, lifetime=(6, 7), changes=2)
    moved = (np.diff(some.rates, axis=2) != 0).all(axis=1)
    stayed = (np.diff(some.rates, axis=2) == 0).all(axis=1)
    assert (moved | stayed).all()
    # Binomial with 1,600 or so articles and 2 changes: 5 standard errors are about 0.04.
    assert moved.mean() == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / moved.size))


def test_the_displayed_article_is_drawn_uniformly(made):
    log = made[2]
    counts = np.bincount(log.shown, minlength=20)
    assert len(counts) == 20
    expected = len(log) / 20
    # Chi-squared with 19 degrees of freedom has mean 19 and standard deviation 6.2; this is 5 of them above.
    assert ((counts - expected) ** 2 / expected).sum() < 19 + 5 * np.sqrt(38)


def test_users_gather_around_the_centre_of_their_group(made):
    _, plan, log, _ = made
    np.testing.assert_allclose(log.users[:, 1:].sum(axis=1), 1.0, atol=5e-6)
    assert (log.users[:, 0] == 1.0).all()
    shares = np.bincount(plan.groups, minlength=5) / len(log)
    np.testing.assert_allclose(shares, plan.weights, atol=5 * np.sqrt(0.25 / len(log)))
    for group, centre in enumerate(plan.centres):
        members = log.users[plan.groups == group]
        error = members.std(axis=0) / np.sqrt(len(members))
        assert (np.abs(members.mean(axis=0) - centre) < 5 * error + 1e-4).all()
    distance = np.linalg.norm(log.users[:, None] - plan.centres, axis=2)
    assert (distance.argmin(axis=1) == plan.groups).mean() > 0.999


def test_the_seed_decides_every_byte(tmp_path):
    for name in ("a", "b", "a.gz", "b.gz"):
        write_synthetic(tmp_path / name, 300, seed=5, candidates=4)
    write_synthetic(tmp_path / "c", 300, seed=6, candidates=4)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == (tmp_path / "a").read_bytes()


def test_a_plan_is_saved_beside_its_files(tmp_path):
    plan = write_synthetic(tmp_path / "days", 400, days=2, candidates=4, blemishes={"empty line": 0.1})
    loaded = Plan.load(tmp_path / "days" / "plan.npz")
    for field in fields(Plan):
        np.testing.assert_array_equal(getattr(loaded, field.name), getattr(plan, field.name))
    assert loaded.files == plan.files
    write_synthetic(tmp_path / "day", 10)
    assert (tmp_path / "day.plan.npz").exists()
    with pytest.raises(FileNotFoundError, match="absent"):
        Plan.load(tmp_path / "absent")
    content = (tmp_path / "day.plan.npz").read_bytes()
    np.save(tmp_path / "one.npy", np.zeros(3))
    for wrong in (b"", b"plan", content[: len(content) // 2], (tmp_path / "one.npy").read_bytes()):
        with pytest.raises(ValueError, match="wrong: not the plan"):
            Plan.load(write(tmp_path / "wrong", wrong))


@pytest.mark.parametrize("kind", BLEMISHES)
def test_planted_blemishes_are_found_where_they_were_planted(tmp_path, kind):
    arguments = {"lines": 12_000, "candidates": 3, "seed": 3}
    write_synthetic(tmp_path / "clean", **arguments)
    plan = write_synthetic(tmp_path / "spoiled", **arguments, blemishes={kind: 0.002, "empty line": 0.001})
    clean, _ = read_yahoo(tmp_path / "clean")
    log, report = read_yahoo(tmp_path / "spoiled")
    code = r6a.KINDS.index(kind)
    planted = np.flatnonzero(plan.blemishes == code)
    assert len(planted) == 1 if kind == "half a last line" else len(planted) > 2
    found = report.noted if kind == "changed features" else report.skipped
    assert found[kind] == len(planted)
    assert [line for _, line in report.examples[kind]] == (planted[:5] + 1).tolist()
    kept = (plan.blemishes == -1) | (plan.blemishes == r6a.CHANGED)
    assert report.events == len(log) == kept.sum()
    for name in EVENTS:
        np.testing.assert_array_equal(getattr(log, name), getattr(clean, name)[kept])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lines": 0}, "lines: expected"),
        ({"days": 0}, "days: expected"),
        ({"days": 32}, "days: expected at most 31"),
        ({"days": 11, "lines": 10}, "days: expected"),
        ({"candidates": 0}, "candidates: expected"),
        ({"groups": 101}, "groups: expected"),
        ({"changes": -1}, "changes: expected"),
        ({"share": 1.5}, "share: expected"),
        ({"clicks": (0.5, 0.1)}, "clicks: expected"),
        ({"clicks": 0.5}, "clicks: expected"),
        ({"lifetime": (0.0, 1.0)}, "lifetime: expected"),
        ({"seed": -1}, "seed: expected"),
        ({"blemishes": {"typo": 0.1}}, "blemishes: expected kinds among empty line"),
        ({"blemishes": {"empty line": 2.0}}, r"blemishes\['empty line'\]: expected"),
        ({"blemishes": {"empty line": 0.6, "too few features": 0.6}}, "blemishes: expected shares"),
    ],
)
def test_bad_settings_are_named_and_nothing_is_written(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        write_synthetic(tmp_path / "day", **{"lines": 40, **arguments})
    assert list(tmp_path.iterdir()) == []


def test_days_do_not_mix_with_those_of_another_log(tmp_path):
    write_synthetic(tmp_path, 40, days=3, candidates=2)
    write_synthetic(tmp_path, 30, days=3, candidates=2)
    assert read_yahoo(tmp_path)[1].lines == 30
    with pytest.raises(ValueError, match="20090503: is in the way"):
        write_synthetic(tmp_path, 40, days=2, candidates=2)
    with pytest.raises(ValueError, match="expected a folder for 2 days, got a file"):
        write_synthetic(tmp_path / "plan.npz", 40, days=2)


def test_a_write_that_fails_leaves_no_file(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_synthetic(tmp_path / "day.gz", 40)
    assert list(tmp_path.iterdir()) == []


def test_tastes_can_be_turned_around(tmp_path):
    """What was liked most is liked least: rates before and after a change add up to the sum of their bounds."""
    plan = write_synthetic(tmp_path / "day", 50, changes=2, clicks=(0.1, 0.5), reverse=True)
    np.testing.assert_allclose(plan.rates[..., 0] + plan.rates[..., 1], 0.6, atol=1e-6)
    np.testing.assert_allclose(plan.rates[..., 0], plan.rates[..., 2], atol=1e-6)


def test_a_common_taste_makes_groups_alike(tmp_path):
    alike = write_synthetic(tmp_path / "alike", 50, common=1.0)
    np.testing.assert_allclose(alike.rates, np.broadcast_to(alike.rates[:, :1], alike.rates.shape))
    apart = write_synthetic(tmp_path / "apart", 50, common=0.0)
    assert np.ptp(apart.rates, axis=1).max() > 0.03
    with pytest.raises(ValueError, match="common: expected a number in"):
        write_synthetic(tmp_path / "bad", 50, common=1.5)
