"""List the paths of a sprayed flow: how much each carries, what selects it, and which of them are denied, and why."""

from collections.abc import Iterator
from dataclasses import replace

from heddle.controller.brain.state import Job, State
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.observed import Reports
from heddle.controller.model.plan import FlowPlan, SetPath
from heddle.controller.model.srv6 import sids_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.spread.explicit import path_set


def paths_of_flow(state: State, job: Job, flow: FlowPlan, reports: Reports) -> tuple[str, ...]:
    """Return a line for each path of a flow, those that carry something first; () for a flow with one path."""
    if not flow.entries:
        return ()
    topology, entries = topology_of(state.fabric), len(flow.entries)
    denied = frozenset(_denied_sids(state.fabric, flow, reports))
    used = [
        f"carries {path.weight} of {entries} packets: {' '.join(path.links[1:-1])}, "
        + _selector(state.fabric, flow, path, denied)
        for path in path_set(state.fabric, topology, flow).paths
    ]
    beside = replace(flow, entries=tuple(_left_out(job, flow)))
    lacking = path_set(state.fabric, topology, beside).paths if beside.entries else ()
    out = _dead_links(state.fabric, state.out_of_use)
    return (*used, *(f"denied: {' '.join(path.links[1:-1])}{_why(path, out)}" for path in lacking))


def set_links(state: State, flow: FlowPlan) -> frozenset[str]:
    """Return the links between switches that a flow crosses, over all its paths."""
    if not flow.entries:
        return frozenset(flow.links[1:-1])
    paths = path_set(state.fabric, topology_of(state.fabric), flow).paths
    return frozenset(link for path in paths for link in path.links[1:-1])


def _selector(fabric: Fabric, flow: FlowPlan, path: SetPath, denied: frozenset[int]) -> str:
    sids = sids_of(fabric)
    if sids is None:
        return f"source port {path.udp_source_port}"
    sid = sids.destination(path.links, flow.dst_nic)
    return f"address {ipv6_text(sid)}{'; its host denies it' if sid in denied else ''}"


def _denied_sids(fabric: Fabric, flow: FlowPlan, reports: Reports) -> Iterator[int]:
    """Yield the addresses of the paths between the flow's NICs that its host reports as denied."""
    source, target = fabric.nic_by_id[flow.src_nic], fabric.nic_by_id[flow.dst_nic]
    for measured in reports.by_host.get(source.host, ()):
        if (measured.pair.src_ip, measured.pair.dst_ip) == (source.ip, target.ip):
            yield from (path.sid for path in measured.pair.paths if path.denied)


def _left_out(job: Job, flow: FlowPlan) -> Iterator[int]:
    """Yield the entries that other flows of the collective have, and this one has not."""
    table = job.flows.flows
    found = table.path_templates if isinstance(table, FlowTable) else None
    for template in found.templates if found is not None else ():
        if flow.collective in template.collectives:
            yield from (entry for entry in dict.fromkeys(template.entries) if entry not in flow.entries)


def _dead_links(fabric: Fabric, out: Health) -> frozenset[str]:
    return frozenset(
        link
        for link, cable in fabric.cable_by_link.items()
        if cable.id in out.down_cables or not out.down_switches.isdisjoint((cable.lower.switch, cable.upper.switch))
    )


def _why(path: SetPath, out: frozenset[str]) -> str:
    dead = next((link for link in path.links if link in out), None)
    return "" if dead is None else f", as {dead} is out of use"
