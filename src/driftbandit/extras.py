"""How to install the packages that only some users need."""

from __future__ import annotations

from pathlib import Path


def pip_install(extra: str, package: Path = Path(__file__).parent) -> str:
    """The command that installs an extra: from the clone that the package runs from, else from the index.

    Parameters
    ----------
    extra : str
        Its name in pyproject.toml.
    package : Path
        Folder of the package.

    Examples
    --------
    >>> pip_install("serve", Path("/usr/lib/python3/site-packages/driftbandit"))
    "pip install 'driftbandit[serve]'"
    """
    clone = package.parent.parent
    if package.parent.name == "src" and (clone / "pyproject.toml").is_file():
        return f"pip install '.[{extra}]' in {clone}"
    return f"pip install 'driftbandit[{extra}]'"
