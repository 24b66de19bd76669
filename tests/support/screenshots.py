"""Take the dashboard's screenshots from a live lab: a hashed permutation, then a cut link under a storm. Needs root.

python -m tests.support.screenshots FOLDER        what `make screenshots` runs
"""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.browser import Browser

LAB = (sys.executable, "-m", "controller.cli.main", "lab")
NAME = "screenshots"
CUT = "leaf1:1>spine1:1"
BUSY = 0.5
SETTLE_S = 6
"""Rates are means over the last seconds, and a picture with half of them would show what never was."""


def read(url: str) -> str:
    """Return what the controller serves."""
    with urllib.request.urlopen(url) as reply:
        return str(reply.read().decode())


@contextmanager
def lab() -> Iterator[dict[str, Any]]:
    """Run `heddle lab fabric` while the context lasts, and yield its line of addresses."""
    process = subprocess.Popen((*LAB, "fabric", "--json", "--name", NAME), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def traffic(url: str, *words: str) -> Iterator[None]:
    """Run a workload while the context lasts, from when its bytes are measured."""
    process = subprocess.Popen((*LAB, "traffic", *words, "--name", NAME), stdout=subprocess.DEVNULL)
    try:
        while max(load or 0.0 for load in json.loads(read(url + "/api/state"))["links"]["utilisation"] or [0.0]) < BUSY:
            assert process.poll() is None
            time.sleep(0.5)
        time.sleep(SETTLE_S)
        yield
    finally:
        process.terminate()
        process.wait(60)


def main(folder: Path) -> None:
    """Write the pictures into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    browser = Browser()
    try:
        with lab() as ready:
            _pictures(browser, ready["url"].rstrip("/"), folder)
    finally:
        browser.close()


def _pictures(browser: Browser, url: str, folder: Path) -> None:
    with traffic(url, "permutation", "--seconds", "60", "--seed", "3"):
        _take(browser, url + "/fabric", folder / "dashboard-fabric.png")
        (job, *_) = json.loads(read(url + "/api/jobs"))["jobs"]
        _take(browser, f"{url}/jobs/{job['id']}", folder / "dashboard-job.png")
        subprocess.run((*LAB, "cut", CUT, "--name", NAME), check=True, stdout=subprocess.DEVNULL)
        time.sleep(SETTLE_S)
        _take(browser, url + "/fabric", folder / "dashboard-cut.png")
        subprocess.run((*LAB, "heal", CUT, "--name", NAME), check=True, stdout=subprocess.DEVNULL)
    with traffic(url, "incast", "--hashed", "--seconds", "60"):
        _take(browser, url + "/fabric", folder / "dashboard-incast.png", scheme="light")
        _take(browser, url + "/congestion", folder / "dashboard-congestion.png")
        _take(browser, url + "/matrix", folder / "dashboard-matrix.png")
    _take(browser, url + "/timeline", folder / "dashboard-timeline.png")


def _take(browser: Browser, url: str, path: Path, *, scheme: str = "dark") -> None:
    with browser.page(1280, 720, scheme=scheme) as page:
        page.open(url)
        page.wait_for("performance.getEntriesByName('first-picture').length > 0")
        page.wait_for("!document.querySelector('#view').innerText.includes('Loading')")
        time.sleep(1)
        page.screenshot(path)
        assert not page.errors, page.errors


if __name__ == "__main__":
    main(Path(sys.argv[1]))
