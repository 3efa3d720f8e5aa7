"""Take the documentation's pictures of web pages: `python docs/screenshots.py`.

Needs the dev and serve extras and Chromium. Starts `driftbandit demo`, lets the audience change its mind a few times,
and writes docs/images/page-*.png. Live traffic makes no two runs alike: these pictures differ a little each time.
Then runs `driftbandit audit --example` and writes the head of its report to docs/images/audit.png.
"""

import argparse
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

IMAGES = Path(__file__).parent / "images"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
COMMAND = [sys.executable, "-c", "from driftbandit.cli import app; app()"]
SHOTS = [
    ("page-loop", "/?loop=front-page", 1280, "light"),
    ("page-loop-dark", "/?loop=front-page", 1280, "dark"),
    ("page-loop-narrow", "/?loop=front-page", 390, "light"),
    ("page-members", "/?loop=front-page-dlinucb", 1280, "light"),
    ("page-scopes", "/?loop=for-you", 1280, "light"),
    ("page-overview", "/", 1280, "light"),
]


def save(shot: bytes, path: Path) -> None:
    """Write a picture in 256 colours: a third of the size. Its large areas keep their colours, so nothing is tinted."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    reduced = image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    palette = np.array(reduced.getpalette()).reshape(-1, 3)
    colours, first, counts = np.unique(np.asarray(image).reshape(-1, 3), axis=0, return_index=True, return_counts=True)
    for place in np.argsort(counts)[-8:]:
        palette[np.asarray(reduced).ravel()[first[place]]] = colours[place]
    reduced.putpalette(palette.ravel().tolist())
    reduced.save(path, optimize=True)


@contextmanager
def demo() -> Iterator[str]:
    """The address of a demo that runs for as long as it is needed."""
    running = subprocess.Popen([*COMMAND, "demo"], stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        yield next(line for line in running.stdout if line.startswith("http")).split("/  ")[0]
    finally:
        running.terminate()
        running.wait(30)


def wait_for_changes(browser: Browser, url: str, count: int) -> None:
    """Watch, live, until so many changes have been detected and the new taste is learned."""
    page = browser.new_page()
    page.goto(url + "/?loop=front-page")
    page.wait_for_function(
        "count => document.querySelectorAll('#history li.restarted').length >= count", arg=count, timeout=600_000
    )
    page.close()
    time.sleep(30)  # what changed is plain only when the new taste has been learned


def shoot_page(browser: Browser, url: str, out: Path) -> None:
    """Pictures of the service's page."""
    for name, path, width, scheme in SHOTS:
        page = browser.new_page(viewport={"width": width, "height": 360}, color_scheme=scheme)
        page.goto(url + path)
        page.wait_for_selector("#live.on")
        save(page.screenshot(full_page=True), out / f"{name}.png")
        page.close()


def shoot_audit(browser: Browser, out: Path) -> None:
    """The head of the audit's report: its answers and the chart."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*COMMAND, "audit", "--example", "--out", folder], check=True, stdout=subprocess.DEVNULL)
        page = browser.new_page(viewport={"width": 900, "height": 360})
        page.goto(f"file://{folder}/audit.html")
        end = page.locator("h2").first.bounding_box()
        assert end is not None
        clip = {"x": 0, "y": 0, "width": 900, "height": end["y"]}
        save(page.screenshot(full_page=True, clip=clip), out / "audit.png")
        page.close()


def main() -> None:
    """Take all pictures, or those of one kind."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", choices=["page", "audit"])
    options.add_argument("--changes", type=int, default=3, help="to wait for")
    options.add_argument("--out", type=Path, default=IMAGES)
    given = options.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        if given.only != "audit":
            with demo() as url:
                wait_for_changes(browser, url, given.changes)
                shoot_page(browser, url, given.out)
        if given.only != "page":
            shoot_audit(browser, given.out)
        browser.close()


if __name__ == "__main__":
    main()
