"""Take the documentation's pictures of the page: `python docs/screenshots.py`.

Needs the dev and serve extras and Chromium. Starts `driftbandit demo`, lets the audience change its mind a few times,
and writes docs/images/page-*.png. Live traffic makes no two runs alike: the pictures differ a little each time.
"""

import argparse
import io
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
SHOTS = [
    ("page-loop", "/?loop=front-page", 1280, "light"),
    ("page-loop-dark", "/?loop=front-page", 1280, "dark"),
    ("page-loop-narrow", "/?loop=front-page", 390, "light"),
    ("page-members", "/?loop=front-page-dlinucb", 1280, "light"),
    ("page-scopes", "/?loop=for-you", 1280, "light"),
    ("page-overview", "/", 1280, "light"),
]


def wait_for_changes(page: Page, url: str, count: int) -> None:
    """Watch, live, until so many changes have been detected."""
    page.goto(url + "/?loop=front-page")
    page.wait_for_function(
        "count => document.querySelectorAll('#history li.restarted').length >= count", arg=count, timeout=600_000
    )


def save(shot: bytes, path: Path) -> None:
    """Write a picture in its 256 most frequent colours, so that areas of one colour keep exactly that colour."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    counts = Counter(image.getdata())
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour, _ in counts.most_common(256) for part in colour])
    image.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    """Run the demo and take the pictures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--url", help="of a demo that runs already")
    options.add_argument("--changes", type=int, default=3, help="to wait for")
    options.add_argument("--out", type=Path, default=IMAGES)
    given = options.parse_args()
    demo = None
    url = given.url
    if url is None:
        command = [sys.executable, "-c", "from driftbandit.cli import app; app()", "demo"]
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert demo.stdout is not None
        url = next(line for line in demo.stdout if line.startswith("http")).split("/  ")[0]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            wait_for_changes(browser.new_page(), url, given.changes)
            if demo is not None:
                time.sleep(30)  # what changed is plain only when the new taste has been learned
            for name, path, width, scheme in SHOTS:
                page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
                page.goto(url + path)
                page.wait_for_selector("#live.on")
                save(page.screenshot(full_page=True), given.out / f"{name}.png")
                page.close()
            browser.close()
    finally:
        if demo is not None:
            demo.terminate()
            demo.wait(30)


if __name__ == "__main__":
    main()
