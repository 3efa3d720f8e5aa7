"""Write the measured tables and pictures of the documentation anew, from the commands that the documentation names.

Run by ``make docs``. Text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is replaced, the rest left alone.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RUNS = ROOT / "runs"
ON_DATA = "driftucb,dlinucb-released,adts,linucb,random,oracle-paper,discounted-tuned"
ALARMS = "still,clicks,clicks0.3to1-long," + ",".join(
    f"clicks{rates}-still-long" for rates in ("0.3to1", "1to3", "2to8", "5to15")
)
COMMAND = Path(sys.executable).with_name("driftbandit")


def run(*arguments: str) -> None:
    """Run a driftbandit command from the root of the repository."""
    subprocess.run([str(COMMAND), *arguments], cwd=ROOT, check=True)


def section(path: Path, title: str) -> str:
    """The table under a heading of a Markdown file."""
    body = path.read_text(encoding="utf-8").split(f"## {title}\n", 1)[1]
    return body.split("\n## ", 1)[0].strip()


def tables_of(path: Path) -> str:
    """All tables of a Markdown file, with their headings."""
    return "## " + path.read_text(encoding="utf-8").split("\n## ", 1)[1].strip()


def replace(page: Path, name: str, content: str) -> None:
    """Put `content` between the markers of `name`."""
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{page}: no markers for {name}")
    page.write_text(pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text), encoding="utf-8")


def write_arena() -> None:
    """Scoreboard, detection and time of the simulated worlds, rewards of the real ones, and the picture."""
    arena, real = RUNS / "arena" / "arena.md", RUNS / "arena-real" / "arena.md"
    for name, titles in {
        "arena": ["Scoreboard: regret of DriftUCB, told nothing"],
        "detection": ["Detection"],
        "time": ["Time of a round"],
    }.items():
        replace(DOCS / "arena.md", name, "\n\n".join(section(arena, title) for title in titles))
    replace(DOCS / "arena.md", "real", section(real, "Real data: total reward"))
    shutil.copy(arena.with_suffix(".png"), DOCS / "images" / "arena.png")


def write_detection() -> None:
    """False alarms and delays of DriftUCB."""
    alarms = RUNS / "detection" / "arena.md"
    replace(DOCS / "detection.md", "still", section(alarms, "Alarms of DriftUCB where nothing changes"))
    replace(DOCS / "detection.md", "found", section(alarms, "Shifts that DriftUCB found"))


def main() -> None:
    """Run the commands and write the pages."""
    run("compare")
    run("paper", "all")
    run("arena", "--scenarios", "shifts,still,drift,clicks,units,late")
    run("arena", "--scenarios", "real", "--policies", ON_DATA, "--out", "runs/arena-real")
    run("arena", "--scenarios", ALARMS, "--policies", "driftucb", "--seeds", "20", "--out", "runs/detection")
    run("bench", "--out", "runs/bench")
    paper = RUNS / "paper"
    pages = sorted((DOCS / "paper").glob("*.md"))
    if missing := [page.stem for page in pages if not (paper / page.name).exists()]:
        raise SystemExit(f"{', '.join(missing)}: left out, see above; most need DRIFTBANDIT_DATA, see docs/data.md")
    for page in pages:
        replace(page, page.stem, tables_of(paper / page.name))
        picture = paper / f"{page.stem}.png"
        if picture.exists():
            shutil.copy(picture, DOCS / "images" / picture.name)
    shutil.copy(RUNS / "compare" / "compare.png", DOCS / "images" / "compare.png")
    write_arena()
    write_detection()
    for page, name, benchmark, *settings in (
        ("service.md", "scopes", "sizes"),
        ("dependencies.md", "asgi", "asgi"),
        ("detection.md", "delays", "click_delays"),
        ("many-features.md", "sparse", "sparse"),
        ("performance.md", "growth", "growth", "--out", str(DOCS / "images")),
    ):
        command = [sys.executable, "-m", f"driftbandit.benchmarks.{benchmark}", *settings]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        replace(DOCS / page, name, printed.strip())
    speed, *tables, loading = tables_of(RUNS / "bench" / "bench.md").split("\n## ")
    scopes = next(table for table in tables if table.startswith("Many scopes"))
    wide = [f"## {table}".strip() for table in tables if table is not scopes]
    replace(DOCS / "performance.md", "bench", "\n\n".join([speed.strip(), *wide]))
    replace(DOCS / "many-scopes.md", "many scopes", f"### {scopes}".strip())
    replace(DOCS / "performance.md", "loading", f"## {loading}")
    imports = json.loads((RUNS / "bench" / "bench.json").read_text())["import_ratio"]
    replace(
        DOCS / "performance.md", "import", f"`import driftbandit` took {imports:.1f} times as long as `import numpy`."
    )


if __name__ == "__main__":
    main()
