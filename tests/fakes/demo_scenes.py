"""Scenes as a lab would play them, computed instead of measured."""

from collections.abc import Sequence
from typing import Any

from heddle.mininet_topos.demo.results.judgement import Attempt, Check
from heddle.mininet_topos.demo.results.scenes import SceneResult, SceneRun
from heddle.mininet_topos.host.machine import MachineUse
from heddle.mininet_topos.traffic.cast import Mark

ACT_NS = 1_000_000_000
MARKS = (
    Mark(at_ns=ACT_NS, kind="event", text="cable leaf1:1>spine1:1 is cut"),
    Mark(at_ns=ACT_NS + 10_000_000, kind="decision", text="fabric: leaf1:1>spine1:1 down"),
    Mark(at_ns=ACT_NS + 70_000_000, kind="decision", text="job: link leaf1:1>spine1:1 down; 2 flows moved"),
)
HOLDS = Check(text="all flows left the cable", holds=True, decision=True)
FAILS = Check(text="2 flows of 4 moved", holds=False, decision=True)
LATE = Check(text="at their rates after 2.95 s (limit 2 s)", holds=False)
QUIET = MachineUse(seconds=5.0, processors=2, others_processors=0.1, max_late_ns=3_000_000)
BUSY = MachineUse(seconds=5.0, processors=2, others_processors=1.4, max_late_ns=84_000_000, late_ns=400_000_000)
RATE_BPS = 20_000_000


def scene_run(mode: str, goodput_bps: Sequence[int], problems: tuple[str, ...] = ()) -> SceneRun:
    planned = mode == "planned"
    return SceneRun(
        mode=mode, attempts=1, goodput_bps=tuple(goodput_bps), marks=MARKS if planned else MARKS[:1],
        rate_bps=80_000_000 if planned else 0, moved_flows=2 if planned else 0, lost_packets=3,
        retransmitted_packets=9, problems=problems,
    )  # fmt: skip


def attempt(*checks: Check, machine: MachineUse = QUIET, **others: Any) -> Attempt:
    return Attempt(checks=checks, line_rate_bps=RATE_BPS, machine=machine, **others)


def scene(*checks: Check, problems: tuple[str, ...] = (), machine: MachineUse = QUIET) -> SceneResult:
    """Return a scene of three seconds: 80 Mbit/s, nothing for 0.2 s from the first second on, then 60."""
    checks = checks or (HOLDS,)
    planned = [80_000_000] * 20 + [0] * 4 + [60_000_000] * 36
    hashed = [40_000_000] * 20 + [10_000_000] * 20 + [30_000_000] * 20
    return SceneResult(
        kind="cut", title="A cable is cut", watched="all flows", act_ns=ACT_NS,
        runs=(scene_run("planned", planned, problems), scene_run("ecmp", hashed)), checks=checks,
        attempts=(attempt(*checks, problems=problems, machine=machine),),
    )  # fmt: skip
