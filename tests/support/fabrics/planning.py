"""Random fabrics and jobs as data of files, and a plan in the form of `heddle plan --json`."""

import json
from dataclasses import asdict

from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import FlowPlan, Infeasible, Plan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.solve import solve
from heddle.controller.planner.spread.explicit import path_set
from heddle.testing.plans import contract_flows
from heddle.testing.plans.contract_network import Network

FLOW_FIELDS = (
    "flow_id", "src_nic", "dst_nic", "links", "udp_source_port", "rate_bps", "demand_bps", "reverse_links",
    "reverse_udp_source_port", "phase", "src_rank", "dst_rank", "collective", "queue_pair", "pinned", "dscp",
    "priority_group", "work_conserving",
)  # fmt: skip
CERTIFICATE_FIELDS = (
    "max_link_utilisation", "lower_bound", "lower_bound_kind", "ecmp_max_link_utilisation",
    "e_ecmp_max_link_utilisation", "bottleneck_link", "deadlock_free", "max_nic_utilisation", "bottleneck_nic",
    "flows_slowed", "mean_share", "worst_share", "links_over_capacity",
)  # fmt: skip


def plan_as_json(plan: Plan, fabric: Fabric | None = None) -> dict:
    """Write a plan in the shape of `heddle plan --json`; with the fabric also path sets."""
    shared = {field: getattr(plan.certificate, field) for field in CERTIFICATE_FIELDS}
    return {
        "jobs": [
            {
                "job_id": job.job_id,
                "flows": [_flow_as_json(flow, fabric) for flow in job.flows],
                "certificate": {**shared, "own_max_link_utilisation": job.own_max_link_utilisation},
            }
            for job in plan.jobs
        ]
    }


def _flow_as_json(flow: FlowPlan, fabric: Fabric | None = None) -> dict:
    written = {field: getattr(flow, field) for field in FLOW_FIELDS}
    if flow.entries:
        assert fabric is not None
        found = path_set(fabric, topology_of(fabric), flow)
        paths = [path._asdict() for path in found.paths]
        written["path_set"] = {"entries": len(found.order), "paths": paths, "order": found.order}
    return {**written, "window": asdict(flow.window)} if flow.window.slots else written


def solved(fabric_data: dict, jobs_data: dict) -> Plan | Infeasible:
    """Plan files given as data, through the real readers."""
    fabric = parse_fabric(json.dumps(fabric_data), "fabric.yaml")
    return solve(fabric, parse_jobs(json.dumps(jobs_data), "jobs.yaml", fabric), health=fabric.failed)


def planned(fabric_data: dict, jobs_data: dict) -> Plan:
    """Plan files that have a plan."""
    plan = solved(fabric_data, jobs_data)
    assert isinstance(plan, Plan), plan.why
    return plan


def fabric_file(failed=(), **shape) -> dict:
    return {"version": 1, "name": "lab", "generate": shape, "failed": sorted(failed)}


def spine_leaf_shapes(*, most_spines=5):
    return st.fixed_dictionaries(
        {
            "kind": st.just("spine_leaf"),
            "spines": st.integers(1, most_spines),
            "leaves": st.integers(2, 5),
            "hosts_per_leaf": st.integers(1, 4),
            "links_per_spine": st.integers(1, 2),
        }
    )


def rail_shapes():
    def shape(drawn):
        rails, groups, spines, hosts = drawn
        names = ("kind", "spines", "leaves", "hosts_per_leaf", "nics_per_host")
        return dict(zip(names, ("rail_optimised", spines, rails * groups, hosts, rails), strict=True))

    return st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 4), st.integers(1, 4)).map(shape)


def clos3_shapes():
    def shape(drawn):
        aggs, per_agg, pods, leaves, hosts = drawn
        names = ("kind", "aggs_per_pod", "spines", "pods", "leaves", "hosts_per_leaf")
        return dict(zip(names, ("clos3", aggs, aggs * per_agg, pods, leaves, hosts), strict=True))

    return st.tuples(*(st.integers(1, 3) for _ in range(5))).map(shape)


def shapes():
    return st.one_of(spine_leaf_shapes(), rail_shapes(), clos3_shapes())


@st.composite
def sick_fabrics(draw):
    """A fabric with rates of its own and up to three failures."""
    shape = draw(shapes())
    shape["gbps"] = draw(st.sampled_from([100, 25, 0.02]))
    shape["uplink_gbps"] = draw(st.sampled_from([shape["gbps"], 2 * shape["gbps"], 40]))
    data = fabric_file(**shape)
    network = Network(data)
    tops = sorted(name for name, role in network.role.items() if role != "leaf")
    data["failed"] = draw(st.lists(st.sampled_from(sorted(network.switch_links)), max_size=2, unique=True))
    data["failed"] += draw(st.lists(st.sampled_from(tops), max_size=1))
    return data


@st.composite
def collectives(draw, ranks: int, phases: int = 2):
    kind = draw(st.sampled_from(contract_flows.KINDS))
    found = {
        "kind": kind,
        "phase": draw(st.integers(0, phases - 1)),
        "qps_per_flow": draw(st.sampled_from([1, 1, 2, 4])),
    }
    if contract_flows.LISTED.get(kind) != "flows":
        found["bytes"] = 1000000
    if kind in contract_flows.LISTED:
        two = st.lists(st.integers(0, ranks - 1), min_size=2, max_size=2, unique=True)
        pairs = draw(st.lists(two, min_size=1, max_size=8, unique_by=tuple))
        found[contract_flows.LISTED[kind]] = [{"src_rank": a, "dst_rank": b} for a, b in pairs]
    else:
        found["members"] = draw(st.lists(st.integers(0, ranks - 1), min_size=2, max_size=6, unique=True))
    for flow in found.get("flows", ()):
        flow["rate_bps"] = draw(st.sampled_from([0, 10**6, 3 * 10**9, 10**10]))
    if kind in contract_flows.ROOTED:
        found["root"] = draw(st.sampled_from(found["members"]))
    return found


@st.composite
def job_files(draw, fabric_data: dict, most: int = 3):
    nics = sorted(Network(fabric_data).ports)
    jobs = []
    for number in range(draw(st.integers(1, most))):
        ranks = (
            draw(st.lists(st.sampled_from(nics), min_size=2, max_size=12, unique=True)) if len(nics) > 1 else nics * 2
        )
        job = {
            "job_id": f"job{number}",
            "priority": draw(st.integers(0, 2)),
            "ranks": ranks,
            "collectives": draw(st.lists(collectives(len(ranks)), min_size=1, max_size=3)),
            "steering": draw(st.sampled_from(["SOURCE_PORT", "SOURCE_PORT", "PIN"])),
            "incast": draw(st.sampled_from(["INCAST_UNSPECIFIED", "RATES", "WINDOWS"])),
        }
        jobs.append(job)
    return {"version": 1, "jobs": jobs}


def permutation_job(targets, *, qps_per_flow=1, paths_per_flow=0, job_id="permutation", nics=None):
    """A job in which every rank sends to one other as fast as it can."""
    flows = [{"src_rank": i, "dst_rank": j} for i, j in enumerate(targets) if i != j]
    ranks = nics or [f"h{i + 1}-n0" for i in range(len(targets))]
    collective = {"kind": "CUSTOM", "flows": flows, "qps_per_flow": qps_per_flow}
    if paths_per_flow:
        collective["paths_per_flow"] = paths_per_flow
    return {"job_id": job_id, "ranks": ranks, "collectives": [collective]}
