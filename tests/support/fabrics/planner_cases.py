"""Small fabrics and jobs of the planner's tests, through the real readers."""

import json

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import FlowPlan, Infeasible, Plan
from heddle.controller.planner.solve import solve


def fabric_of(*, failed=(), **shape) -> Fabric:
    shape = {"kind": "spine_leaf", "spines": 2, "leaves": 2, "hosts_per_leaf": 2, **shape}
    return parse_fabric(json.dumps({"version": 1, "name": "lab", "generate": shape, "failed": list(failed)}), "fabric")


def job_of(fabric: Fabric, *collectives: dict, **fields) -> JobRequest:
    job = {"job_id": "job", "ranks": [nic.id for nic in fabric.nics], "collectives": list(collectives), **fields}
    return parse_jobs(json.dumps({"version": 1, "jobs": [job]}), "jobs", fabric)[0]


def custom(*flows: tuple[int, int] | tuple[int, int, int] | tuple[int, int, int, int], **fields) -> dict:
    """A CUSTOM collective of (source rank, destination rank, rate, port)."""
    names = ("src_rank", "dst_rank", "rate_bps", "udp_source_port")
    return {"kind": "CUSTOM", "flows": [dict(zip(names, flow, strict=False)) for flow in flows], **fields}


def plan_of(fabric: Fabric, *jobs: JobRequest, **options) -> Plan:
    plan = solve(fabric, jobs, health=fabric.failed, **options)
    assert isinstance(plan, Plan), plan.why
    return plan


def refusal_of(fabric: Fabric, *jobs: JobRequest, **options) -> str:
    refused = solve(fabric, jobs, health=fabric.failed, **options)
    assert isinstance(refused, Infeasible)
    return refused.why


def flows_of(fabric: Fabric, *collectives: dict, **fields) -> list[FlowPlan]:
    return list(plan_of(fabric, job_of(fabric, *collectives, **fields)).jobs[0].flows)
