"""The page on a large fabric: 64 spines, 128 leaves, 8,192 NICs and 10,000 flows, a new state each second.

A site of the tests serves drawn loads, so that only the page is measured: the time to the first picture, the busy share
of its main thread, and its memory. Chromium has no GPU here; with one, drawing costs less. Needs a source tree.
"""

import time
from typing import Any, NamedTuple, TextIO

from heddle.controller.config.load import parse_fabric
from tests.fakes.dashboard_site import DashboardSite, drawn_state, fabric_document
from tests.support.processes.browser import Browser, Page

FABRIC = (
    "version: 1\nname: large\ngenerate: {kind: spine_leaf, spines: 64, leaves: 128, hosts_per_leaf: 64, gbps: 400}\n"
)
JOBS, FLOWS = 100, 10_000
STATES = 5
"""Drawn states, published in turn: drawing one takes longer than the second that it is shown."""
PAINTED = "!!document.querySelector('.pane canvas, .heat canvas, .list tbody tr') && performance.now()"
VIEWS = ("/fabric", "/matrix", "/jobs")
MAX_PAINT_S, MAX_BUSY = 2.0, 0.30
SETTLE_S = 3
MEMORY_GROWTH_MIB = 10.0


class Measured(NamedTuple):
    """What one view cost."""

    first_paint_s: float
    busy_share: float
    memory_first_mib: float
    memory_last_mib: float
    updates: int


def run(out: TextIO, *, seconds: float = 20) -> dict[str, Any]:
    """Measure each view for `seconds`; the page's memory is compared between both halves."""
    document = fabric_document(parse_fabric(FABRIC, "large"))
    states = [drawn_state(document, seed, jobs=JOBS, flows=FLOWS) for seed in range(STATES)]
    site = DashboardSite(_documents(document, states[0]))
    for path in site.documents:  # as the controller does, which renders a document before it is requested
        site.body(path, "")
    browser = Browser()
    try:
        found = {view: _measured(browser, site, states, view, seconds) for view in VIEWS}
    finally:
        browser.close()
        site.close()
    _print(out, found, seconds)
    return {view: measured._asdict() for view, measured in found.items()}


def _documents(fabric: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    return {
        "/healthz": "ok", "/api/fabric": fabric, "/api/state": state,
        "/api/jobs": {"jobs": [{**job, "reason": ""} for job in state["jobs"]]},
        "/api/timeline": {"events": [], "recorded_from_ms": state["at_ms"] - 3_600_000},
        "/api/session": {"user": None, "may_act": False, "csrf": None, "login": False},
    }  # fmt: skip


def _measured(
    browser: Browser, site: DashboardSite, states: list[dict[str, Any]], view: str, seconds: float
) -> Measured:
    with browser.page() as page:
        page.open(site.url + view)
        first_paint_s = page.wait_for(PAINTED) / 1000
        # The script's clock starts with the navigation; the poll may have been late, the mark of the page is not.
        first_paint_s = min(
            first_paint_s, page.run("performance.getEntriesByName('first-picture')[0]?.startTime ?? 1e9") / 1000
        )
        time.sleep(SETTLE_S)
        before, started, memory = page.metrics(), time.monotonic(), []
        updates = 0
        while (left := started + seconds - time.monotonic()) > 0:
            site.publish(
                "state", {**states[updates % len(states)], "at_ms": int(time.time() * 1000), "sequence": updates}
            )
            updates += 1
            if updates in (1, seconds // 4, 3 * seconds // 4, seconds - 1):  # a collection costs time: few of them
                memory.append(_memory_mib(page))
            time.sleep(max(0.0, min(left, started + updates - time.monotonic())))
        after, took = page.metrics(), time.monotonic() - started
        busy = (after["TaskDuration"] - before["TaskDuration"]) / took
        half = len(memory) // 2
        return Measured(first_paint_s, busy, min(memory[:half]), min(memory[half:]), updates)


def _memory_mib(page: Page) -> float:
    """Return what the page's scripts hold after a collection."""
    page.send("HeapProfiler.collectGarbage")
    return float(page.run("performance.memory.usedJSHeapSize")) / 2**20


def _print(out: TextIO, found: dict[str, Measured], seconds: float) -> None:
    print(f"64 spines, 128 leaves, 8,192 NICs, {FLOWS:,} flows; a state each second for {seconds:g} s a view", file=out)
    print(f"{'view':10} {'first paint s':>14} {'main thread busy':>17} {'memory MiB':>16} {'updates':>8}", file=out)
    for view, row in found.items():
        memory = f"{row.memory_first_mib:.1f} -> {row.memory_last_mib:.1f}"
        good = row.first_paint_s < MAX_PAINT_S and row.busy_share < MAX_BUSY
        flat = row.memory_last_mib - row.memory_first_mib < MEMORY_GROWTH_MIB
        print(
            f"{view:10} {row.first_paint_s:14.2f} {100 * row.busy_share:15.1f} % {memory:>16} {row.updates:8}"
            f"  {'ok' if good and flat else 'MISSED'}",
            file=out,
        )
