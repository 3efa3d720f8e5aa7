"""A result is found again while nothing that made it has changed, and not once something has."""

import pickle
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest

from driftbandit import World
from driftbandit.arena.entrants import entrants, tuned
from driftbandit.environments.lastfm import LastFM
from driftbandit.evaluation import fingerprints
from driftbandit.evaluation.fingerprints import builder_fingerprint, run_key, source_fingerprint

PRINT_KEYS = """
from functools import partial
from driftbandit import World
from driftbandit.evaluation.fingerprints import run_key
from mine import parts

def typed(brief): pass

for world, build in (
    (World(), parts.build),
    (World(), partial(parts.build, explore=parts.Builder)),
    (World(), parts.Builder),
    (World(), parts.Builder()),
    (parts.Own(), None),
    (World(), typed),
):
    print(run_key(world, 0, "mine", build))
"""
KINDS = ["function", "partial", "class", "object", "environment", "typed"]

FILES = {
    "mine/__init__.py": "SCALE = 1.0\n",
    "mine/constants.py": "EXPLORE = 0.5\n",
    "mine/late.py": "WIDTH = 3\n",
    "mine/unused.py": "",
    "mine/bases.py": """
        class Base:
            def rounds(self, seed):
                raise NotImplementedError
    """,
    "mine/parts.py": """
        from dataclasses import dataclass

        from .bases import Base
        from .constants import EXPLORE

        def build(brief):
            from mine import late
            raise NotImplementedError

        class Builder:
            explore = 1.0

            def __init__(self, brief=None):
                pass

            def __call__(self, brief):
                raise NotImplementedError

        @dataclass(frozen=True)
        class Own(Base):
            size: int = 3
    """,
}


@pytest.fixture
def own_package(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def keys_of(folder):
    """Keys of runs with code of one's own, computed in a process of its own."""
    command = [sys.executable, "-B", "-c", PRINT_KEYS]
    text = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True).stdout
    return dict(zip(KINDS, text.split(), strict=True))


def test_code_of_your_own_counts_by_its_source(own_package):
    before = keys_of(own_package)
    assert len(set(before.values())) == len(KINDS)
    (own_package / "mine" / "unused.py").write_text("# never imported\n")
    after = keys_of(own_package)
    assert after.pop("typed") != before.pop("typed"), "what was typed into a console is never the same"
    assert after == before, "the rest is found again in another process"
    for name in ("parts", "constants", "late", "bases", "__init__"):
        with (own_package / "mine" / f"{name}.py").open("a") as file:
            file.write("# edited\n")
        after = keys_of(own_package)
        assert [kind for kind in before if after[kind] == before[kind]] == [], f"{name}.py was edited"
        before = {kind: after[kind] for kind in before}


def test_what_cannot_be_pickled_is_never_the_same():
    def build(brief):
        raise NotImplementedError

    @dataclass(frozen=True)
    class Local:
        size: int = 3

    for thing in (build, Local()):
        assert source_fingerprint(thing) != source_fingerprint(thing)
    assert builder_fingerprint(build) != builder_fingerprint(build)


@dataclass(frozen=True)
class Tabled:
    """An environment with an array among its settings."""

    table: np.ndarray

    def rounds(self, seed):
        raise NotImplementedError


def test_settings_need_not_be_json():
    def key(values):
        return run_key(Tabled(np.array(values)), 0, "linucb", None)

    assert key([1.0, 2.0]) == key([1.0, 2.0])
    assert key([1.0, 2.0]) != key([1.0, 3.0])


def test_other_data_is_another_run(tmp_path, monkeypatch):
    for name in ("one", "two"):
        (tmp_path / name / "lastfm").mkdir(parents=True)
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tmp_path / "one"))
    keys = [run_key(LastFM(), 0, "linucb", None)]
    assert run_key(LastFM(), 0, "linucb", None) == keys[0]
    (tmp_path / "one" / "lastfm" / "user_taggedartists.dat").write_text("userID\n")
    keys.append(run_key(LastFM(), 0, "linucb", None))
    monkeypatch.setenv("DRIFTBANDIT_DATA", str(tmp_path / "two"))
    keys.append(run_key(LastFM(), 0, "linucb", None))
    assert len(set(keys)) == 3


@pytest.mark.parametrize("file", ["study.py", "entry.py", "linucb.py"])
def test_code_of_the_arena_counts(tmp_path, monkeypatch, file):
    build = next(iter(tuned()["linucb-tuned"].variants.values()))
    key = run_key(World(), 0, "linucb", build)
    read = fingerprints.Path.read_bytes
    monkeypatch.setattr(fingerprints.Path, "read_bytes", lambda path: read(path) + b"# edited" * (path.name == file))
    fingerprints.code_fingerprint.cache_clear()
    changed = run_key(World(), 0, "linucb", build)
    monkeypatch.undo()
    fingerprints.code_fingerprint.cache_clear()
    assert changed != key == run_key(World(), 0, "linucb", build)


def test_a_copy_in_another_process_has_the_same_key():
    """Keys are compared with those that workers wrote, whose builders went through a pipe."""
    builders = [build for entrant in entrants().values() for build in entrant.variants.values()]
    changed = [build for build in builders if _key(pickle.loads(pickle.dumps(build))) != _key(build)]
    assert changed == []


def _key(build):
    return run_key(World(), 0, "mine", build)
