"""`driftbandit keys` and `driftbandit replay` as commands: what they print; bad input is one line and no loss."""

from __future__ import annotations

import io
import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from driftbandit.cli import app
from driftbandit.serving.api.keys import Access, Keyring, create_key
from driftbandit.serving.log import export
from driftbandit.serving.stores.sqlite import SQLiteStore

from .world import World, run

Rows = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def command(*args: str | Path) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def succeed(*args: str | Path) -> Result:
    result = command(*args)
    assert result.exit_code == 0, result.output
    return result


def fail(*args: str | Path) -> str:
    """The one line that a command says when it fails."""
    result = command(*args)
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)  # and not an exception that would be a traceback
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


# ---- keys -----------------------------------------------------------------------------------------------------------


def test_a_key_is_made_listed_and_revoked() -> None:
    made = succeed("keys", "create", "web site", "--role", "read", "--store", "sqlite:new/a.db")
    secret = made.stdout.strip()
    ident = made.stderr.split()[1]
    assert made.stderr == f"key {ident} (read) for web site in sqlite:new/a.db; it is shown only now:\n"
    store = SQLiteStore("new/a.db", writer=False)
    keys = Keyring()
    keys.refresh(store)
    assert keys.find(b"Bearer " + secret.encode()) == Access(ident, "read")
    listed = succeed("keys", "list", "--store", "sqlite:new/a.db")
    assert listed.stdout == f"{ident}  read    web site\n"
    assert secret not in listed.output
    assert succeed("keys", "revoke", ident, "--store", "sqlite:new/a.db").stdout == f"revoked {ident}\n"
    keys.refresh(store)
    assert keys.find(b"Bearer " + secret.encode()) is None
    when = store.access_keys()[0].revoked
    succeed("keys", "revoke", ident, "--store", "sqlite:new/a.db")  # again is no error, and changes nothing
    assert store.access_keys()[0].revoked == when
    assert "(revoked)" in succeed("keys", "list", "--store", "sqlite:new/a.db").stdout
    found = json.loads(succeed("keys", "list", "--json", "--store", "sqlite:new/a.db").stdout)
    no_limits = {"expires": None, "loops": None, "rate": None}
    assert found == [{"id": ident, "name": "web site", "role": "read", "revoked": True, **no_limits}]
    store.close()


def test_a_key_may_end_be_for_some_loops_and_have_a_rate() -> None:
    begun = time.time() * 1000
    made = succeed("keys", "add", "shop", "--expires", "90d", "--loops", "news, shop", "--rate", "20")
    ident = made.stderr.split()[1]
    (found,) = json.loads(succeed("keys", "list", "--json").stdout)
    assert (found["loops"], found["rate"]) == (["news", "shop"], 20.0)
    store = SQLiteStore("driftbandit.db", writer=False)
    (row,) = store.access_keys()
    store.close()
    assert row.expires is not None
    assert 0 <= row.expires - begun - 90 * 86_400_000 < 60_000
    day = found["expires"][:16]
    assert succeed("keys", "list").stdout == (
        f"{ident}  decide  shop  (until {day}Z; for news, shop; 20 requests a second)\n"
    )


@pytest.mark.parametrize("given", ["90", "d", "0d", "-1d", "90 days", "", "²d", "999999d"])
def test_a_life_that_cannot_be_is_refused_before_a_store_is_made(given: str) -> None:
    assert "--expires: expected a length of time such as 90d, 12h or 30m" in fail(
        "keys", "create", "x", "--expires", given
    )
    assert not Path("driftbandit.db").exists()


def test_loops_that_cannot_be_are_refused() -> None:
    for given in ("", "a,,b", "a\nb"):
        assert "loops: expected 1 to 200 printable" in fail("keys", "create", "x", "--loops", given)


def test_half_of_a_certificate_is_refused() -> None:
    assert "--tls-cert, --tls-key: expected both or neither" in fail("serve", "--tls-cert", "cert.pem")
    line = fail("serve", "--tls-cert", "none", "--tls-key", "none")
    assert "expected a certificate and its private key" in line


def test_keys_are_made_while_the_service_runs(tmp_path: Path) -> None:
    world = World(tmp_path / "a.db")  # holds the log
    succeed("keys", "create", "later", "--store", "sqlite:a.db")
    assert [key.name for key in world.store.access_keys()] == ["later"]
    world.store.close()


@pytest.mark.parametrize("name", ["[red]x[/red]", "<b>&", "ü 漢字 🎈", "--role", "'; DROP TABLE keys; --", "x" * 100])
def test_odd_names_are_kept_as_they_are(name: str) -> None:
    succeed("keys", "create", "--", name)
    assert succeed("keys", "list").stdout.endswith(f"  decide  {name}\n")
    assert json.loads(succeed("keys", "list", "--json").stdout)[0]["name"] == name


@pytest.mark.parametrize("name", ["", "x" * 101, "x" * 100_000, "two\nlines", "bell\a", "\x1b[31mred", "nul\0"])
def test_impossible_names_are_refused_before_a_store_is_made(tmp_path: Path, name: str) -> None:
    assert fail("keys", "create", name) == "error: name: expected 1 to 100 printable characters"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("role", ["boss", "", "Admin", "admin "])
def test_unknown_roles_are_refused_before_a_store_is_made(tmp_path: Path, role: str) -> None:
    assert fail("keys", "create", "a", "--role", role) == (
        f"error: role: expected one of decide, read, admin, got {role!r}"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [["list"], ["list", "--json"], ["revoke", "1a2b3c4d"]])
def test_a_missing_store_is_not_made_where_nothing_can_be_in_it(tmp_path: Path, args: list[str]) -> None:
    assert fail("keys", *args, "--store", "sqlite:no/such.db") == "error: there is no store no/such.db"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ident", ["deadbeef", "", "x" * 10_000, "' OR 1 = 1 --", "%", "\udcff"])
def test_unknown_ids_are_not_revoked(ident: str) -> None:
    succeed("keys", "create", "kept")
    assert fail("keys", "revoke", ident) == f"error: no key {ident!r}"
    assert json.loads(succeed("keys", "list", "--json").stdout)[0]["revoked"] is False


@pytest.mark.parametrize("args", [["create", "a"], ["list"], ["revoke", "1a2b3c4d"]])
@pytest.mark.parametrize(
    ("store", "complaint"),
    [
        ("sqlite:text", "text: SQLite: NotADBError: file is not a database"),
        ("sqlite:.", "store: expected sqlite:PATH, got no path"),
        ("sqlite:folder", "folder: SQLite: CantOpenError: unable to open database file"),
        ("sqlite:text/a.db", ""),
        ("sqlite:other", "other: the database of another program, with a table 'diary'"),
        ("sqlite:", "store: expected sqlite:PATH or postgresql://..., got 'sqlite:'"),
        ("", "store: expected sqlite:PATH or postgresql://..., got ''"),
        ("mysql://a", "store: expected sqlite:PATH or postgresql://..., got 'mysql://a'"),
        ("a.db", "store: expected sqlite:PATH or postgresql://..., got 'a.db'"),
        ("postgresql://nobody:secret@127.0.0.1:1/x", "PostgreSQL: OperationalError: connection failed"),
        ("postgresql://:::", "PostgreSQL: "),
    ],
)
def test_what_is_no_store_is_named_and_left_alone(args: list[str], store: str, complaint: str) -> None:
    Path("text").write_text("Dear diary, this is no database. " * 100)
    Path("folder").mkdir()
    with sqlite3.connect("other") as db:
        db.execute("CREATE TABLE diary (day TEXT)")
        db.execute("INSERT INTO diary VALUES ('today')")
    db.close()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    line = fail("keys", *args, "--store", store)
    assert complaint in line
    assert "secret" not in line
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.9])
def test_a_store_that_lost_its_end_is_no_traceback(cut: float) -> None:
    store = SQLiteStore(Path("driftbandit.db"))
    for number in range(50):
        create_key(store, f"key {number}", "read")
    store.close()
    whole = Path("driftbandit.db").read_bytes()
    Path("driftbandit.db").write_bytes(whole[: int(len(whole) * cut) + 50])
    for leftover in Path().glob("driftbandit.db-*"):
        leftover.unlink()
    assert "driftbandit.db: SQLite: " in fail("keys", "list")


# ---- serve ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_is_taken_is_refused_before_a_store_is_made(host: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = fail("serve", "--insecure-local", "--store", "sqlite:new.db", "--host", host, "--port", port)
    assert said == f"error: --host, --port: cannot listen on {host}:{port}: Address already in use"
    assert not Path("new.db").exists()


def test_hosts_that_are_not_this_machine_are_refused() -> None:
    said = fail("serve", "--store", "sqlite:new.db", "--host", "198.51.100.7", "--port", "8080")
    assert said == "error: --host, --port: cannot listen on 198.51.100.7:8080: Cannot assign requested address"
    said = fail("serve", "--store", "sqlite:new.db", "--host", "no host", "--port", "8080")
    assert said.startswith("error: --host, --port: cannot listen on no host:8080: ")
    assert not Path("new.db").exists()


@pytest.mark.parametrize("why", ["held", "text", "scheme"])
def test_a_service_that_cannot_start_says_why_once(tmp_path: Path, why: str) -> None:
    Path("text").write_text("Dear diary, this is no database. " * 100)
    world = World(tmp_path / "held.db")
    store, said, status = {
        "held": ("sqlite:held.db", "held.db: another process is serving from this file", 3),
        "text": ("sqlite:text", "text: SQLite: NotADBError: file is not a database", 3),
        "scheme": ("new.db", "store: expected sqlite:PATH or postgresql://..., got 'new.db'", 2),
    }[why]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = [sys.executable, "-c", "from driftbandit.cli import app; app()", "serve", "--insecure-local"]
    done = subprocess.run(
        [*program, "--store", store, "--port", port], capture_output=True, text=True, timeout=60, check=False
    )
    world.store.close()
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr.count(said) == 1
    assert "Traceback" not in done.stderr
    assert "serving sqlite" not in done.stderr


# ---- replay ---------------------------------------------------------------------------------------------------------


def log_of(folder: Path, rounds: int = 40, **config: Any) -> dict[str, bytes]:
    """A log, exported in every format."""
    world = World(folder / "log.db")
    world.loop(**({"policy": "linucb", "dim": 3, "window": 5.0, "scoped": True} | config))
    run(world, rounds, world.arms(np.random.default_rng(3).standard_normal((8, 3)) / 2))
    wanted = export.Wanted("x", world.engine.number("x"))
    whole = {kind: b"".join(make(world.store.reader, wanted)) for kind, make in export.FORMATS.items()}
    world.store.close()
    return whole


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return log_of(tmp_path_factory.mktemp("logs"))


@pytest.fixture
def rows(logs: dict[str, bytes]) -> Rows:
    return [json.loads(line) for line in logs["ndjson"].splitlines()]


def write(rows: Rows) -> Path:
    path = Path("log.ndjson")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def first(rows: Rows, kind: str) -> dict[str, Any]:
    return next(row for row in rows if row["kind"] == kind)


@pytest.mark.parametrize("kind", ["ndjson", "parquet"])
def test_a_log_replays(logs: dict[str, bytes], kind: str) -> None:
    Path("log").write_bytes(logs[kind])
    result = succeed("replay", "log")
    assert "\n40 of 40 decisions came out the same\n" in result.stdout
    assert result.stderr == ""
    found = json.loads(succeed("replay", "log", "--json").stdout)
    assert (found["loop"], found["decisions"], found["identical"], found["differing"]) == ("x", 40, 40, [])
    assert f"final state {found['digest']}" in result.stdout
    assert Path("log").read_bytes() == logs[kind]


def test_a_log_of_several_shards_replays(logs: dict[str, bytes], rows: Rows) -> None:
    Path("one").write_bytes(logs["ndjson"])
    one = json.loads(succeed("replay", "one", "--json").stdout)
    # The draws depend on the shard's number, so the second shard is a log of its own: settings and arms only.
    quiet = [row | {"shard": 1} for row in rows[:2]]
    both = json.loads(succeed("replay", write(rows + quiet), "--json").stdout)
    assert both["identical"] == both["decisions"] == one["decisions"]
    assert both["events"] == one["events"] + 2
    mixed = json.loads(succeed("replay", write(rows[:2] + quiet + rows[2:]), "--json").stdout)
    assert mixed == both
    assert both["digest"] != one["digest"]


def test_decisions_of_another_version_are_named(rows: Rows) -> None:
    """As if the policy had chosen otherwise when the log was written."""
    decisions = [row for row in rows if row["kind"] == "decision"]
    for row in decisions[20:]:
        row["votes"] = [(row["votes"][0] + 1) % len(row["arms"])]
    result = command("replay", write(rows))
    assert result.exit_code == 1
    assert "20 of 40 decisions came out the same" in result.stdout
    assert result.stderr.startswith(f"first that did not: {decisions[20]['id']}, {decisions[21]['id']}, ")
    found = command("replay", write(rows), "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["differing"][0] == decisions[20]["id"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (b"", "the log is empty"),
        (b"\n", "row 1 is no event"),
        (b"PAR1", "row 1 is no event"),
        (b"PAR1" + b"\0" * 100, "row 1 is no event"),
        (b"\x93NUMPY\xff\xfe", "row 1 is no event"),
        (b"null", "row 1 is no event"),
        (b"[1, 2]", "row 1 is no event"),
        (b"{}", "there is no 'kind'"),
        (
            b'{"kind": "surprise"}',
            "kind: expected one of config, arms, decision, reward, late, tick, erased, erasure, got 'surprise'",
        ),
        (b"[" * 100_000, "row 1 is no event"),
        (b'{"kind": "tick", "time": 1}', "row 1 does not say which event of which loop it is"),
    ],
)
def test_what_is_no_log_is_refused(given: bytes, complaint: str) -> None:
    Path("log").write_bytes(given)
    assert complaint in fail("replay", "log")


def test_other_exports_and_files_are_no_logs(logs: dict[str, bytes]) -> None:
    Path("log").write_bytes(logs["dsjson"])
    assert "there is no 'kind'" in fail("replay", "log")
    pq.write_table(pa.table({"a": [1, 2]}), "other.parquet")
    assert "other.parquet: row 1 is no event" in fail("replay", "other.parquet")
    assert "No such file" in fail("replay", "nope")
    assert "other.parquet: row 1 is no event" in fail("replay", ".")
    Path("empty").mkdir()
    assert "empty: there are no Parquet files in this folder" in fail("replay", "empty")


@pytest.mark.parametrize("kind", ["ndjson", "parquet"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.99])
def test_truncated_logs_are_refused(logs: dict[str, bytes], kind: str, share: float) -> None:
    body = logs[kind][: int(len(logs[kind]) * share)].rstrip(b"}\n")
    Path("log").write_bytes(body)
    row = len(body.splitlines()) if kind == "ndjson" else 1
    assert f"log: row {row} is no event" in fail("replay", "log")


def no_number(rows: Rows) -> None:
    first(rows, "reward")["value"] = float("nan")


def no_time(rows: Rows) -> None:
    first(rows, "reward")["time"] = "noon"


def null_reward(rows: Rows) -> None:
    first(rows, "reward")["value"] = None


def null_feature(rows: Rows) -> None:
    first(rows, "arms")["features"] = [[None, 0.0, 0.0]] * 8


def wrong_dimension(rows: Rows) -> None:
    first(rows, "arms")["features"] = [[1.0, 2.0]] * 8


def ragged(rows: Rows) -> None:
    first(rows, "arms")["features"][0] = [1.0]


def unknown_decision(rows: Rows) -> None:
    first(rows, "reward")["id"] = "who?"


def unknown_arm(rows: Rows) -> None:
    first(rows, "decision")["arms"][0] = "who?"


def unknown_policy(rows: Rows) -> None:
    first(rows, "config")["config"]["policy"] = "who?"


def newer_setting(rows: Rows) -> None:
    first(rows, "config")["config"]["mood"] = "good"


def no_field(rows: Rows) -> None:
    del first(rows, "decision")["arms"]


def gap(rows: Rows) -> None:
    del rows[5]


def twice(rows: Rows) -> None:
    rows.insert(5, rows[4])


def other_loop(rows: Rows) -> None:
    rows[5]["loop"] = "y"


def late_start(rows: Rows) -> None:
    del rows[:2]


def text_number(rows: Rows) -> None:
    rows[5]["seq"] = "6"


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (no_number, "is no event of a log"),  # NaN is not JSON
        (no_time, "Expected `int`, got `str`"),
        (null_reward, "Expected `float`, got `null`"),
        (null_feature, "expected finite values, got nan"),
        (wrong_dimension, "the catalogue has 2 features per arm, the loop 3"),
        (ragged, "row 2 is no event"),
        (unknown_decision, "a reward for decision 'who?', which is not open"),
        (unknown_arm, "event 3: arms: 'who?' is not in the catalogue"),
        (unknown_policy, "; expected one of driftucb"),
        (newer_setting, "unknown field `mood`"),
        (no_field, "row 3 is no event of a log exported as ndjson or Parquet: there is no 'arms'"),
        (gap, "expected event 6 of loop 'x', got event 7 of 'x': is a part missing?"),
        (twice, "expected event 6 of loop 'x', got event 5 of 'x'"),
        (other_loop, "expected event 6 of loop 'x', got event 6 of 'y'"),
        (late_start, "the log does not start at its beginning"),
        (text_number, "row 6 does not say which event of which loop it is"),
    ],
)
def test_spoilt_logs_are_refused_and_the_spot_named(rows: Rows, spoil: Callable[[Rows], None], complaint: str) -> None:
    spoil(rows)
    assert complaint in fail("replay", write(rows))


def test_nan_in_parquet_is_refused(logs: dict[str, bytes]) -> None:
    table = pq.read_table(pa.BufferReader(logs["parquet"]))
    values = [None if value is None else float("nan") for value in table["value"].to_pylist()]
    pq.write_table(table.set_column(table.schema.get_field_index("value"), "value", pa.array(values)), "log.parquet")
    assert "value: expected a finite number, got nan" in fail("replay", "log.parquet")


# ---- exports for others ---


def test_pandas_reads_the_exports(logs: dict[str, bytes], rows: Rows) -> None:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    lines = pandas.read_json(io.BytesIO(logs["ndjson"]), lines=True)
    table = pandas.read_parquet(io.BytesIO(logs["parquet"]))
    for frame in (lines, table):
        assert frame["seq"].tolist() == [row["seq"] for row in rows]
        rewards = frame[frame["kind"] == "reward"]
        assert rewards["value"].tolist() == [row["value"] for row in rows if row["kind"] == "reward"]
        assert frame["kind"].value_counts()["decision"] == 40


def test_vw_reads_dsjson(logs: dict[str, bytes], rows: Rows) -> None:
    """As VW's own parser has it: which action has the label, its cost and probability, and the features."""
    vowpalwabbit = pytest.importorskip("vowpalwabbit", reason="needs driftbandit[bench]")
    vw = vowpalwabbit.Workspace("--dsjson --cb_explore_adf --quiet")
    rewards = {row["id"]: row["value"] for row in rows if row["kind"] == "reward"}
    decisions = {row["id"]: row for row in rows if row["kind"] == "decision"}
    lines = logs["dsjson"].decode().splitlines()
    assert len(lines) == len(decisions)
    labelled = 0
    for line in lines:
        shared, *actions = vw.parse(line)
        ident = json.loads(line)["EventId"]
        decision = decisions[ident]
        assert len(actions) == len(decision["arms"])
        found = [action.get_label(vowpalwabbit.LabelType.CONTEXTUAL_BANDIT).costs for action in actions]
        assert [place for place, costs in enumerate(found) if costs] == [decision["index"]]
        label = found[decision["index"]][0]
        assert label.probability == pytest.approx(decision["propensity"])
        if "_label_cost" in line:
            assert label.cost == -rewards.get(ident, 0.0)
            labelled += 1
        else:
            assert label.cost > 1e30  # VW's way of saying that it is not known
        assert [action.num_features_in("x") for action in actions] == [3] * len(actions)
        vw.finish_example([shared, *actions])
    vw.finish()
    assert labelled > 30
