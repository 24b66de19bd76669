"""Hogs for minutes: the medians of many runs, and hogs that take turns."""

from dataclasses import replace
from itertools import pairwise
from statistics import median

import pytest

from heddle.controller.model.plan import AdmissionWindow
from tests.e2e.lab.test_hog import (
    NEEDS,
    Ran,
    Stack,
    assert_a_window_at_most,
    assert_moves_lost_nothing,
    hog_over,
    hog_with_room,
    nic,
    run,
    running,
    submit,
    uplink,
)

pytestmark = [pytest.mark.e2e, pytest.mark.alone, *NEEDS]
REPEATS = 7
TURN_MS = 800
"""Three periods raise a condition; the fourth is for what follows."""
TURNS_S = 300.0
PAUSE_S = 5.0
"""The default of `congestion_pause_ms`."""
NOISE = 0.02
"""Two runs of the same traffic differ by up to so much."""


@pytest.mark.soak
@pytest.mark.parametrize("steering", ["SOURCE_PORT", "PIN"])
def test_the_medians_of_hogs_are_within_the_bounds(tmp_path, steering):
    named, rates = [], []
    for number in range(REPEATS):
        directory, leaf = tmp_path / str(number), number % 4 + 1
        directory.mkdir()
        with running(directory) as fresh:
            ran = hog_with_room(fresh, steering, leaf)
        (assert_moves_lost_nothing if steering == "SOURCE_PORT" else assert_a_window_at_most)(ran)
        named.append(ran.named_periods(ran.watch.port, nic(2 * leaf)) or float("inf"))
        rates.append(ran.recovered_periods(ran.planned[0]) or float("inf"))
    print(f"FIGURES hog {steering}: named after {sorted(named)} periods, rate again after {sorted(rates)}")
    assert median(named) <= 3
    assert median(rates) <= 5


def alternating(stack: Stack, seconds: float) -> Ran:
    """Let two hogs take turns on both paths of a planned flow, so that wherever it is, it meets one."""
    plan = submit(stack, "SOURCE_PORT", 0, (nic(1), nic(3)), (nic(5), nic(7)))
    mine = uplink(plan, nic(1))
    links = [mine, *(cable.up_link for cable in stack.lab.fabric.cables if cable.lower.switch == "leaf1")]
    hogs = [
        replace(
            hog_over(stack, link, nic(2), nic(target)), flow_id=f"hog-{slot}",
            window=AdmissionWindow(slot=slot, slots=2, slot_ns=TURN_MS * 1_000_000),
        )
        for slot, (link, target) in enumerate(zip(dict.fromkeys(links), (6, 8), strict=True))
    ]  # fmt: skip
    return run(stack, plan, mine.partition(">")[0], hogs, seconds)


@pytest.mark.soak
@pytest.mark.timeout(3 * TURNS_S)
def test_hogs_that_take_turns_on_both_paths_move_flows_once_per_pause_and_cost_no_goodput(tmp_path):
    """For five minutes with the loop, and as long without: the same traffic."""
    runs = {}
    for limit in ("any 16", "none"):
        directory = tmp_path / limit.replace(" ", "-")
        directory.mkdir()
        with running(directory, f"moves: {{congestion: {limit}}}\n") as fresh:
            runs[limit] = alternating(fresh, TURNS_S)
    acting, idle = runs["any 16"], runs["none"]
    generations = [((at - acting.start_unix_ns) / 1e9, plan.reason) for at, plan in acting.watch.generations[1:]]
    total, planned = (
        [sum(flow.delivered_bytes for flow in flows) for flows in both]
        for both in ((acting.result.flows, idle.result.flows), (acting.planned, idle.planned))
    )
    print(
        f"FIGURES turns of {TURN_MS} ms for {TURNS_S:g} s: bytes with and without the loop {total}, planned {planned}"
    )
    print("\n".join(f"  {at:.1f} s: {reason}" for at, reason in generations))
    moved = [(reason.split()[0], at) for at, reason in generations if "rolled back" not in reason]
    for port in {port for port, _ in moved}:
        assert all(later - earlier >= PAUSE_S for earlier, later in pairwise(at for name, at in moved if name == port))
    assert len(generations) <= 2 * len(moved)
    assert len(idle.watch.generations) == 1
    assert total[0] >= (1 - NOISE) * total[1]
    assert planned[0] >= (1 - NOISE) * planned[1]
