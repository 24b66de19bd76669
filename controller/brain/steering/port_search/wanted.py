"""Name the flows of a plan whose source ports probes have to find, on a fabric that hashes."""

from dataclasses import replace

import numpy as np

from heddle.controller.model.effect import Solve
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import JobFlows, Replan, WantedRows
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.jit import Flags
from heddle.probing.flow import Wanted


def with_wanted(fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
    """Return a plan with the flows that need a port: those on other paths than before.

    Flows on the same live paths keep their ports. All running flows from leaves that are to be confirmed have the port
    that they use. A flow between NICs of one leaf has one path, by any port. Flows whose path was `seen` keep their
    ports, too.
    """
    amend = problem.amend
    stay, seen = (amend.stay, amend.seen) if amend is not None else (frozenset[str](), frozenset[str]())
    kept = {request.job_id: job for request, job in problem.kept}
    jobs, wanted = [], {}
    for job in plan.jobs:
        before = kept.get(job.job_id)
        found, differs = (job, _all(job)) if before is None else _as_before(job, before, seen)
        jobs.append(found)
        excluded = {*plan.stranded.get(job.job_id, ()), *stay, *seen}
        rows = _rows(fabric, found, before, differs, excluded, problem.confirm)
        if rows.rows:
            wanted[job.job_id] = rows
    return replace(plan, jobs=tuple(jobs), wanted=wanted)


def _all(job: JobFlows) -> Flags:
    return np.ones(len(job.flows), dtype=np.bool_)


def _as_before(job: JobFlows, before: JobFlows, seen: frozenset[str]) -> tuple[JobFlows, Flags]:
    """Return a running job with the old ports of flows on old or seen paths, and which flows are not on old ones."""
    new, earlier = job.flows, before.flows
    if new is earlier:
        return job, ~_all(job)
    assert isinstance(new, FlowTable)
    assert isinstance(earlier, FlowTable)
    differs: Flags = (new.hops != earlier.hops).any(axis=1)
    followed: Flags = np.zeros(len(new), dtype=np.bool_)
    for row in np.flatnonzero(differs).tolist() if seen else ():
        followed[row] = new.flow_id(row) in seen
    old = np.flatnonzero((~differs | followed) & (new.ports != earlier.ports)).tolist()
    if old:
        job = replace(job, flows=new.with_ports({row: int(earlier.ports[row]) for row in old}))
    return job, differs


def _rows(
    fabric: Fabric, job: JobFlows, before: JobFlows | None, differs: Flags, excluded: set[str], suspects: frozenset[str]
) -> WantedRows:
    table, nics = job.flows, fabric.nic_by_id
    if not suspects and not differs.any():
        return WantedRows((), ())
    assert isinstance(table, FlowTable)
    used = before.flows.ports if before is not None and isinstance(before.flows, FlowTable) else None
    ids, flows = table.topology.nic_ids, table.flows
    rows, found = [], []
    for row in np.flatnonzero((differs | bool(suspects)) & (table.hops[:, 0] >= 0)).tolist():
        is_suspect = nics[ids[flows.src_nic[row]]].port.switch in suspects
        if not (differs[row] or is_suspect) or (flow_id := table.flow_id(row)) in excluded:
            continue
        source, target = nics[ids[flows.src_nic[row]]], nics[ids[flows.dst_nic[row]]]
        port = int(used[row]) if is_suspect and used is not None else 0
        rows.append(row)
        found.append(Wanted(flow_id, source.ip, target.ip, table.links(row), port))
    return WantedRows(tuple(rows), tuple(found))
