"""Two planes: a permutation whose flows have a sprayed part in each, and what the cable of a NIC's port costs them."""

from collections.abc import Mapping, Sequence
from statistics import median

from heddle.controller.api.path_sets import every_path
from heddle.controller.api.translate import flow_to
from heddle.controller.config import parse_fabric
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from heddle.controller.model.plan import Plan
from heddle.controller.model.srv6 import sids_of
from heddle.controller.planner.solve import solve
from heddle.mininet_topos.demo.spraying.figures import PAYLOAD
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS, FlowChange, RunResult
from heddle.mininet_topos.routed.lab import RoutedLab
from heddle.mininet_topos.traffic.cast import PACE
from heddle.mininet_topos.traffic.stage import Stage
from heddle.v1 import heddle_pb2 as pb
from tests.support.packets.spray_lab import PERIODS_PER_BIN, Act, run

SHAPE = "kind: spine_leaf, spines: {}, leaves: {}, hosts_per_leaf: {}, gbps: 0.01, planes: 2"
PATHS = 2
BIN_S = 0.2
SETTLED_S = 0.4
"""After the start, and after a cut, this much is left out."""


def two_planes(spines: int, leaves: int, hosts: int) -> Fabric:
    """Return a fabric of two planes whose NICs have a port of 10 Mbit/s in each; packets name their paths."""
    shape = SHAPE.format(spines, leaves, hosts)
    return parse_fabric(f"version: 1\nsteering: srv6\ngenerate: {{{shape}}}\n", "two planes")


def planned(fabric: Fabric) -> list[pb.FlowPlan]:
    """Plan that each NIC sends to the NIC at its place of the next leaf, as fast as both planes carry it."""
    ranks, leaves = tuple(fabric.ports_of), len({nic.port.switch for nic in fabric.nics}) // 2
    step = len(ranks) // leaves
    pairs = tuple(RankPair(src_rank=src, dst_rank=(src + step) % len(ranks)) for src in range(len(ranks)))
    sent = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1_000_000, pairs=pairs, paths_per_flow=PATHS)
    plan = solve(fabric, (JobRequest(job_id="planes", ranks=ranks, collectives=(sent,)),), health=Health())
    assert isinstance(plan, Plan)
    write, sids = every_path(fabric), sids_of(fabric)
    return [flow_to(flow, sids=sids, write=write) for flow in plan.jobs[0].flows]


def run_through_a_cut(
    lab: RoutedLab, flows: Sequence[pb.FlowPlan], port: str, cut_s: float, seconds: float
) -> RunResult:
    """Run the flows; the cable of a NIC's port is down from `cut_s` on. It is repaired after the run."""

    def cut() -> Mapping[str, FlowChange]:
        lab.net.set_cable(port, up=False)
        return {}

    requests = Stage(lab, None, seconds).planned(pb.JobPlan(flows=flows))
    try:
        return run(lab, requests, seconds, [Act(cut_s, cut)])
    finally:
        lab.net.set_cable(port, up=True)


def parts_of_the_plan(
    fabric: Fabric, flows: Sequence[pb.FlowPlan], result: RunResult, begin_s: float, end_s: float
) -> dict[str, float]:
    """Return by sending NIC the goodput of its flow in a time of the run, as a part of its plan in all planes.

    It is that of the median bin of 200 ms: of a machine that stands still now and then, few bins are short.
    """
    bins = [number * PERIODS_PER_BIN for number in range(round(begin_s / BIN_S), round(end_s / BIN_S))]
    sent: dict[str, list[int]] = {}
    wanted: dict[str, float] = {}
    for flow, done in zip(flows, result.flows, strict=True):
        nic = fabric.nic_by_id[flow.src_nic].rank
        mine = sent.setdefault(nic, [0] * len(bins))
        for number, first in enumerate(bins):
            mine[number] += sum(done.goodput_bytes[first : first + PERIODS_PER_BIN])
        wanted[nic] = wanted.get(nic, 0.0) + flow.rate_bps * PACE * PAYLOAD
    bin_s = PERIODS_PER_BIN * GOODPUT_PERIOD_NS / 1e9
    return {nic: median(mine) * 8 / bin_s / wanted[nic] for nic, mine in sent.items()}


def costs(
    fabric: Fabric, flows: Sequence[pb.FlowPlan], result: RunResult, cut_s: float, seconds: float
) -> dict[str, tuple[float, float]]:
    """Return by sending NIC the part of its plan that its flow has before the cut, and after it."""
    before = parts_of_the_plan(fabric, flows, result, SETTLED_S, cut_s)
    after = parts_of_the_plan(fabric, flows, result, cut_s + SETTLED_S, seconds)
    return {nic: (before[nic], after[nic]) for nic in before}


def touched_by(fabric: Fabric, flows: Sequence[pb.FlowPlan], port: str) -> set[str]:
    """Return the sending NICs of the flows that a port of a NIC sends or receives."""
    return {fabric.nic_by_id[flow.src_nic].rank for flow in flows if port in (flow.src_nic, flow.dst_nic)}
