"""Scenes as a lab would play them, computed instead of measured."""

from collections.abc import Sequence

from heddle.mininet_topos.demo.results.scenes import Check, SceneResult, SceneRun
from heddle.mininet_topos.traffic.cast import Mark

ACT_NS = 1_000_000_000
MARKS = (
    Mark(at_ns=ACT_NS, kind="event", text="cable leaf1:1>spine1:1 is cut"),
    Mark(at_ns=ACT_NS + 10_000_000, kind="decision", text="fabric: leaf1:1>spine1:1 down"),
    Mark(at_ns=ACT_NS + 70_000_000, kind="decision", text="job: link leaf1:1>spine1:1 down; 2 flows moved"),
)
HOLDS, FAILS = Check(text="all flows left the cable", holds=True), Check(text="2 flows of 4 moved", holds=False)


def scene_run(mode: str, goodput_bps: Sequence[int], problems: tuple[str, ...] = ()) -> SceneRun:
    planned = mode == "planned"
    return SceneRun(
        mode=mode, attempts=1, goodput_bps=tuple(goodput_bps), marks=MARKS if planned else MARKS[:1],
        rate_bps=80_000_000 if planned else 0, moved_flows=2 if planned else 0, lost_packets=3,
        retransmitted_packets=9, problems=problems,
    )  # fmt: skip


def scene(*checks: Check, problems: tuple[str, ...] = ()) -> SceneResult:
    """Return a scene of three seconds: 80 Mbit/s, nothing for 0.2 s from the first second on, then 60."""
    planned = [80_000_000] * 20 + [0] * 4 + [60_000_000] * 36
    hashed = [40_000_000] * 20 + [10_000_000] * 20 + [30_000_000] * 20
    return SceneResult(
        kind="cut", title="A cable is cut", watched="all flows", act_ns=ACT_NS,
        runs=(scene_run("planned", planned, problems), scene_run("ecmp", hashed)), checks=checks or (HOLDS,),
    )  # fmt: skip
