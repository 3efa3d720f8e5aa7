"""What is said where an extra is missing."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import driftbandit
from driftbandit.extras import pip_install

ROOT = Path(driftbandit.__file__).parents[2]


def test_from_a_clone_the_clone_is_installed(tmp_path):
    package = tmp_path / "src" / "driftbandit"
    package.mkdir(parents=True)
    assert pip_install("data", package) == "pip install 'driftbandit[data]'", "a folder src is no clone yet"
    (tmp_path / "pyproject.toml").touch()
    assert pip_install("data", package) == f"pip install '.[data]' in {tmp_path}"


def test_elsewhere_the_index_is_asked(tmp_path):
    package = tmp_path / "site-packages" / "driftbandit"
    package.mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    assert pip_install("serve", package) == "pip install 'driftbandit[serve]'"


def clouds():
    from driftbandit.paper.figure5 import cloud_figure

    cloud_figure([])


def tags():
    from driftbandit.environments.hetrec import tag_features

    tag_features(np.array([0]), np.array([0]), np.ones(1), 1, "svd")


def groups():
    from driftbandit.environments.groups import group_users
    from driftbandit.environments.log import Log

    none = [0] * 8
    given = {"articles": [1], "features": [[1.0]], "pool_offsets": [0, 1], "pool_members": [0], "times": range(8)}
    group_users(Log(**given, pools=none, shown=none, rewards=none, users=[[1.0, t] for t in range(8)]), 2)


MISSING = [("wordcloud", clouds), ("sklearn.decomposition", tags), ("sklearn.cluster", groups)]


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not a clone")
@pytest.mark.parametrize(("module", "call"), MISSING, ids=[module for module, _ in MISSING])
def test_a_missing_package_says_how_to_get_it_in_a_clone(monkeypatch, module, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as error:
        call()
    assert f"pip install '.[data]' in {ROOT}" in str(error.value)


@pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not a clone")
def test_serve_says_how_to_get_its_packages_in_a_clone(monkeypatch):
    from driftbandit.cli import app

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = CliRunner().invoke(app, ["serve", "--insecure-local"])
    assert result.exit_code != 0
    assert f"pip install '.[serve]' in {ROOT}" in " ".join(result.output.split())


def test_where_ray_is_missing_one_line_says_how_to_get_it(monkeypatch, tmp_path):
    from driftbandit.cli import app

    monkeypatch.setitem(sys.modules, "ray", None)
    args = ["compare", "--on", "ray", "--policies", "random", "--seeds", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2
    assert result.output.startswith("error: running on Ray needs Ray, which is not installed for Python 3.")
    assert pip_install("scale") in result.output
    assert result.output.count("\n") == 1
