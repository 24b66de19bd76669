"""The flows of running jobs: read from plans as columns, and checked."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import FlowPlan, JobFlows
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Topology
from heddle.controller.planner.ground.expand import expand, with_demands
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.paths import Paths, joined_paths
from heddle.controller.planner.ground.streams import Streams, tuple_keys

Placed = tuple[JobRequest, JobFlows]
"""A running job with the flows of its plan."""


def is_same(known: Placed | None, placed: Placed) -> bool:
    """Return whether a known job is this one with these paths and rates; a plan that changes them has another table."""
    return known is not None and known[0] is placed[0] and known[1].flows is placed[1].flows


def with_guards(streams: Streams, topology: Topology, kept: Sequence[Placed]) -> Streams:
    """Append the guards of running jobs to their streams.

    A guard is an exact pin and outlives the flow that it protects, so later flows with its tuple follow it.
    """
    guards = [guard for _, job in kept for guard in job.guards]
    if not guards:
        return streams
    nics = topology.nic_index
    source = np.array([nics[guard.src_nic] for guard in guards], dtype=np.int64)
    target = np.array([nics[guard.dst_nic] for guard in guards], dtype=np.int64)
    port = np.array([guard.udp_source_port for guard in guards], dtype=np.int64)
    none = np.zeros(len(guards), dtype=np.bool_)
    return Streams(
        source=np.concatenate((streams.source, source)),
        target=np.concatenate((streams.target, target)),
        port=np.concatenate((streams.port, port)),
        hops=np.concatenate((streams.hops, _hops_of(topology, [guard.links for guard in guards]))),
        pair=np.concatenate((streams.pair, tuple_keys(topology, source, target, 0))),
        key=np.concatenate((streams.key, tuple_keys(topology, source, target, port))),
        by_addresses=np.concatenate((streams.by_addresses, none)),
        fixed=np.concatenate((streams.fixed, ~none)),
        data=np.concatenate((streams.data, none)),
    )


def paths_of(topology: Topology, number: int, placed: Placed) -> Paths:
    """Return a running job's paths as arrays; its flows may be a `FlowTable` or flow plans read from a journal."""
    request, job = placed
    table = job.flows
    if isinstance(table, FlowTable) and table.topology is topology.built and table.request is request:
        return replace(table.paths, flows=table.flows.as_job(number))
    flows = expand(topology, (request,), first_job=number)
    if len(flows) != len(table):
        raise ValueError(f"job {request.job_id} is kept with {len(table)} flows, its request has {len(flows)}")
    if topology.ports_of_rank is not None:
        flows = with_demands(flows, np.array([plan.demand_bps for plan in table], dtype=np.int64))
    ports, reverse_ports = np.empty(len(flows), dtype=np.int64), np.empty(len(flows), dtype=np.int64)
    for row, plan in enumerate(table):
        ports[row], reverse_ports[row] = plan.udp_source_port, plan.reverse_udp_source_port
    return Paths(
        flows=flows,
        hops=_hops_of(topology, [plan.links for plan in table]),
        ports=ports,
        reverse_hops=_hops_of(topology, [plan.reverse_links for plan in table]),
        reverse_ports=reverse_ports,
    )


def placed_paths(topology: Topology, kept: Sequence[Placed]) -> Paths:
    """Return the paths of running jobs, joined in their order."""
    return joined_paths([paths_of(topology, number, placed) for number, placed in enumerate(kept)], topology)


def _hops_of(topology: Topology, paths: Sequence[Sequence[str]]) -> Ints:
    """Return the links between switches of paths given by link ids, a row each."""
    hops = np.full((len(paths), MAX_HOPS), NO_LINK, dtype=np.int64)
    for row, links in enumerate(paths):
        inner = [topology.link_index[link] for link in links[1:-1]]
        hops[row, : len(inner)] = inner
    return hops


class Misplaced(NamedTuple):
    """The first flow of a kept job that does not fit its request or the fabric, the field, and why."""

    flow: int
    field: str
    why: str


def misplaced(topology: Topology, request: JobRequest, plans: Sequence[FlowPlan]) -> Misplaced | None:
    """Check that flow plans are the flows of a request, on paths of the fabric; failed links count as links."""
    flows = expand(topology, (request,))
    ids = [f"{request.job_id}/{c}/{a}-{b}/{q}" for c, a, b, q in zip(
        flows.collective.tolist(), flows.src_rank.tolist(), flows.dst_rank.tolist(), flows.queue_pair.tolist(),
        strict=True,
    )]  # fmt: skip
    for row, plan in enumerate(plans[: len(ids)]):
        source, target = int(flows.src_nic[row]), int(flows.dst_nic[row])
        wanted = {
            "flow_id": ids[row], "src_nic": topology.nic_ids[source], "dst_nic": topology.nic_ids[target],
            "demand_bps": int(flows.demand_bps[row]),
        }  # fmt: skip
        if topology.ports_of_rank is not None:
            del wanted["demand_bps"]  # it depends on what had failed
        for field, value in wanted.items():
            if getattr(plan, field) != value:
                return Misplaced(row, field, f"is {getattr(plan, field)!r}, by the request it is {value!r}")
        for field, ends in (("links", (source, target)), ("reverse_links", (target, source))):
            if (why := _broken(topology, getattr(plan, field), *ends)) is not None:
                return Misplaced(row, field, why)
    if len(plans) != len(ids):
        return Misplaced(min(len(plans), len(ids)), "flow_id", f"{len(plans)} flows, by the request {len(ids)}")
    return None


def _broken(topology: Topology, links: Sequence[str], source: int, target: int) -> str | None:
    """Return why links are no path between two NICs, up, then down, past no switch twice; None for a path."""
    unknown = next((link for link in links if link not in topology.link_index), None)
    if unknown is not None:
        return f"no link {unknown!r} in this fabric"
    hops, first = [topology.link_index[link] for link in links], topology.first_nic_link
    ends = (first + source, first + topology.nics + target)
    walked, falling = [int(topology.nic_leaf[source])], False
    connected = len(hops) >= 2 and (hops[0], hops[-1]) == ends and all(hop < first for hop in hops[1:-1])
    for hop in hops[1:-1] if connected else ():
        cable, down = hop % topology.cables, hop >= topology.cables
        below, above = int(topology.lower[cable]), int(topology.upper[cable])
        connected = connected and walked[-1] == (above if down else below) and (down or not falling)
        walked.append(below if down else above)
        falling = down
    connected = connected and walked[-1] == int(topology.nic_leaf[target]) and len(set(walked)) == len(walked)
    return None if connected else f"no path from {topology.nic_ids[source]} to {topology.nic_ids[target]}"
