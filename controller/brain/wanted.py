"""Name the flows of a plan whose source ports probes have to find, on a fabric that hashes."""

from dataclasses import replace

import numpy as np

from controller.model.effect import Solve
from controller.model.fabric import Fabric
from controller.model.plan import JobFlows, Replan, WantedRows
from controller.planner.flow_table import FlowTable
from probing.flow import Wanted


def with_wanted(fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
    """Return a plan with the flows that need a port: those on other paths than before.

    Flows on the same paths keep their ports. A flow between NICs of one leaf has one path, by any port.
    """
    kept = {request.job_id: job for request, job in problem.kept}
    jobs, wanted = [], {}
    for job in plan.jobs:
        found, rows = _wanted(fabric, job, kept.get(job.job_id))
        jobs.append(found)
        if rows.rows:
            wanted[job.job_id] = rows
    return replace(plan, jobs=tuple(jobs), wanted=wanted)


def _wanted(fabric: Fabric, job: JobFlows, before: JobFlows | None) -> tuple[JobFlows, WantedRows]:
    table, nics = job.flows, fabric.nic_by_id
    known = before.flows if before is not None else None
    if table is known or not isinstance(table, FlowTable):
        return job, WantedRows((), ())
    differs = np.ones(len(table), dtype=np.bool_)
    if isinstance(known, FlowTable):
        differs = (table.hops != known.hops).any(axis=1)
        old = np.flatnonzero(~differs & (table.ports != known.ports)).tolist()
        if old:
            job = replace(job, flows=table.with_ports({row: int(known.ports[row]) for row in old}))
    rows = tuple(np.flatnonzero(differs & (table.hops[:, 0] >= 0)).tolist())
    ids, flows = table.topology.nic_ids, table.flows
    found = (
        Wanted(table.flow_id(row), nics[ids[flows.src_nic[row]]].ip, nics[ids[flows.dst_nic[row]]].ip, table.links(row))
        for row in rows
    )
    return job, WantedRows(rows, tuple(found))
