"""The documentation runs: every Python block, every link."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def name(page):
    return str(page.relative_to(ROOT))


WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_python_blocks_run(page, tmp_path):
    code = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    script = tmp_path / "page.py"
    script.write_text(code, encoding="utf-8")
    if page.name == "service.md":
        export_logs(tmp_path)
    result = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def export_logs(folder):
    """The logs that the page on the service reads."""
    pytest.importorskip("apsw", reason="needs driftbandit[serve]")
    from serving.test_commands import log_of

    for kind, body in log_of(folder).items():
        (folder / f"news.{kind}").write_bytes(body)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target


def test_there_is_a_page_for_every_policy_and_artefact():
    from driftbandit.paper.everything import PaperArtefact
    from driftbandit.policies.registry import REGISTRY

    policies = {page.stem for page in (ROOT / "docs" / "policies").glob("*.md")}
    assert policies >= {entry for entry in REGISTRY if not entry.startswith(("dlinucb-", "oracle-"))}
    artefacts = {page.stem for page in (ROOT / "docs" / "paper").glob("*.md")}
    assert artefacts == {artefact.value for artefact in PaperArtefact} - {"all"}


def test_a_policys_page_says_what_it_assumes_when_it_fails_and_what_every_setting_means():
    from driftbandit import CLUB, DyClu, PerScope
    from driftbandit.policies.registry import REGISTRY, Brief

    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    scoped = {"per-scope": PerScope, "club": CLUB, "dyclu": DyClu}
    kinds = {name: type(entry.build(Brief(dim=3, noise=0.1))) for name, entry in REGISTRY.items()} | scoped
    for policy, kind in kinds.items():
        assert policy in scoped or f"`{policy}`" in commands, f"commands.md does not name {policy}"
        stem = policy.split("-")[0] if policy.startswith(("dlinucb-", "oracle-")) else policy
        page = (ROOT / "docs" / "policies" / f"{stem}.md").read_text(encoding="utf-8")
        for heading in ("## What it assumes and when it fails", "## Settings"):
            assert heading in page, f"{stem}.md has no {heading}"
        for setting in inspect.signature(kind).parameters:
            assert f"`{setting}`" in page, f"{stem}.md does not explain {setting}"


def test_measured_tables_are_filled_in():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"<!-- begin (\w+) -->\n(.*?)<!-- end \1 -->", text, re.DOTALL):
            assert found[2].strip(), f"{name(page)}: {found[1]} is empty; run make docs"
