"""The planner's one entry: jobs in, a certified plan out, or the reason why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from controller.model.fabric import Fabric
from controller.model.health import Health
from controller.model.job import JobRequest
from controller.model.plan import Infeasible, JobFlows, Plan, Stream
from controller.model.steering import layout_of
from controller.planner.certificate import certify, own_utilisation
from controller.planner.clos import MOST_HOPS, NO_LINK, Live, Topology, topology_of
from controller.planner.expand import Flows, expand, joined, repeats
from controller.planner.flow_table import FlowTable, join_hops, path_links
from controller.planner.fluid import completion_ns, planned_rates
from controller.planner.jit import Ints
from controller.planner.loads import link_loads, link_places, utilisation
from controller.planner.pins import (
    Streams,
    bundles,
    given_paths,
    pinned_pairs,
    refuse_taken_tuples,
    streams_to_guard,
    taken_along,
    tuple_keys,
)
from controller.planner.refusal import dead_nic, no_path, too_full
from controller.planner.route import Router
from controller.planner.steering import PortTable, port_table, ports_of

Placed = tuple[JobRequest, JobFlows]
"""A job that runs already, with the flows it was told to use."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Paths:
    """Flows with their paths and ports, columns alike."""

    flows: Flows
    hops: Ints
    ports: Ints
    reverse_hops: Ints
    reverse_ports: Ints

    def streams(self, topology: Topology) -> Streams:
        """Return what these flows send, both ways."""
        return Streams.of(topology, self.flows, self.ports, self.hops, self.reverse_ports, self.reverse_hops)


def solve(
    fabric: Fabric, requests: Sequence[JobRequest], *, health: Health, kept: Sequence[Placed] = ()
) -> Plan | Infeasible:
    """Plan new jobs beside those that are kept where they are; the plan speaks of all of them, kept ones first.

    The same input gives the same plan; work is limited in steps. `solve_ns`, `install_ns`, `flows_moved` and the
    rule counts of the certificate are left to whoever knows them. Raises InputError for a rank that is no NIC and
    AlreadyExists where a (source, destination, port) is pinned twice.
    """
    topology = topology_of(fabric)
    live = Live.of(topology, health)
    jobs = [request for request, _ in kept] + list(requests)
    old = _joined_paths([_placed(topology, number, job) for number, job in enumerate(kept)], topology)
    new = expand(topology, requests, first_job=len(kept))
    job_ids = [job.job_id for job in jobs]
    refuse_taken_tuples(topology, job_ids, joined((old.flows, new)))
    if (why := dead_nic(topology, live, job_ids, new)) is not None:
        return Infeasible(why=why)
    router = Router(topology=topology, live=live)
    running = old.streams(topology)
    hops = _route(router, jobs, old, running, new)
    if (why := no_path(topology, live, job_ids, new, hops)) is not None:
        return Infeasible(why=why)
    whole = _joined_paths([old, _with_ports(fabric, topology, running, new, hops)], topology)
    return _told(router, jobs, kept, old, whole, _guards(topology, whole.streams(topology), new, hops))


def _placed(topology: Topology, number: int, placed: Placed) -> _Paths:
    """Return a running job's paths as arrays; its flows may be ours or read back from a journal."""
    request, told = placed
    table = told.flows
    if isinstance(table, FlowTable) and table.topology is topology and table.request is request:
        return _Paths(
            flows=table.flows.as_job(number), hops=table.hops, ports=table.ports, reverse_hops=table.reverse_hops,
            reverse_ports=table.reverse_ports,
        )  # fmt: skip
    flows = expand(topology, (request,), first_job=number)
    if len(flows) != len(table):
        raise ValueError(f"job {request.job_id} is kept with {len(table)} flows, its request has {len(flows)}")
    ports, reverse_ports = np.empty(len(flows), dtype=np.int64), np.empty(len(flows), dtype=np.int64)
    for row, plan in enumerate(table):
        ports[row], reverse_ports[row] = plan.udp_source_port, plan.reverse_udp_source_port
    return _Paths(
        flows=flows,
        hops=_hops_of(topology, [plan.links for plan in table]),
        ports=ports,
        reverse_hops=_hops_of(topology, [plan.reverse_links for plan in table]),
        reverse_ports=reverse_ports,
    )


def _hops_of(topology: Topology, paths: Sequence[Sequence[str]]) -> Ints:
    """Return the switch-to-switch links of paths given by link ids, a row each."""
    hops = np.full((len(paths), MOST_HOPS), NO_LINK, dtype=np.int64)
    for row, links in enumerate(paths):
        inner = [topology.link_index[link] for link in links[1:-1]]
        hops[row, : len(inner)] = inner
    return hops


def _joined_paths(parts: Sequence[_Paths], topology: Topology) -> _Paths:
    none = np.empty(0, dtype=np.int64)
    return _Paths(
        flows=joined([part.flows for part in parts]) if parts else expand(topology, ()),
        hops=join_hops([part.hops for part in parts]),
        ports=np.concatenate([none, *(part.ports for part in parts)]),
        reverse_hops=join_hops([part.reverse_hops for part in parts]),
        reverse_ports=np.concatenate([none, *(part.reverse_ports for part in parts)]),
    )


def _route(router: Router, jobs: Sequence[JobRequest], old: _Paths, running: Streams, new: Flows) -> Ints:
    """Choose the new flows' paths over the load of the old ones."""
    topology = router.topology
    priority = np.array([job.priority for job in jobs], dtype=np.int64)
    base = []
    for level in np.unique(priority[old.flows.job]).tolist():
        rows = priority[old.flows.job] == level
        base.append((level, link_loads(topology, old.flows.rows(rows), old.hops[rows])))
    bundle = bundles(topology, running, new, priority[new.job])
    return router.route(new, priority[new.job], base, bundle, given_paths(running, bundle))


def _with_ports(fabric: Fabric, topology: Topology, running: Streams, new: Flows, hops: Ints) -> _Paths:
    """Write each path into its port; a port the job has fixed stays, and a pin by addresses takes answers along.

    Flows of one pair of NICs count through the spare bits, from 1: a flow label of 0 means "automatic" to a NIC, so
    port 49152 is the one to avoid.
    """
    table = port_table(fabric, topology, layout_of(fabric))
    src, dst = new.src_nic, new.dst_nic
    fixed = new.fixed_port > 0
    taken = np.concatenate((running.key[running.fixed], tuple_keys(topology, src, dst, new.fixed_port)[fixed]))
    entropy = repeats(src * topology.nics + dst) + 1
    ports = _free_ports(topology, table, taken, (src, dst, hops), entropy)
    pinned = pinned_pairs(topology, running, new, hops)
    reverse_hops = taken_along(tuple_keys(topology, dst, src, 0), topology.mirrored(hops), pinned)
    return _Paths(
        flows=new,
        hops=hops,
        ports=np.where(fixed, new.fixed_port, ports),
        reverse_hops=reverse_hops,
        reverse_ports=_free_ports(topology, table, taken, (dst, src, reverse_hops), entropy),
    )


def _free_ports(
    topology: Topology, table: PortTable, taken: Ints, streams: tuple[Ints, Ints, Ints], entropy: Ints
) -> Ints:
    """Return the ports of streams (source, target, hops); one that would meet a pinned port of its pair counts on."""
    source, target, hops = streams
    leaf, entropy = topology.nic_leaf[target], entropy.copy()
    ports = ports_of(topology, table, hops, leaf, entropy)
    for _ in range(1 << table.entropy_bits if len(taken) else 0):
        clash = np.flatnonzero(np.isin(tuple_keys(topology, source, target, ports), taken))
        if not len(clash):
            break
        entropy[clash] += 1
        ports[clash] = ports_of(topology, table, hops[clash], leaf[clash], entropy[clash])
    return ports


def _guards(topology: Topology, streams: Streams, new: Flows, hops: Ints) -> dict[int, tuple[Stream, ...]]:
    """Return, per new job, the streams that its pins have to leave where they are."""
    return {
        job: tuple(_stream(topology, streams, row) for row in rows)
        for job, rows in streams_to_guard(topology, streams, new, hops).items()
    }


def _stream(topology: Topology, streams: Streams, row: int) -> Stream:
    source, target = int(streams.source[row]), int(streams.target[row])
    return Stream(
        src_nic=topology.nic_ids[source],
        dst_nic=topology.nic_ids[target],
        udp_source_port=int(streams.port[row]),
        links=path_links(topology, source, streams.hops[row], target),
    )


def _told(
    router: Router, jobs: Sequence[JobRequest], kept: Sequence[Placed], old: _Paths, whole: _Paths,
    guards: dict[int, tuple[Stream, ...]],
) -> Plan | Infeasible:  # fmt: skip
    """Measure the whole plan, refuse it where a job may not be that full, and hand it out job by job."""
    topology, flows = router.topology, whole.flows
    loads = link_loads(topology, flows, whole.hops)
    used = utilisation(topology, loads)
    certificate = certify(topology, router.live, router.segments, flows, whole.hops, used)
    begins = np.searchsorted(flows.job, np.arange(len(jobs) + 1))
    parts = [slice(int(begins[job]), int(begins[job + 1])) for job in range(len(jobs))]
    own = [own_utilisation(topology, whole.hops[part], used) for part in parts]
    before = utilisation(topology, link_loads(topology, old.flows, old.hops))
    for number, job in enumerate(jobs):
        full, link = own[number]
        # A running job that was within its limit may not be pushed over it; one that was over it stays as it is.
        was = own_utilisation(topology, whole.hops[parts[number]], before)[0] if number < len(kept) else 0.0
        if 0 < job.require_utilisation < full and was <= job.require_utilisation:
            bound = certificate.lower_bound
            return Infeasible(why=too_full(job.job_id, job.require_utilisation, full, link, bound))
    rates = planned_rates(topology, flows, whole.hops, loads)
    told = [
        _rated(placed, rates[parts[n]], own[n][0]) or _job_flows(topology, jobs[n], whole, parts[n], rates, own[n][0])
        for n, placed in enumerate([*(placed for _, placed in kept), *[None] * (len(jobs) - len(kept))])
    ]
    guarded = (replace(flows, guards=guards[n]) if n in guards else flows for n, flows in enumerate(told))
    return Plan(jobs=tuple(guarded), certificate=certificate)


def _rated(placed: JobFlows | None, rates: Ints, own: float) -> JobFlows | None:
    """Return a running job's flows with these rates, the very same where nothing changed; None for others' tables."""
    if placed is None or not isinstance(placed.flows, FlowTable):
        return None
    table = placed.flows
    if np.array_equal(table.rates, rates):
        return replace(placed, own_max_link_utilisation=own)
    return replace(
        placed,
        flows=table.with_rates(rates),
        own_max_link_utilisation=own,
        predicted_completion_ns=completion_ns(table.flows, rates),
    )


def _job_flows(
    topology: Topology, request: JobRequest, whole: _Paths, part: slice, rates: Ints, own: float
) -> JobFlows:  # fmt: skip
    flows = whole.flows.rows(part)
    table = FlowTable(
        topology, request, flows, whole.hops[part], whole.ports[part], whole.reverse_hops[part],
        whole.reverse_ports[part], rates[part],
    )  # fmt: skip
    return JobFlows(
        job_id=request.job_id,
        flows=table,
        link_loads_bps=_loads_by_link(topology, flows, whole.hops[part]),
        pinned=bool(flows.pinned.any()),
        own_max_link_utilisation=own,
        predicted_completion_ns=completion_ns(flows, rates[part]),
    )


def _loads_by_link(topology: Topology, flows: Flows, hops: Ints) -> dict[str, int]:
    """Return what one job puts on every link that it uses."""
    loads, places = link_loads(topology, flows, hops), np.unique(link_places(topology, flows, hops))
    return {topology.link_ids[place]: round(loads[place]) for place in places[places >= 0].tolist()}
