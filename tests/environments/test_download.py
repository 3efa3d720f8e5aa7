"""Downloads from a server on this machine; archives that are broken, huge or hostile."""

import http.server
import os
import stat
import threading
import zipfile

import pytest

from driftbandit.environments.download import fetch, unpack

EXPECTED = ("a.dat", "b.dat", "readme.txt")
NEEDED = ("a.dat", "b.dat")


@pytest.fixture
def server(tmp_path):
    """An HTTP server for a folder; `/short` announces more than it sends."""
    root = tmp_path / "served"
    root.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(root))

        def do_GET(self):
            if self.path == "/short":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b"x" * 10)
            else:
                super().do_GET()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield root, f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def pack(path, members, **how):
    with zipfile.ZipFile(path, "w", **how) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


GOOD = [("a.dat", "one"), ("b.dat", "two"), ("readme.txt", "three")]


def test_a_file_is_fetched_whole(server, tmp_path):
    root, address = server
    (root / "x").write_bytes(b"y" * 3_000_000)
    fetch(f"{address}/x", tmp_path / "deep" / "x")
    assert (tmp_path / "deep" / "x").read_bytes() == b"y" * 3_000_000


def test_what_is_missing_short_or_large_leaves_nothing(server, tmp_path):
    root, address = server
    (root / "x").write_bytes(b"y" * 1000)
    target = tmp_path / "target" / "x"
    with pytest.raises(OSError, match=r"/absent: could not be downloaded \(.*404"):
        fetch(f"{address}/absent", target)
    with pytest.raises(
        (OSError, ValueError), match=r"/short: (the download broke off after 10|could not be downloaded)"
    ):
        fetch(f"{address}/short", target)
    with pytest.raises(ValueError, match="/x: refused, more than 999 bytes"):
        fetch(f"{address}/x", target, most=999)
    with pytest.raises(OSError, match="could not be downloaded"):
        fetch("http://127.0.0.1:9/x", target)
    with pytest.raises(OSError, match="could not be downloaded"):
        fetch((tmp_path / "nothing").as_uri(), target)
    assert not target.parent.exists() or list(target.parent.iterdir()) == []


@pytest.mark.parametrize("prefix", ["", "hetrec2011-lastfm-2k/"])
def test_expected_files_are_unpacked_and_others_left_alone(tmp_path, prefix):
    members = [(prefix + name, content) for name, content in [*GOOD, ("setup.py", "import os")]]
    archive = pack(tmp_path / "x.zip", members, compression=zipfile.ZIP_DEFLATED)
    written = unpack(archive, EXPECTED, NEEDED, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == sorted(file.name for file in written)
    assert {file.name: file.read_text() for file in written} == dict(GOOD)


def test_what_is_not_needed_may_be_missing_and_what_is_there_stays(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "b.dat").write_text("mine")
    written = unpack(pack(tmp_path / "x.zip", GOOD[:2]), EXPECTED, NEEDED, out)
    assert written == [out / "a.dat"]
    assert (out / "b.dat").read_text() == "mine"


def link(name):
    member = zipfile.ZipInfo(name)
    member.create_system = 3
    member.external_attr = (stat.S_IFLNK | 0o777) << 16
    return member


HOSTILE = [
    ([*GOOD, ("../evil.dat", "x")], "'../evil.dat' leads out of the folder"),
    ([*GOOD, ("/etc/evil", "x")], "'/etc/evil' leads out"),
    ([*GOOD, ("deep/../../a.dat", "x")], "leads out"),
    ([*GOOD, ("..\\evil.dat", "x")], "leads out"),
    ([*GOOD, ("C:\\a.dat", "x")], "leads out"),
    ([*GOOD, ("other/a.dat", "x")], "a.dat is in it twice"),
    ([(link("a.dat"), "/etc/passwd"), *GOOD[1:]], "'a.dat' is not a plain file"),
    (GOOD[1:], "expected a.dat in it"),
    ([], "expected a.dat, b.dat in it"),
    ([*GOOD[:2], ("readme.txt", "x" * 10_000)], "unpacks to more than 5,000 bytes"),
]


@pytest.mark.parametrize(("members", "message"), HOSTILE)
def test_hostile_archives_are_refused_whole(tmp_path, members, message):
    archive = pack(tmp_path / "x.zip", members, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"x\.zip: ") as caught:
        unpack(archive, EXPECTED, NEEDED, tmp_path / "out", most=5000)
    assert message in str(caught.value)
    assert sorted(os.listdir(tmp_path)) == ["x.zip"], "nothing is written, here or elsewhere"


def test_an_archive_that_lies_about_its_size_is_refused(tmp_path):
    archive = pack(tmp_path / "x.zip", [("a.dat", "x" * 100_000), *GOOD[1:]], compression=zipfile.ZIP_DEFLATED)
    content = archive.read_bytes()
    true, lie = (100_000).to_bytes(4, "little"), (100).to_bytes(4, "little")
    assert content.count(true) == 2
    archive.write_bytes(content.replace(true, lie))
    with pytest.raises(ValueError, match=r"x\.zip"):
        unpack(archive, EXPECTED, NEEDED, tmp_path / "out", most=5000)
    assert not (tmp_path / "out").exists()


def test_no_truncated_or_damaged_archive_is_unpacked(tmp_path):
    archive = pack(tmp_path / "x.zip", [(name, content * 50) for name, content in GOOD])
    content = archive.read_bytes()
    place = content.index(b"twotwo")
    damaged = [content[:length] for length in range(0, len(content), 37)]
    damaged += [content[:place] + b"TWO" + content[place + 3 :], b"not a zip", b""]
    for wrong in damaged:
        archive.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"x\.zip: "):
            unpack(archive, EXPECTED, NEEDED, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_an_encrypted_member_is_refused(tmp_path):
    archive = pack(tmp_path / "x.zip", GOOD)
    content = bytearray(archive.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"'a\.dat' is not a plain file"):
        unpack(archive, EXPECTED, NEEDED, tmp_path / "out")
