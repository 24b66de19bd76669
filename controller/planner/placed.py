"""Flows with their paths and ports as columns, for running jobs and for new ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.job import JobRequest
from controller.model.plan import JobFlows
from controller.planner.clos import MAX_HOPS, NO_LINK, Topology
from controller.planner.expand import Flows, expand, joined
from controller.planner.flow_table import FlowTable, join_hops
from controller.planner.jit import Ints
from controller.planner.ports.pins import Streams, tuple_keys

Placed = tuple[JobRequest, JobFlows]
"""A running job with the flows of its plan."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paths:
    """Flows with their paths and ports; all columns have a row per flow."""

    flows: Flows
    hops: Ints
    ports: Ints
    reverse_hops: Ints
    reverse_ports: Ints

    def streams(self, topology: Topology) -> Streams:
        """Return the streams of these flows in both directions."""
        return Streams.of(topology, self.flows, self.ports, self.hops, self.reverse_ports, self.reverse_hops)


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
    if isinstance(table, FlowTable) and table.topology is topology and table.request is request:
        return Paths(
            flows=table.flows.as_job(number), hops=table.hops, ports=table.ports, reverse_hops=table.reverse_hops,
            reverse_ports=table.reverse_ports,
        )  # fmt: skip
    flows = expand(topology, (request,), first_job=number)
    if len(flows) != len(table):
        raise ValueError(f"job {request.job_id} is kept with {len(table)} flows, its request has {len(flows)}")
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


def _hops_of(topology: Topology, paths: Sequence[Sequence[str]]) -> Ints:
    """Return the links between switches of paths given by link ids, a row each."""
    hops = np.full((len(paths), MAX_HOPS), NO_LINK, dtype=np.int64)
    for row, links in enumerate(paths):
        inner = [topology.link_index[link] for link in links[1:-1]]
        hops[row, : len(inner)] = inner
    return hops


def joined_paths(parts: Sequence[Paths], topology: Topology) -> Paths:
    """Join the paths of several sources, in order."""
    parts = [part for part in parts if len(part.flows)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    none = np.empty(0, dtype=np.int64)
    return Paths(
        flows=joined([part.flows for part in parts]) if parts else expand(topology, ()),
        hops=join_hops([part.hops for part in parts]),
        ports=np.concatenate([none, *(part.ports for part in parts)]),
        reverse_hops=join_hops([part.reverse_hops for part in parts]),
        reverse_ports=np.concatenate([none, *(part.reverse_ports for part in parts)]),
    )


def no_paths(flows: Flows) -> Paths:
    """Return empty paths with the columns of `flows`."""
    ports, hops = flows.job[:0], np.empty((0, MAX_HOPS), dtype=np.int64)
    return Paths(flows=flows.rows(slice(0)), hops=hops, ports=ports, reverse_hops=hops, reverse_ports=ports)
