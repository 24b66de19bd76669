"""Assemble the result of one run from the lab's counters and the prediction. Pure functions."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heddle.controller.model.fabric import Fabric, Role
from heddle.mininet_topos.demo.results.values import (
    Congestion,
    DemoFlow,
    DemoRun,
    LinkResult,
    Prediction,
    QueuePairResult,
    is_switch_link,
)
from heddle.mininet_topos.demo.results.verdict import check_legs, legs_of, shortened
from heddle.mininet_topos.measure import flow_run
from heddle.mininet_topos.traffic.queue_pairs import QueuePair, capacities, demands
from heddle.mininet_topos.traffic.workloads import PERMUTATION, WIRE_OVERHEAD_BYTES, Workload
from heddle.v1 import heddle_pb2 as pb

TOLERANCE = 1 + 1e-3
LATE_SHARE, LATE_NS, LATE_FRAMES = 0.01, 20_000_000, 12
"""A queue pair is late if it takes longer than its pacing rate explains, by more than the sum of this fraction, this
time and this many frame times of its slowest link: for the round trip, a packet or two queued, and scheduling."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """The controller's figures for a planned run: certificate and predicted completion."""

    certificate: Mapping[str, Any]
    predicted_completion_ns: int


def plan_figures(plan: pb.JobPlan) -> PlanFigures:
    """Return a plan's certificate, without the figures of path sets, and its predicted completion time."""
    fields = [field.name for field in plan.certificate.DESCRIPTOR.fields if field.message_type is None]
    certificate = {name: getattr(plan.certificate, name) for name in fields}
    return PlanFigures(certificate=certificate, predicted_completion_ns=plan.predicted_completion_ns)


def assemble(
    fabric: Fabric,
    workload: Workload,
    mode: str,
    pairs: Sequence[QueuePair],
    found: flow_run.RunResult,
    plan: PlanFigures | None,
    congestion: Congestion | None = None,
) -> DemoRun:
    """Return the result of one run as a first attempt; `congestion` is given for runs with the queue model."""
    measured = {flow.request.flow_id: flow for flow in found.flows}
    results = [_pair_result(fabric, pair, measured[pair.flow_id], found) for pair in pairs]
    return DemoRun(
        workload=workload.name,
        kind=workload.kind,
        seed=workload.seed,
        mode=mode,
        attempts=1,
        flows=_flows(fabric, workload, pairs, results),
        links=_links(fabric, pairs, results, found),
        predicted=_prediction(fabric, workload, pairs, plan),
        integrity=integrity_of(found, results, capacities(fabric), paced=congestion is None),
        completion_ns=found.duration_ns,
        certificate=None if plan is None else dict(plan.certificate),
        congestion=congestion,
    )


def _pair_result(
    fabric: Fabric, pair: QueuePair, measured: flow_run.FlowResult, found: flow_run.RunResult
) -> QueuePairResult:
    nics = fabric.nic_by_id

    def packets_on(port: int) -> Mapping[str, int]:
        return found.capture.links_of(flow_run.FiveTuple(nics[pair.src_nic].ip, nics[pair.dst_nic].ip, port))

    legs = legs_of(measured, {pair.udp_source_port: pair.links}, packets_on)
    end = found.duration_ns if measured.completed_ns is None else measured.completed_ns
    return QueuePairResult(
        flow_id=pair.flow_id,
        udp_source_port=pair.udp_source_port,
        reverse_udp_source_port=pair.reverse_udp_source_port,
        links=pair.links,
        share_bps=int(pair.share_bps),
        planned_rate_bps=pair.planned_rate_bps,
        pace_bps=pair.pace_bps,
        payload_bytes=measured.acked_bytes,
        tx_packets=measured.tx_packets,
        rx_packets=measured.rx_packets,
        retransmitted_packets=measured.retransmitted_packets,
        duration_ns=max(1, end),
        finished=measured.completed_ns is not None,
        faults=check_legs(legs, measured.tx_packets, measured.rx_packets),
    )


def _flows(
    fabric: Fabric,
    workload: Workload,
    pairs: Sequence[QueuePair],
    results: Sequence[QueuePairResult],
) -> tuple[DemoFlow, ...]:
    of_flow: dict[int, list[QueuePairResult]] = {}
    for pair, result in zip(pairs, results, strict=True):
        of_flow.setdefault(pair.flow, []).append(result)
    found = []
    for index, (flow, demand) in enumerate(zip(workload.flows, demands(fabric, workload), strict=True)):
        mine = of_flow[index]
        duration = max(pair.duration_ns for pair in mine)
        payload = sum(pair.payload_bytes for pair in mine)
        found.append(
            DemoFlow(
                src_rank=flow.src_rank,
                dst_rank=flow.dst_rank,
                src_nic=flow.src_nic,
                dst_nic=flow.dst_nic,
                payload_bytes=payload,
                duration_ns=duration,
                goodput_bps=payload * 8e9 / duration,
                demand_bps=demand,
                queue_pairs=tuple(mine),
            )
        )
    return tuple(found)


def _links(
    fabric: Fabric, pairs: Sequence[QueuePair], results: Sequence[QueuePairResult], found: flow_run.RunResult
) -> tuple[LinkResult, ...]:
    """Return every link that should carry packets or did; its load is the sum of its queue pairs' rates."""
    nics = fabric.nic_by_id
    loads = {link: _LinkLoad() for link in capacities(fabric)}
    for pair, result in zip(pairs, results, strict=True):
        stream = flow_run.FiveTuple(nics[pair.src_nic].ip, nics[pair.dst_nic].ip, pair.udp_source_port)
        for link in pair.links:
            loads[link].expect(pair)
        for link, packets in found.capture.links_of(stream).items():
            loads[link].count(result, packets)
    return tuple(
        LinkResult(
            id=link,
            capacity_bps=capacity,
            packets=load.packets,
            wire_bytes=round(load.wire_bytes),
            queue_pairs=load.queue_pairs,
            offered_utilisation=load.offered_bps / capacity,
            predicted_utilisation=load.predicted_bps / capacity,
            measured_utilisation=load.measured_bps / capacity,
        )
        for link, capacity in capacities(fabric).items()
        for load in (loads[link],)
        if load.queue_pairs or load.packets
    )


@dataclass(slots=True)
class _LinkLoad:
    """The sums of one link over its queue pairs."""

    packets: int = 0
    queue_pairs: int = 0
    wire_bytes: float = 0.0
    offered_bps: float = 0.0
    predicted_bps: float = 0.0
    measured_bps: float = 0.0

    def expect(self, pair: QueuePair) -> None:
        self.queue_pairs += 1
        self.offered_bps += pair.demand_bps
        self.predicted_bps += float(pair.share_bps)

    def count(self, result: QueuePairResult, packets: int) -> None:
        unique = max(1, result.tx_packets - result.retransmitted_packets)
        frame_bytes = result.payload_bytes / unique + WIRE_OVERHEAD_BYTES
        self.packets += packets
        self.wire_bytes += packets * frame_bytes
        self.measured_bps += packets * frame_bytes * 8e9 / result.duration_ns


def _prediction(fabric: Fabric, workload: Workload, pairs: Sequence[QueuePair], plan: PlanFigures | None) -> Prediction:
    """Predict a run by the fluid model: a flow completes with the slowest of its queue pairs."""
    nanoseconds: dict[int, float] = {}
    for pair in pairs:
        rate = float(pair.share_bps) if pair.planned_rate_bps is None else float(pair.planned_rate_bps)
        nanoseconds[pair.flow] = max(nanoseconds.get(pair.flow, 0.0), pair.size_bytes * 8e9 / rate)
    goodputs = [flow.size_bytes * 8e9 / nanoseconds[index] for index, flow in enumerate(workload.flows)]
    completion_ns = round(max(nanoseconds.values()))
    offered = offered_load(fabric, pairs)
    return Prediction(
        source="max-min" if plan is None else "certificate",
        max_link_utilisation=offered if plan is None else float(plan.certificate["max_link_utilisation"]),
        completion_ns=completion_ns if plan is None else plan.predicted_completion_ns,
        sum_goodput_bps=sum(goodputs),
        worst_goodput_bps=min(goodputs),
    )


def offered_load(fabric: Fabric, pairs: Sequence[QueuePair]) -> float:
    """Return the largest offered load, the sum of demands over capacity, of any link between switches."""
    load: dict[str, int] = {}
    for pair in pairs:
        for link in pair.links:
            load[link] = load.get(link, 0) + pair.demand_bps
    capacity = capacities(fabric)
    return max((bits / capacity[link] for link, bits in load.items() if is_switch_link(link)), default=0.0)


def collisions(fabric: Fabric, workload: Workload, pairs: Sequence[QueuePair], plan: PlanFigures) -> tuple[str, ...]:
    """Return a line for each way in which a permutation's plan is worse than it must be, or than it claims.

    Computed from the planned paths alone. Between two tiers with equal cables, flows of one rate fit on uplinks in
    equal numbers (equitable edge colouring), so a link need not carry more than its part, rounded up.
    """
    if workload.kind != PERMUTATION:
        return ()
    load, claimed = offered_load(fabric, pairs), float(plan.certificate["max_link_utilisation"])
    found = []
    if load > claimed * TOLERANCE:
        found.append(f"the certificate claims {claimed:.2f} for the fullest link, which by its paths is at {load:.2f}")
    least = _least_load(fabric, pairs)
    if least is not None and load > least * TOLERANCE:
        found.append(f"the plan loads a link with {load:.2f}, where {least:.2f} is possible")
    return tuple(found)


def _least_load(fabric: Fabric, pairs: Sequence[QueuePair]) -> float | None:
    """Return the least load of the fullest link for flows of one rate; None if that is not known for a fabric."""
    leaf_of = {nic.id: nic.port.switch for nic in fabric.nics}
    rates, demands_bps = {cable.capacity_bps for cable in fabric.cables}, {pair.demand_bps for pair in pairs}
    uplinks = {len(fabric.up_choices[leaf]) for leaf in leaf_of.values()}
    tiers = {switch.role for switch in fabric.switches}
    if not len(rates) == len(demands_bps) == len(uplinks) == 1 or Role.AGG in tiers or not fabric.failed.whole:
        return None
    ends = [(leaf_of[pair.src_nic], leaf_of[pair.dst_nic]) for pair in pairs]
    crossing = [(source, destination) for source, destination in ends if source != destination]
    flows = max((max(Counter(leaves).values()) for leaves in zip(*crossing, strict=True)), default=0)
    return math.ceil(flows / uplinks.pop()) * demands_bps.pop() / rates.pop()


def integrity_of(
    found: flow_run.RunResult,
    results: Sequence[QueuePairResult],
    capacity_bps: Mapping[str, int],
    *,
    paced: bool = True,
) -> flow_run.Integrity:
    """Return the lab's balance of the run, with the problems that only the demo can see added.

    Only `paced` queue pairs can be late: where marks and pauses set the rate, no completion time is expected.
    """
    unfinished = sum(flow.completed_ns is None for flow in found.flows)
    late = paced and sum(result.finished and is_late(result, capacity_bps) for result in results)
    counts = (
        (found.capture.ring_drops, "packets passed the capture uncounted (this machine was overloaded)"),
        (unfinished, "queue pairs did not finish in time"),
        (late, "queue pairs fell behind a pace that their links have room for (this machine was overloaded)"),
    )
    problems = (*found.integrity.problems, *flow_run.problem_lines(counts))
    return replace(found.integrity, problems=shortened(problems))


def is_late(result: QueuePairResult, capacity_bps: Mapping[str, int]) -> bool:
    """Return whether a queue pair took longer than its pacing rate explains.

    Pacing rates are max-min shares, which fit the links together; so this machine has delayed a late queue pair.
    """
    packets = max(1, result.tx_packets - result.retransmitted_packets)
    wire_bits = (result.payload_bytes + packets * WIRE_OVERHEAD_BYTES) * 8
    frame_ns = wire_bits / packets * 1e9 / min(capacity_bps[link] for link in result.links)
    allowed_ns = LATE_NS + LATE_FRAMES * frame_ns
    return result.duration_ns > wire_bits / result.pace_bps * 1e9 * (1 + LATE_SHARE) + allowed_ns
