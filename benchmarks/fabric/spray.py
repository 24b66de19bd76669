"""Flows that spray over planned sets of paths, random sets, one path and ECMP on the same packets, and cuts.

16 NICs of four leaves send a permutation over four spines, at 95 % of their rate. The lab is of routers whose packets
name their paths (`steering: srv6`). Cuts come at full load, in planned sets of 4; new sets and rates reach the NICs
150 ms after each. In the run of 20 cuts each cable returns before the next but one is cut. In the last run the NICs
have a port in each of two planes, and the cable of one port fails, without new rates. Needs root.

    python -m heddle.benchmarks spray      HEDDLE_SPRAY=5x8: five seeds of 8 s a mode
"""

import os
import random
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import FlowPlan
from heddle.mininet_topos.demo.spraying.figures import PAYLOAD
from heddle.mininet_topos.measure.flow_run import FlowChange, RunResult
from heddle.mininet_topos.routed.lab import RoutedLab
from tests.support.fabrics.path_sets import MODES, SPINES, Spines, four_by_four, permutation, spines_of
from tests.support.packets.plane_lab import PATHS, costs, planned, run_through_a_cut, touched_by, two_planes
from tests.support.packets.spray_lab import Act, bins_bps, new_sets, of_the_plan, requests
from tests.support.packets.spray_lab import run as run_sprayed

PLAN, SEEDS, SECONDS = "HEDDLE_SPRAY", 3, 4.0
ENDLESS_BYTES = 1_000_000_000
CUT_S, NEW_SETS_S = 1.6, 0.15
CUTS, PERIOD_S, DOWN_S = 20, 0.6, 0.9
LEAVES, BIN_S = 4, 0.2
PORT, PORT_CUT_S, PORT_SECONDS = "h1-n0/p0", 2.4, 6.0
Down = tuple[str, int]
"""A cable by its leaf, and its spine's number."""


class Outage(NamedTuple):
    """A cable that is down for a time of the run, in seconds."""

    cable: Down
    begin_s: float
    end_s: float


def run(out: TextIO) -> dict[str, Any]:
    """Measure the modes and the cuts, print their tables and return the figures."""
    seeds, seconds = _plan()
    with RoutedLab(four_by_four()) as lab:
        headings = ("seed", "slowest", "mean", "resent", "dropped", "late ms")
        print(f"{'set':12} {' '.join(f'{word:>8}' for word in headings)}", file=out)
        modes = [_mode(lab, mode, seed, seconds, out) for mode in MODES for seed in range(1, seeds + 1)]
        one = [Outage(("leaf1", 2), CUT_S, SECONDS + 1)]
        print("\none cut under full load; 200 ms bins beside the rates that paths and plan allow", file=out)
        cuts = [_cut(lab, one, seed, SECONDS, out) for seed in range(1, seeds + 1)]
        print(f"\n{CUTS} cuts, each cable back after {DOWN_S:g} s, one cut each {PERIOD_S:g} s", file=out)
        many = [_cut(lab, _outages(seed), seed, CUT_S + CUTS * PERIOD_S + DOWN_S, out) for seed in (1,)]
    planes = _planes(out)
    print(f"load {os.getloadavg()[0]:.1f}", file=out)
    return {"modes": modes, "cut": cuts, "cuts": many, "planes": planes, "load": os.getloadavg()[0]}


def _plan() -> tuple[int, float]:
    seeds, _, seconds = os.environ.get(PLAN, f"{SEEDS}x{SECONDS:g}").partition("x")
    return int(seeds), float(seconds)


def _planes(out: TextIO) -> dict[str, Any]:
    """Run flows in two planes through the failure of a port, and print what the flows have before and after it."""
    print(f"two planes, {PORT} fails", file=sys.stderr)
    fabric = two_planes(SPINES, LEAVES, 4)
    flows = planned(fabric)
    with RoutedLab(fabric) as lab:
        result = run_through_a_cut(lab, flows, PORT, PORT_CUT_S, PORT_SECONDS)
    found, halved = costs(fabric, flows, result, PORT_CUT_S, PORT_SECONDS), touched_by(fabric, flows, PORT)
    print(f"\ntwo planes, sets of {PATHS} in each; {PORT} fails: parts of the plan before and after", file=out)
    for name, nics in (("its flows", halved), ("other flows", found.keys() - halved)):
        before, after = zip(*(found[nic] for nic in sorted(nics)), strict=True)
        text = f"{min(before):.3f} to {max(before):.3f}, then {min(after):.3f} to {max(after):.3f}"
        print(f"{name:12} {len(nics):3}: {text}", file=out, flush=True)
    return {"port": PORT, "halved": sorted(halved), "parts": found, **_counts(result)}


def _mode(lab: RoutedLab, mode: str, seed: int, seconds: float, out: TextIO) -> dict[str, Any]:
    """Run one mode and print its row."""
    print(f"{mode}, seed {seed}", file=sys.stderr)
    flows = permutation(lab.fabric, seed)
    wanted = requests(lab.fabric, flows, spines_of(lab.fabric, flows, mode, seed), ENDLESS_BYTES)
    result = run_sprayed(lab, wanted, seconds)
    parts = of_the_plan(flows, result, seconds)
    row = {"mode": mode, "seed": seed, "slowest": min(parts), "mean": sum(parts) / len(parts), **_counts(result)}
    print(
        f"{mode:12} {seed:8} {row['slowest']:8.3f} {row['mean']:8.3f} {row['resent']:8} {row['dropped']:8} "
        f"{row['late_ms']:8.0f}", file=out, flush=True,
    )  # fmt: skip
    return row


def _counts(result: RunResult) -> dict[str, Any]:
    return {
        "resent": sum(flow.retransmitted_packets for flow in result.flows),
        "lost": sum(flow.lost_packets for flow in result.flows),
        "dropped": sum(result.queue_drops.values()),
        "late_ms": max(nic.max_late_ns for nic in result.nics.values()) / 1e6,
    }


def _outages(seed: int) -> list[Outage]:
    """Return the cuts of a run: no two at a time at one leaf or one spine, so that every flow keeps two paths."""
    chance, found = random.Random(seed), list[Outage]()
    for number in range(CUTS):
        before = {part for outage in found[-2:] for part in outage.cable}
        leaves = [f"leaf{leaf + 1}" for leaf in range(LEAVES) if f"leaf{leaf + 1}" not in before]
        spines = [spine for spine in range(SPINES) if spine not in before]
        begin_s = CUT_S + number * PERIOD_S
        found.append(Outage((chance.choice(leaves), chance.choice(spines)), begin_s, begin_s + DOWN_S))
    return found


def _cut(lab: RoutedLab, outages: Sequence[Outage], seed: int, seconds: float, out: TextIO) -> dict[str, Any]:
    """Run planned sets of 4 through outages and print what was lost and the bins."""
    print(f"{len(outages)} cuts, seed {seed}", file=sys.stderr)
    flows = permutation(lab.fabric, seed)
    spines = spines_of(lab.fabric, flows, "planned 4", seed)
    acts = [act for outage in outages for act in _acts(lab, flows, spines, outage, outages)]
    try:
        wanted = requests(lab.fabric, flows, spines, ENDLESS_BYTES)
        result = run_sprayed(lab, wanted, seconds, [act for act in acts if act.at_s < seconds])
    finally:
        for cable in {outage.cable for outage in outages}:
            lab.net.set_cable(_cable(lab.fabric, cable), up=True)
    bins = bins_bps(result)[: int(seconds / BIN_S)]
    shares = [rate / _bound_bps(lab.fabric, flows, outages, index) for index, rate in enumerate(bins)][1:]
    row = {"seed": seed, **_counts(result), "bins": bins, "of_bound": shares, "lowest": min(shares)}
    print(
        f"seed {seed}: {row['lost']} packets lost, {row['resent']} resent, {row['dropped']} dropped by queues; "
        f"lowest bin {row['lowest']:.3f}, {sum(share < 0.95 for share in shares)} of {len(shares)} below 0.95; "
        f"latest NIC {row['late_ms']:.0f} ms\n  Mbit/s: {' '.join(f'{rate / 1e6:.0f}' for rate in bins)}",
        file=out,
        flush=True,
    )
    return row


def _acts(
    lab: RoutedLab, flows: Sequence[FlowPlan], spines: Sequence[Spines], outage: Outage, outages: Sequence[Outage]
) -> list[Act]:
    """Return a cut, the new sets after it, and the repair with the sets after that."""

    def set_cable(up: bool) -> Mapping[str, FlowChange]:
        lab.net.set_cable(_cable(lab.fabric, outage.cable), up=up)
        return publish(outage.end_s) if up else {}

    def publish(at_s: float) -> Mapping[str, FlowChange]:
        down = [each.cable for each in outages if each.begin_s + NEW_SETS_S <= at_s + 1e-6 < each.end_s]
        return new_sets(lab.fabric, flows, spines, down)

    new_s = outage.begin_s + NEW_SETS_S
    return [
        Act(outage.begin_s, lambda: set_cable(False)),
        Act(new_s, lambda: publish(new_s)),
        Act(outage.end_s, lambda: set_cable(True)),
    ]


def _bound_bps(fabric: Fabric, flows: Sequence[FlowPlan], outages: Sequence[Outage], index: int) -> float:
    """Return the goodput that paths and plan allow in the worst moment of a bin of 200 ms.

    A repaired cable counts from the next bin on, when its paths are in the sets again.
    """
    begin_s, end_s = index * BIN_S, (index + 1) * BIN_S
    moments = [begin_s, end_s, *(outage.begin_s for outage in outages if begin_s <= outage.begin_s < end_s)]

    def allowed(at_s: float) -> float:
        down = {each.cable for each in outages if each.begin_s <= at_s < each.end_s + BIN_S}
        total = 0.0
        for flow in flows:
            leaves = {fabric.nic_by_id[nic].port.switch for nic in (flow.src_nic, flow.dst_nic)}
            lost = {spine for leaf, spine in down if leaf in leaves}
            total += flow.rate_bps * PAYLOAD * (SPINES - len(lost)) / SPINES
        return total

    return min(allowed(at_s) for at_s in moments)


def _cable(fabric: Fabric, down: Down) -> str:
    ends = down[0], f"spine{down[1] + 1}"
    (found,) = (cable.id for cable in fabric.cables if (cable.lower.switch, cable.upper.switch) == ends)
    return found
