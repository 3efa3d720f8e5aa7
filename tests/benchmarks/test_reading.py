import pytest

from driftbandit.benchmarks import reading
from driftbandit.benchmarks.reading import CSV_WORK, WORK, write_csv, write_log


def test_every_way_of_reading_sees_every_row(tmp_path):
    write_log(tmp_path / "log.parquet", 3000)
    assert [work(tmp_path / "log.parquet") for work in WORK.values()] == [3000] * 3


def test_csv_files_are_as_large_as_asked_and_every_row_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "PIECE", 500)
    write_csv(tmp_path / "log.csv", 0.2)
    size = (tmp_path / "log.csv").stat().st_size
    rows = (tmp_path / "log.csv").read_text().count("\n") - 1
    assert size - 500 * size / rows < 200_000 <= size, "one piece less would be too small"
    assert rows % 500 == 0
    assert [work(tmp_path / "log.csv") for work in CSV_WORK.values()] == [rows] * 3


@pytest.mark.parametrize(("megabytes", "ways", "sizes"), [([0.01, 0.05], CSV_WORK, 2), ([], WORK, 2)])
def test_every_size_is_read_in_every_way(megabytes, ways, sizes, monkeypatch, capsys):
    monkeypatch.setattr(reading, "PIECE", 200)
    monkeypatch.setattr(
        reading, "__spec__", type("Spec", (), {"name": "driftbandit.benchmarks.reading"}), raising=False
    )
    monkeypatch.setattr(
        reading.subprocess,
        "run",
        lambda command, **_: type("Done", (), {"stdout": '{"seconds": 1.0, "rows": 7, "peak": 2.0}'}),
    )
    reading.main(megabytes, rows=400)
    assert len(capsys.readouterr().out.splitlines()) == 1 + sizes * len(ways)
