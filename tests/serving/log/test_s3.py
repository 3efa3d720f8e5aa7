"""Archives in S3-compatible storage: the same promises as those of a folder."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from driftbandit.cli import app
from driftbandit.serving.engine.retention import Retention
from driftbandit.serving.log import archive as archives
from driftbandit.serving.log.archive import ParquetArchive
from driftbandit.serving.log.places import Place
from driftbandit.serving.log.rerun import read_export, read_exports, rerun_log

from ..world import World, export, prune, run

KEEP = 60_000
_prefixes = itertools.count()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """URL of a server that speaks S3, with a bucket `logs`."""
    moto = pytest.importorskip("moto.server", reason="needs moto[server], of driftbandit[dev]")
    from pyarrow.fs import S3FileSystem

    server = moto.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "me")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        url = f"http://{host}:{port}"
        S3FileSystem(endpoint_override=url, region="us-east-1", allow_bucket_creation=True).create_dir("logs")
        yield url
    server.stop()


@pytest.fixture
def at(endpoint: str) -> Callable[[str], str]:
    """Makes addresses below a prefix of the test's own."""
    prefix = f"s3://logs/old{next(_prefixes)}"
    return lambda below: f"{prefix}{below}?region=us-east-1&endpoint_override={endpoint}"


def make(path: Path, archive: str) -> World:
    world = World(path, snapshot_every=40, retention=Retention(KEEP, ParquetArchive(archive)))
    world.loop(dim=2, policy="linucb", scoped=True, window=5.0)
    run(world, 80, world.arms(np.eye(2)))
    return world


def names(address: str) -> list[str]:
    return [file.name for file in Place.of(address).files("", recursive=True)]


def test_archive_and_store_together_are_the_whole_log(
    tmp_path: Path, at: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_EVENTS", 50)
    world, first = make(tmp_path / "a.db", at("")), 0
    while prune(world) > first:
        first = world.store.pruned(1, 0)
    assert first > 50
    found = names(at("/1/0"))
    assert found == sorted(found)
    assert len(found) > 1
    assert all(name.endswith(".parquet") for name in found)
    rest = export(world, tmp_path / "rest.ndjson")
    assert rerun_log(read_exports([at("/1"), rest])).digest == world.check()
    one = list(read_export(at(f"/1/0/{found[0]}")))
    assert [row["seq"] for row, _ in one] == list(range(1, 51))
    done = CliRunner().invoke(app, ["rerun", at(""), str(rest), "--json"])
    assert json.loads(done.stdout)["digest"] == world.check()
    before = world.check()
    world.store._db.execute("UPDATE snapshots SET crc = crc + 1")
    world.restart()
    assert world.check() == before, "the archive was repeated in place of a damaged snapshot"


def test_a_scope_is_erased(tmp_path: Path, at: Callable[[str], str]) -> None:
    world = make(tmp_path / "a.db", at(""))
    assert prune(world)
    archive = ParquetArchive(at(""))
    ids = archive.ids_of(1, 0, "user 3")
    assert ids
    before = names(at("/1/0"))
    world.engine.erase("x", "user 3", "")
    while world.store.removals()[0].done is None:
        world.engine.commit()
    left = [row for row, _ in read_exports([at("")])]
    assert not any(row["scope"] == "user 3" or row["id"] in ids for row in left)
    assert archive.ids_of(1, 0, "user 3") == []
    assert names(at("/1/0")) == before
    found = rerun_log(read_exports([at(""), export(world, tmp_path / "rest.ndjson")]))
    assert found.digest == world.check()


def test_a_file_has_its_name_only_when_it_is_whole(at: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Place.of(at("/1/0"))

    def pieces() -> Iterator[bytes]:
        yield b"x" * (6 << 20)  # more than S3 takes at once
        assert not folder.files(".parquet")
        raise ValueError("half-way")

    with pytest.raises(ValueError, match="half-way"):
        folder.save(pieces(), lambda: "a.parquet")
    assert names(at("/1/0")) == []
    with monkeypatch.context() as patch:
        patch.setattr(Place, "tidy", lambda self: None)  # as if the process was killed
        with pytest.raises(ValueError, match="half-way"):
            folder.save(pieces(), lambda: "a.parquet")
    assert [name.partition(".")[2][8:] for name in names(at("/1/0"))] == [".partial"]
    folder.save([b"whole"], lambda: "b.parquet")
    assert names(at("/1/0")) == ["b.parquet"], "what the killed process left is gone"
    folder.save([b"nothing"], lambda: None)
    assert names(at("/1/0")) == ["b.parquet"]


def test_storage_that_is_not_there_keeps_the_events(
    tmp_path: Path, endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"s3://me:hidden@nowhere/old?region=us-east-1&endpoint_override={endpoint}"
    world = make(tmp_path / "a.db", address)
    assert prune(world) == 0
    assert "old events stay in the store, since they cannot be archived" in caplog.text
    assert "hidden" not in caplog.text
    world.check()


@pytest.mark.parametrize("address", ["ftp://host/old", "s3://", "s3://?region=x", "s3:///old/"])
def test_addresses_that_are_none(address: str, tmp_path: Path) -> None:
    options = ["serve", "--store", f"sqlite:{tmp_path / 'a.db'}", "--keep", "1d", "--archive", address]
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 2
    assert "--archive: expected a path or s3://BUCKET/PREFIX, got" in " ".join(done.output.split())
