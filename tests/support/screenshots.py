"""Take the dashboard's screenshots from a live lab: a hashed permutation, then a cut link under a storm. Needs root.

python -m tests.support.screenshots FOLDER        what `make screenshots` runs
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes.browser import Browser
from tests.support.processes.live_lab import LAB, lab, read, traffic

NAME = "screenshots"
CUT = "leaf1:1>spine1:1"
PHONE = (390, 844)
SETTLE_S = 6
"""Rates are means over the last seconds, and a picture with half of them would show what never was."""


@contextmanager
def settled(url: str, *words: str) -> Iterator[None]:
    """Run a workload while the context lasts, from when the rates of its links are its own."""
    with traffic(NAME, url, *words):
        time.sleep(SETTLE_S)
        yield


def main(folder: Path) -> None:
    """Write the pictures into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    browser = Browser()
    try:
        with lab(NAME) as ready:
            _pictures(browser, ready["url"].rstrip("/"), folder)
    finally:
        browser.close()


def _pictures(browser: Browser, url: str, folder: Path) -> None:
    with settled(url, "permutation", "--seconds", "300", "--seed", "3"):
        _take(browser, url + "/fabric", folder / "dashboard-fabric.png")
        (job, *_) = json.loads(read(url + "/api/jobs"))["jobs"]
        _take(browser, f"{url}/jobs/{job['id']}", folder / "dashboard-job.png")
        subprocess.run((*LAB, "cut", CUT, "--name", NAME), check=True, stdout=subprocess.DEVNULL)
        time.sleep(SETTLE_S)
        cut_ms = round(time.time() * 1e3)
        _take(browser, url + "/fabric", folder / "dashboard-cut.png")
        _take(browser, url + "/fabric", folder / "dashboard-phone.png", size=PHONE)
        subprocess.run((*LAB, "heal", CUT, "--name", NAME), check=True, stdout=subprocess.DEVNULL)
    with settled(url, "incast", "--hashed", "--seconds", "300"):
        _take(browser, url + "/fabric", folder / "dashboard-incast.png", scheme="light")
        _take(browser, url + "/congestion", folder / "dashboard-congestion.png")
        _take(browser, url + "/matrix", folder / "dashboard-matrix.png")
    _take(browser, url + "/timeline", folder / "dashboard-timeline.png")
    _take(browser, f"{url}/fabric?at_ms={cut_ms}", folder / "dashboard-past.png")


def _take(browser: Browser, url: str, path: Path, *, scheme: str = "dark", size: tuple[int, int] = (1280, 720)) -> None:
    with browser.page(*size, scheme=scheme) as page:
        page.open(url)
        page.wait_for("performance.getEntriesByName('first-picture').length > 0")
        page.wait_for("!document.querySelector('#view').innerText.includes('Loading')")
        time.sleep(1)
        page.screenshot(path)
        assert not page.errors, page.errors


if __name__ == "__main__":
    main(Path(sys.argv[1]))
