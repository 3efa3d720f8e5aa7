from driftbandit.benchmarks.reading import WORK, write_log


def test_every_way_of_reading_sees_every_row(tmp_path):
    write_log(tmp_path / "log.parquet", 3000)
    assert [work(tmp_path / "log.parquet") for work in WORK.values()] == [3000] * 3
