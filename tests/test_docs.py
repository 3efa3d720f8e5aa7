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


@pytest.fixture(scope="module")
def runner():
    """Runs scripts in processes of their own, without importing NumPy, Numba and SciPy anew for each."""
    command = [sys.executable, "-W", "error", str(Path(__file__).with_name("scripts.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_python_blocks_run(page, tmp_path, runner):
    code = "\n".join(BLOCK.findall(page.read_text(encoding="utf-8")))
    script = tmp_path / "page.py"
    script.write_text(code, encoding="utf-8")
    if page.name == "service.md":
        export_logs(tmp_path)
    print(script, file=runner.stdin, flush=True)
    assert runner.stdout.readline() == "0\n", script.with_suffix(".out").read_text(encoding="utf-8")


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
    assert policies == {entry.page for entry in REGISTRY.values()}
    artefacts = {page.stem for page in (ROOT / "docs" / "paper").glob("*.md")}
    assert artefacts == {artefact.value for artefact in PaperArtefact} - {"all"}


def test_a_policys_page_says_what_it_assumes_when_it_fails_and_what_every_setting_means():
    from driftbandit.policies.registry import REGISTRY, Brief

    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for entry in REGISTRY.values():
        assert f"`{entry.name}`" in commands, f"commands.md does not name {entry.name}"
        page = (ROOT / "docs" / "policies" / f"{entry.page}.md").read_text(encoding="utf-8")
        for heading in ("## What it assumes and when it fails", "## Settings"):
            assert heading in page, f"{entry.page}.md has no {heading}"
        for setting in inspect.signature(type(entry.build(Brief(dim=3, noise=0.1)))).parameters:
            assert f"`{setting}`" in page, f"{entry.page}.md does not explain {setting}"


def test_the_overview_says_of_every_policy_what_the_registry_says():
    from driftbandit.policies.registry import REGISTRY, Brief

    overview = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in overview.splitlines() if line.count(" | ") == 3]
    facts = {title: cells for titles, *cells in rows for title in titles.split(", ")}
    words = {"noise": "the noise", "reward_range": "the range of rewards", "shifts": "the true shifts"}
    for entry in REGISTRY.values():
        assert f"](policies/{entry.page}.md)" in overview
        if entry.name != entry.page:
            continue  # a preset of the policy that the page is about
        features, told, changes = facts[entry.title]
        expected = [words[name] for name in entry.told] + ["the scope"] * entry.scoped or ["nothing"]
        assert [word for word in expected if word not in told] == [], entry.title
        policy = entry.build(Brief(dim=3, noise=0.1))
        if entry.name == "per-scope":
            assert features == changes == "as its policies"
        else:
            assert features == ("no" if policy.dim is None else "yes"), entry.title
            assert (changes == "never") == (not policy.evidence), entry.title


def test_measured_tables_are_filled_in():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(r"<!-- begin (\w+) -->\n(.*?)<!-- end \1 -->", text, re.DOTALL):
            assert found[2].strip(), f"{name(page)}: {found[1]} is empty; run make docs"
