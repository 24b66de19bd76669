"""Documents of a small fabric in trouble, for the tests of the page: a cut link, a lost switch, a drain, an incast."""

import math
from pathlib import Path
from typing import Any

from heddle.controller.config.load import load_fabric
from tests.fakes.dashboard_site import drawn_state, fabric_document

EXAMPLE = Path(__file__).parents[2] / "examples" / "lab.yaml"
POINTS = 120
STEP_MS = 5_000


def troubled_documents() -> dict[str, Any]:
    """Return every document that the page asks for."""
    fabric = fabric_document(load_fabric(EXAMPLE))
    state = troubled_state(fabric)
    now = state["at_ms"]
    job = job_document(fabric, now)
    ports = {
        f"/api/ports/{link['from']['node']}/{link['from']['port']}": port_document(link, now)
        for link in fabric["links"]
        if link["from"]["port"] is not None
    }
    return ports | {
        "/healthz": "ok",
        "/api/fabric": fabric,
        "/api/state": state,
        "/api/at": lambda query: {**state, "jobs": None},
        "/api/jobs": {"jobs": [{**item, **JOB_LINE} for item in state["jobs"]]},
        "/api/jobs/job-0": job,
        "/api/congestion": congestion_document(state),
        "/api/timeline": {"events": events(now), "recorded_from_ms": now - 900_000},
        "/api/networks": NETWORKS,
        "/api/health": health_document(fabric, now),
        "/api/session": {
            "user": None,
            "may_act": True,
            "csrf": "token",
            "login": False,
            "collectives": ["RING_ALL_REDUCE", "ALL_TO_ALL"],
        },
        "/api/actions/drain": lambda body: {"moves": 3, "jobs": ["job-0"], "text": "3 flows of job-0 would move."},
        "/api/actions/release": lambda body: {"text": "Released."},
        "/api/actions/preview": lambda body: {**job, "links_planned": state["links"]["planned"]},
    }


def troubled_state(fabric: dict[str, Any]) -> dict[str, Any]:
    state = drawn_state(fabric, 1)
    ids = {link["id"]: at for at, link in enumerate(fabric["links"])}
    links = state["links"]
    for link in ("leaf1:2>spine2:1", "spine2:1>leaf1:2"):
        links["up"][ids[link]] = 0
    for link in ("leaf4:1>spine1:4", "spine1:4>leaf4:1"):
        links["drained"][ids[link]] = 1
    for mark, way in ((1, "leaf1:1>spine1:1"), (2, "leaf3:1>spine1:3"), (3, "leaf4:2>spine2:4")):
        for link in (way, ">".join(reversed(way.split(">")))):
            links["cabling"][ids[link]] = mark
    for link in ("leaf2:1>spine1:2", "spine1:2>leaf2:1"):
        links["bad"][ids[link]] = 1
    state["miscablings"] = ["leaf1:1 and leaf1:2 are exchanged"]
    links["utilisation"][ids["leaf3:3>h5-n0"]] = 0.97
    links["pause_share"][ids["spine2:3>leaf3:2"]] = 0.9
    state["switches"]["connected"][1] = 0
    now = state["at_ms"]
    state["congested"] = [
        {"switch": "leaf3", "port": 3, "cause": "incast", "since_ms": now - 14_000, "root": True},
        {"switch": "spine2", "port": 3, "cause": "pausing", "since_ms": now - 9_000, "root": False},
    ]
    state["counts"] |= {"switches_connected": 5, "links_down": 1, "hot_links": 2, "vpcs_violated": 1}
    return state


def job_document(fabric: dict[str, Any], now: int) -> dict[str, Any]:
    paths = [
        ["h1-n0>leaf1:3", "leaf1:1>spine1:1", "spine1:3>leaf3:1", "leaf3:3>h5-n0"],
        ["h3-n0>leaf2:3", "leaf2:2>spine2:2", "spine2:3>leaf3:2", "leaf3:3>h5-n0"],
        ["h7-n0>leaf4:3", "leaf4:2>spine2:4", "spine2:3>leaf3:2", "leaf3:3>h5-n0"],
    ]
    flows = [
        {
            "id": f"flow-{at}", "src": path[0].split(">")[0], "dst": path[-1].split(">")[1], "planned_bps": 6_600_000,
            "measured_bps": [6_500_000, 2_100_000, None][at], "links": path, "udp_source_port": 49_152 + at,
        }
        for at, path in enumerate(paths)
    ]  # fmt: skip
    return {
        "id": "job-0", "tenant": "team-0", "state": "RUNNING", "reason": "", "generation": 3, "priority": 4,
        "lease_expires_ms": 0,
        "certificate": {
            "achieved": 1.0, "bound": 1.0, "ecmp": 1.98, "e_ecmp": 1.32, "proof": "the NIC h5-n0 receives 3 flows",
            "own": 1.0, "flows_slowed": 3, "mean_share": 0.33, "worst_share": 0.33, "flows_work_conserving": 0,
            "assumed": False, "below_goal": 0.0,
            "probed": False, "paths_confirmed": 0, "oldest_confirmation_ms": None, "probes": 0,
            "by_construction": False,
        },
        "flows": flows, "flows_total": 3,
        "generations": [
            {"generation": 1, "at_ms": now - 60_000, "state": "running", "reason": "submitted"},
            {"generation": 3, "at_ms": now - 5_000, "state": "running", "reason": "link leaf1:2>spine2:1 down"},
        ],
        "shares_links_with": [{"job": "job-1", "links": ["spine2:3>leaf3:2"]}],
    }  # fmt: skip


def port_document(link: dict[str, Any], now: int) -> dict[str, Any]:
    wave = [round(abs(math.sin(at / 9)), 3) for at in range(POINTS)]
    return {
        "switch": link["from"]["node"], "port": link["from"]["port"], "peer": link["to"]["node"], "up": True,
        "capacity_bps": link["capacity_bps"], "bucket_s": 1,
        "series": {
            "t_ms": [now - STEP_MS * (POINTS - at) for at in range(POINTS)], "utilisation": wave,
            "ecn_marked_per_s": [900 * value for value in wave], "pfc_rx_per_s": [0.0] * POINTS,
            "pfc_tx_per_s": wave, "drops_per_s": [0] * POINTS,
            "depth_bytes": [round(120_000 * value) for value in wave],
        },
    }  # fmt: skip


def congestion_document(state: dict[str, Any]) -> dict[str, Any]:
    measured = {
        "ecn_marked_per_s": 1200.5,
        "pfc_rx_per_s": 0,
        "pfc_tx_per_s": 88.0,
        "drops_per_s": 0.0,
        "depth_bytes": 120_000,
        "jobs": ["job-0"],
        "flows": 3,
        "priority": 3,
        "value": 0.5,
        "threshold": 0.1,
        "stale": False,
        "root_cause": "leaf3:3",
    }
    root, above = {"switch": "leaf3", "port": 3}, {"switch": "spine2", "port": 3}
    return {
        "ports": [
            {key: port[key] for key in ("switch", "port", "cause", "since_ms")} | measured
            for port in state["congested"]
        ],
        "pause_trees": [
            {
                "root": root, "nic": "h5-n0", "circle": False,
                "edges": [{"from": above, "to": root}, {"from": {"switch": "leaf2", "port": 2}, "to": above}],
            }
        ],
    }  # fmt: skip


def events(now: int) -> list[dict[str, Any]]:
    return [
        {"at_ms": now - 60_000, "kind": "job", "severity": "info", "subject": "job-0", "text": "submitted: 3 flows"},
        {
            "at_ms": now - 14_000,
            "kind": "congestion",
            "severity": "warning",
            "subject": "leaf3:3",
            "text": "raised: incast",
        },
        {
            "at_ms": now - 5_000,
            "kind": "link",
            "severity": "error",
            "subject": "leaf1",
            "text": "leaf1:2>spine2:1 is down",
        },
    ]


JOB_LINE = {"reason": "", "generation": 3, "priority": 4, "probed": False, "paths_confirmed": 0}


def health_document(fabric: dict[str, Any], now: int) -> dict[str, Any]:
    switches = [
        {
            "id": switch["id"], "connected": at != 1, "since_ms": now - 9_000,
            "rules": 20, "rule_limit": [None, 100][at % 2],
            "installed_equals_wanted": [True, None, False][at % 3], "fault": "",
        }
        for at, switch in enumerate(fabric["switches"])
    ]  # fmt: skip
    return {
        "version": "0.1.0", "leader": True, "uptime_ms": 4_000_000, "switches": switches,
        "probe_agents": None,
        "telemetry": {"configured": True, "age_ms": 300, "acts": True},
        "install_ms": {"p50": 3.2, "p99": 9.0, "count": 14},
        "loop_lag_ms": {"p50": 0.1, "p99": 2.0, "max": 11.0}, "http": {"clients": 1, "refused": 0},
    }  # fmt: skip


NETWORKS = {
    "vpcs": [
        {
            "id": "red", "tenant": "tenant-red", "vni": 100, "network": "business", "subnets": ["10.0.0.0/24"],
            "endpoints": 3, "isolation": "verified", "isolation_why": [], "isolation_checked_ms": 1_700_000_000_000,
            "isolation_age_ms": 4_000, "isolation_is_newest": True,
        },
        {
            "id": "blue", "tenant": "tenant-blue", "vni": 200, "network": "storage", "subnets": ["10.0.0.0/24"],
            "endpoints": 2, "isolation": "violated",
            "isolation_why": ["leak: vpc blue to vpc red: tcp 22; the two VPCs are not peered"],
            "isolation_checked_ms": 1_700_000_000_000, "isolation_age_ms": 4_000, "isolation_is_newest": False,
        },
    ],
    "gateways": [
        {
            "id": "gateway-1", "kind": "gateway", "vpc": None, "state": "attached", "pair": "gateway-2",
            "role": "active", "vtep": "10.0.0.1", "generation": 4, "wanted_generation": 5, "refused": "",
            "kept_vpcs": {"blue": "its state of before stays in force: …"}, "unknown_vpcs": ["old"],
            "connections": 120, "connections_limit": 65_536,
            "mappings": 900, "mappings_limit": 1000, "age_ms": 300,
        }
    ],
    "balancers": [
        {
            "id": "web", "vpc": "red", "vip": "10.0.0.9:80", "served_by": ["balancer-1"],
            "backends": [
                {"address": "10.0.0.1", "weight": 1, "health": "up"},
                {"address": "10.0.0.2", "weight": 1, "health": "down"},
            ],
        }
    ],
}  # fmt: skip
