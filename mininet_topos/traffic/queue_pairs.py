"""Derive the queue pairs of a workload: source ports (random or planned), paths (traced or planned), and pacing rates.

The pacing rule is the same in every mode: a queue pair's max-min fair share of its path, times `HEADROOM`, which leaves
room for acknowledgements. A NIC with several senders counts with 95 % of its rate, as in the contract's planned rates,
so that a share equals the planned rate wherever no link is overloaded. Where a link is overloaded, other flows may use
what its flows leave, in every mode.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.measure.start_phases import start_offset_ns, start_phases
from heddle.mininet_topos.traffic.maxmin import max_min_shares
from heddle.mininet_topos.traffic.workloads import E_ECMP_QUEUE_PAIRS, PAYLOAD_BYTES, WIRE_OVERHEAD_BYTES, Workload
from heddle.v1 import heddle_pb2 as pb

HEADROOM = Fraction(99, 100)
INCAST_SHARE = Fraction(95, 100)
FRAME_BITS = (PAYLOAD_BYTES + WIRE_OVERHEAD_BYTES) * 8
PORTS = range(49152, 65536)
QUEUE_PAIRS = {"ecmp": 1, "e-ecmp": E_ECMP_QUEUE_PAIRS, "planned": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePair:
    """One connection: its part of flow number `flow` of the workload, its ports, and its path.

    `planned_rate_bps` is None in hashed modes. `start_fraction` is its start as a fraction of its packet interval.
    `fixed_bps` is the demand of a flow with a rate of its own (0: as much as it can get), `cap_bps` a pacing rate that
    replaces the one derived from the share.
    """

    flow: int
    flow_id: str
    src_nic: str
    dst_nic: str
    udp_source_port: int
    reverse_udp_source_port: int
    size_bytes: int
    demand_bps: int
    start_fraction: float = 0.0
    links: tuple[str, ...] = ()
    share_bps: Fraction = Fraction(0)
    planned_rate_bps: int | None = None
    fixed_bps: int = 0
    cap_bps: int | None = None

    @property
    def pace_bps(self) -> int:
        """Return the NIC's pacing rate, in bits of Ethernet frame per second."""
        return self.cap_bps or max(1, int(self.share_bps * HEADROOM))

    @property
    def request(self) -> FlowRequest:
        """Return the flow request for the lab."""
        return FlowRequest(
            flow_id=self.flow_id,
            src_nic=self.src_nic,
            dst_nic=self.dst_nic,
            udp_source_port=self.udp_source_port,
            reverse_udp_source_port=self.reverse_udp_source_port,
            rate_bps=self.pace_bps,
            size_bytes=self.size_bytes,
            start_offset_ns=start_offset_ns(self.start_fraction, FRAME_BITS, self.pace_bps),
        )


def hashed_pairs(fabric: Fabric, workload: Workload, mode: str) -> list[QueuePair]:
    """Return the queue pairs of a hashed mode, with random source ports that are distinct between the same two NICs."""
    draw = random.Random(f"ports/{workload.name}/{mode}")
    count = QUEUE_PAIRS[mode]
    return [
        QueuePair(
            flow=index,
            flow_id=f"{workload.job.job_id}/0/{flow.src_rank}-{flow.dst_rank}/{flow.part * count + number}",
            src_nic=flow.src_nic,
            dst_nic=flow.dst_nic,
            udp_source_port=port,
            reverse_udp_source_port=reverse_port,
            size_bytes=flow.size_bytes // count,
            demand_bps=demand // count,
            fixed_bps=flow.rate_bps // count,
        )
        for index, (flow, demand) in enumerate(zip(workload.flows, demands(fabric, workload), strict=True))
        for number, (port, reverse_port) in enumerate(
            zip(draw.sample(PORTS, count), draw.sample(PORTS, count), strict=True)
        )
    ]


def planned_pairs(workload: Workload, flows: Sequence[pb.FlowPlan]) -> list[QueuePair]:
    """Return the queue pairs of a plan; raises HeddleError if its flows are not exactly those of the workload."""
    index_of = {(flow.src_nic, flow.dst_nic): index for index, flow in enumerate(workload.flows)}
    found = [_planned_pair(workload, plan, index_of.get((plan.src_nic, plan.dst_nic))) for plan in flows]
    if sorted(pair.flow for pair in found) != list(range(len(workload.flows))):
        raise HeddleError(f"{workload.name}: the plan has {len(flows)} flows, the workload {len(workload.flows)}")
    return sorted(found, key=lambda pair: pair.flow)


def _planned_pair(workload: Workload, plan: pb.FlowPlan, index: int | None) -> QueuePair:
    if index is None:
        raise HeddleError(f"{workload.name}: the plan has flow {plan.flow_id}, which the workload has not")
    return QueuePair(
        flow=index,
        flow_id=plan.flow_id,
        src_nic=plan.src_nic,
        dst_nic=plan.dst_nic,
        udp_source_port=plan.udp_source_port,
        reverse_udp_source_port=plan.reverse_udp_source_port,
        size_bytes=workload.flows[index].size_bytes,
        demand_bps=plan.demand_bps,
        links=tuple(plan.links),
        planned_rate_bps=plan.rate_bps,
    )


def demands(fabric: Fabric, workload: Workload) -> list[int]:
    """Return the demand of each flow in bit/s: its own rate, else min(C_src / flows out, C_dst / flows in).

    Flows with a rate of their own are not counted in these numbers of flows, as in the contract.
    """
    out: dict[str, int] = {}
    into: dict[str, int] = {}
    for flow in workload.flows:
        if flow.rate_bps:
            continue
        out[flow.src_nic] = out.get(flow.src_nic, 0) + 1
        into[flow.dst_nic] = into.get(flow.dst_nic, 0) + 1
    rate = {nic.id: nic.capacity_bps for nic in fabric.nics}
    return [
        flow.rate_bps or min(rate[flow.src_nic] // out[flow.src_nic], rate[flow.dst_nic] // into[flow.dst_nic])
        for flow in workload.flows
    ]


def with_shares(fabric: Fabric, pairs: Sequence[QueuePair]) -> list[QueuePair]:
    """Return the queue pairs with max-min shares and start phases; the links of each must be known."""
    shares = max_min_shares([pair.links for pair in pairs], usable_capacities(fabric, pairs))
    return with_phases([replace(pair, share_bps=share) for pair, share in zip(pairs, shares, strict=True)])


def with_rates(fabric: Fabric, pairs: Sequence[QueuePair]) -> list[QueuePair]:
    """Return the queue pairs with start phases, paced at the plan's rates, or at their full demand in hashed modes.

    A share is the expected rate of each: max-min fair on its path, and at most its demand.
    """
    planned = all(pair.planned_rate_bps is not None for pair in pairs)
    line_bps = {nic.id: nic.capacity_bps for nic in fabric.nics}
    caps = [pair.planned_rate_bps or pair.fixed_bps or line_bps[pair.src_nic] for pair in pairs]
    available = dict(usable_capacities(fabric, pairs) if planned else capacities(fabric))
    paths = []
    for pair, cap in zip(pairs, caps, strict=True):
        own = f"demand of {pair.flow_id}"
        available[own] = cap
        paths.append((*pair.links, own))
    shares = max_min_shares(paths, available)
    ready = [replace(pair, cap_bps=cap, share_bps=share) for pair, cap, share in zip(pairs, caps, shares, strict=True)]
    return with_phases(ready)


def with_phases(pairs: Sequence[QueuePair]) -> list[QueuePair]:
    """Return the queue pairs with their start phases."""
    phases = start_phases([(pair.src_nic, pair.dst_nic) for pair in pairs])
    return [replace(pair, start_fraction=phase) for pair, phase in zip(pairs, phases, strict=True)]


def capacities(fabric: Fabric) -> dict[str, int]:
    """Return the capacity of every directed link in bit/s."""
    found = {link: cable.capacity_bps for cable in fabric.cables for link in (cable.up_link, cable.down_link)}
    found |= {link: nic.capacity_bps for nic in fabric.nics for link in (nic.up_link, nic.down_link)}
    return found


def usable_capacities(fabric: Fabric, pairs: Sequence[QueuePair]) -> Mapping[str, int]:
    """Return the usable capacity of each link: all of it, but 95 % towards a NIC with several senders."""
    usable = capacities(fabric)
    for nic in fabric.nics:
        senders = [pair for pair in pairs if pair.dst_nic == nic.id]
        limit_bps = int(nic.capacity_bps * INCAST_SHARE)
        if len({pair.src_nic for pair in senders}) > 1 and sum(pair.demand_bps for pair in senders) > limit_bps:
            usable[nic.down_link] = limit_bps
    return usable
