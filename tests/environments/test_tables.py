"""Where data sets are looked for when nobody says where they are."""

import sys

import pytest

from driftbandit.environments.tables import data_folder, default_folder


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep data elsewhere")
def test_data_sets_lie_in_the_users_folder_for_data(no_data, monkeypatch):
    usual = no_data / ".local" / "share" / "driftbandit"
    (usual / "lastfm").mkdir(parents=True)
    assert data_folder("lastfm") == usual / "lastfm"
    assert default_folder() == usual
    monkeypatch.setenv("XDG_DATA_HOME", str(no_data / "elsewhere"))
    assert default_folder() == no_data / "elsewhere" / "driftbandit"
    with pytest.raises(FileNotFoundError, match=r"no data in .*elsewhere/driftbandit/lastfm; set DRIFTBANDIT_DATA"):
        data_folder("lastfm")
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(no_data / "mine"))
    assert default_folder() == no_data / "mine"
