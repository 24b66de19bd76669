"""Measure how soon the page shows a cable that is cut in a live lab: from the cut to the changed page in Chromium.

The page's own observer notes the time at which both the text and the cross in the picture are there. Needs root, Open
vSwitch and Chromium; without them it is left out.
"""

import json
import os
import statistics
import threading
import time
from typing import Any, TextIO

from heddle.mininet_topos.playground.client import call, find_lab
from heddle.mininet_topos.switches.queue_model import why_unavailable
from tests.support.processes.browser import Browser, Page, chromium
from tests.support.processes.live_lab import lab, traffic

NAME = "page-cut"
CUTS, QUICK_CUTS = 20, 3
CABLES = ("leaf1:1>spine1:1", "leaf2:2>spine2:2", "leaf3:1>spine1:3", "leaf4:2>spine2:4")
MAX_S, MAX_START_S = 1.0, 20.0
SEEN = """new Promise((resolve) => {{
  const seen = () => {{
    const said = document.querySelector('#attention')?.textContent.includes({text});
    if (said && document.querySelector('.mark path.down')) {{ observer.disconnect(); resolve(Date.now()); }}
  }};
  const observer = new MutationObserver(seen);
  observer.observe(document.body, {{subtree: true, childList: true, characterData: true, attributes: true}});
  seen();
}})"""
MOVING = "[...document.querySelectorAll('.half')].some((half) => /heat-[3-5]/.test(half.getAttribute('class')))"


def run(out: TextIO, quick: bool = False) -> dict[str, Any]:
    """Measure, print a line for each figure, and return the figures; {} where something is missing."""
    if missing := _missing():
        print(f"a cut cable on the page: left out, {missing}", file=out)
        return {}
    browser, began_s = Browser(), time.monotonic()
    try:
        with lab(NAME) as ready, browser.page() as page:
            url = ready["url"].rstrip("/")
            with traffic(NAME, url, "permutation", "--seconds", "600"):
                page.open(url + "/fabric?show=measured")
                page.wait_for(MOVING)
                moving_s = time.monotonic() - began_s
                cuts = [_cut(page, CABLES[at % len(CABLES)]) for at in range(QUICK_CUTS if quick else CUTS)]
    finally:
        browser.close()
    known_ms, seen_ms = (sorted(column) for column in zip(*cuts, strict=True))
    _print(out, moving_s, known_ms, seen_ms)
    return {"cut": {"known_ms": known_ms, "on_page_ms": seen_ms, "moving_figures_s": moving_s}}


def _missing() -> str:
    if os.geteuid() != 0:
        return "it needs root"
    return "no Chromium here" if chromium() is None else why_unavailable() or ""


def _cut(page: Page, cable: str) -> tuple[float, float]:
    """Cut a cable and repair it; return after how many milliseconds the controller and the page knew."""
    near, far = cable.split(">")
    text = f"Link {near} – {far} is down"
    seen: list[float] = []
    script = SEEN.format(text=json.dumps(text))
    watching = threading.Thread(target=lambda: seen.append(float(page.run(script))))
    watching.start()
    time.sleep(0.5)  # the observer is there
    cut_ms = time.time() * 1e3
    known_ms = float(call(find_lab(NAME), {"op": "cut", "link": cable})["known_after_ms"])
    watching.join()
    call(find_lab(NAME), {"op": "heal", "link": cable})
    page.wait_for(f"!document.querySelector('#attention').textContent.includes({json.dumps(text)})")
    return known_ms, seen[0] - cut_ms


def _print(out: TextIO, moving_s: float, known_ms: list[float], seen_ms: list[float]) -> None:
    verdict = "ok" if seen_ms[-1] < 1e3 * MAX_S else "MISSED"
    print(f"{len(seen_ms)} cables cut in a live lab under load, ms from the cut (median, largest):", file=out)
    print(f"  known to the controller {statistics.median(known_ms):6.0f} {known_ms[-1]:6.0f}", file=out)
    print(f"  on the page             {statistics.median(seen_ms):6.0f} {seen_ms[-1]:6.0f}  {verdict}", file=out)
    verdict = "ok" if moving_s < MAX_START_S else "MISSED"
    print(f"from nothing to a page with moving figures: {moving_s:.1f} s  {verdict}", file=out)
