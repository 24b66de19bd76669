"""Compute planned link loads, and explain a flow's path."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from heddle.controller.brain.state import Job, State
from heddle.controller.brain.steering.interface import Explanation
from heddle.controller.brain.steering.table import steering_of
from heddle.controller.brain.transactions.bad_cables import explained as bad_cable_explained
from heddle.controller.model.address import ip_text
from heddle.controller.model.admission import quoted
from heddle.controller.model.error import NotFoundError
from heddle.controller.model.observed import NO_REPORTS, Reports
from heddle.controller.model.plan import FlowPlan
from heddle.controller.planner.ground.expand import LEAST_BPS
from heddle.controller.views.flow_paths import paths_of_flow, set_links
from heddle.controller.views.path_errors import refused_flow
from heddle.controller.views.switch_faults import faults_on

MAX_SHARING = 100
"""The maximum number of flows listed as sharing a link with the explained one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """The explanation of a flow's path: a text, and a line for each switch.

    `sharing_flows` are planned on the same links; `moves` say why the flow has moved, the newest first; `paths` are
    those over which its NIC sprays it.
    """

    text: str
    job_id: str
    hops: tuple[str, ...]
    sharing_flows: tuple[str, ...]
    moves: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


def link_loads_bps(state: State) -> dict[str, int]:
    """Return the planned load of every loaded link: per job its heaviest phase, summed over jobs."""
    loads: dict[str, int] = {}
    for job in state.jobs.values():
        for link, load in job.flows.link_loads_bps.items():
            loads[link] = loads.get(link, 0) + load
    return loads


def explain(state: State, flow_id: str, reports: Reports = NO_REPORTS) -> Explained:
    """Explain where a flow goes, and what hosts report of it; raises NotFoundError."""
    job, flow = _find(state, flow_id)
    found = steering_of(state.fabric).explained(state, job, flow)
    return Explained(
        text=" ".join((_text(state, job, flow, found), *_path_errors(state, reports, flow))),
        job_id=job.request.job_id,
        hops=found.hops,
        sharing_flows=_sharing(state, flow),
        moves=tuple(_moves(state, flow.flow_id)),
        paths=paths_of_flow(state, job, flow, reports),
    )


def _moves(state: State, flow_id: str) -> Iterator[str]:
    """Yield a line for each recorded decision that moved a flow, the newest first."""
    for record in reversed(state.moves):
        if (links := record.moved.old_links.get(flow_id)) is not None:
            when = datetime.fromtimestamp(record.unix_ms / 1000, UTC).isoformat(timespec="milliseconds")
            others = f" with {record.moved.flows - 1} others of its job" if record.moved.flows > 1 else ""
            yield f"{when} generation {record.generation}: left {' '.join(links)}{others}: {record.reason}"


def _find(state: State, flow_id: str) -> tuple[Job, FlowPlan]:
    for job in state.jobs.values():
        if flow_id.startswith(job.request.job_id + "/"):
            for flow in job.flows.flows:
                if flow.flow_id == flow_id:
                    return job, flow
    raise NotFoundError(
        f"flow_id: no flow {quoted(flow_id)}; flows are named JOB/COLLECTIVE/SRC_RANK-DST_RANK/QUEUE_PAIR"
    )


def _text(state: State, job: Job, flow: FlowPlan, found: Explanation) -> str:
    nics = state.fabric.nic_by_id
    port = nics[flow.src_nic]
    how = f"Its NIC sprays it over {len(set(flow.entries))} paths, by a list. " if flow.entries else ""
    if port.of and flow.demand_bps <= LEAST_BPS:
        how = f"Nothing is left for it in plane {port.plane}: its parts in other planes carry the data. "
    return (
        f"{flow.flow_id}: {flow.src_nic} ({ip_text(nics[flow.src_nic].ip)}) to {flow.dst_nic} "
        f"({ip_text(nics[flow.dst_nic].ip)}), UDP source port {flow.udp_source_port}: {found.selector}. "
        f"Job {job.request.job_id}, generation {job.generation} ({job.reason}), {job.state}. "
        f"{how}{' '.join((found.verdict, *faults_on(state, flow.links), *_bad_cables(state, flow)))}"
    )


def _path_errors(state: State, reports: Reports, flow: FlowPlan) -> Iterator[str]:
    """Yield a sentence where ICMPv6 errors quote packets of a flow on its present path."""
    refused = refused_flow(state, reports, flow)
    if refused is not None:
        errors = f"{refused.errors} ICMPv6 errors say that its packets"
        yield f"{errors} are refused before {refused.link}: a hint, no evidence."


def _bad_cables(state: State, flow: FlowPlan) -> Iterator[str]:
    """Yield a sentence for each bad cable on the paths of a flow."""
    for link in sorted(set_links(state, flow)) if state.bad_cables else ():
        cable = state.fabric.cable_by_link.get(link)
        if cable is not None and (bad := state.bad_cables.get(cable.id)) is not None:
            yield f"Cable {cable.id} is bad: it {bad_cable_explained(bad)}."


def _sharing(state: State, flow: FlowPlan) -> tuple[str, ...]:
    mine = set_links(state, flow)
    found = []
    for job in state.jobs.values():
        if mine.isdisjoint(job.flows.link_loads_bps):
            continue
        for other in job.flows.flows:
            if other.flow_id != flow.flow_id and not mine.isdisjoint(other.links):
                found.append(other.flow_id)
                if len(found) == MAX_SHARING:
                    return tuple(found)
    return tuple(found)
