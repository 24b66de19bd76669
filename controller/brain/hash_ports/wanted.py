"""Name the flows of a plan whose source ports probes have to find, on a fabric that hashes."""

from dataclasses import replace

import numpy as np

from controller.model.effect import Solve
from controller.model.fabric import Fabric
from controller.model.plan import JobFlows, Replan, WantedRows
from controller.planner.flow_table import FlowTable
from controller.planner.jit import Flags
from probing.flow import Wanted


def with_wanted(fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
    """Return a plan with the flows that need a port: those on other paths than before.

    Flows on the same live paths keep their ports, which are confirmed if the problem is to `confirm`. A flow between
    NICs of one leaf has one path, by any port.
    """
    kept = {request.job_id: job for request, job in problem.kept}
    jobs, wanted = [], {}
    for job in plan.jobs:
        before = kept.get(job.job_id)
        found, differs = (job, _all(job)) if before is None else _as_before(job, before)
        jobs.append(found)
        excluded = {*plan.stranded.get(job.job_id, ()), *(problem.amend.stay if problem.amend is not None else ())}
        rows = _rows(fabric, found, differs, excluded, confirm=problem.confirm)
        if rows.rows:
            wanted[job.job_id] = rows
    return replace(plan, jobs=tuple(jobs), wanted=wanted)


def _all(job: JobFlows) -> Flags:
    return np.ones(len(job.flows), dtype=np.bool_)


def _as_before(job: JobFlows, before: JobFlows) -> tuple[JobFlows, Flags]:
    """Return a running job with the old ports of flows on their old paths, and which flows are on others."""
    now, was = job.flows, before.flows
    if now is was:
        return job, ~_all(job)
    assert isinstance(now, FlowTable)
    assert isinstance(was, FlowTable)
    differs: Flags = (now.hops != was.hops).any(axis=1)
    old = np.flatnonzero(~differs & (now.ports != was.ports)).tolist()
    if old:
        job = replace(job, flows=now.with_ports({row: int(was.ports[row]) for row in old}))
    return job, differs


def _rows(fabric: Fabric, job: JobFlows, differs: Flags, excluded: set[str], *, confirm: bool) -> WantedRows:
    table, nics = job.flows, fabric.nic_by_id
    if not confirm and not differs.any():
        return WantedRows((), ())
    assert isinstance(table, FlowTable)
    ids, flows = table.topology.nic_ids, table.flows
    rows, found = [], []
    for row in np.flatnonzero((differs | confirm) & (table.hops[:, 0] >= 0)).tolist():
        if (flow_id := table.flow_id(row)) in excluded:
            continue
        source, target = nics[ids[flows.src_nic[row]]], nics[ids[flows.dst_nic[row]]]
        port = 0 if differs[row] else int(table.ports[row])
        rows.append(row)
        found.append(Wanted(flow_id, source.ip, target.ip, table.links(row), port))
    return WantedRows(tuple(rows), tuple(found))
