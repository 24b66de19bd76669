"""A controller of a fabric whose NICs have a port in each of two planes: jobs, clients and the page name both."""

import asyncio
import json
from collections import Counter

import pytest

from heddle.client.topology import fabric_of
from heddle.controller.api.services.connected_pairs import ConnectedPairs
from heddle.controller.config import parse_jobs
from heddle.controller.config.load import parse_fabric
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import running
from tests.unit.dashboard.web_client import web

SHAPE = {"kind": "spine_leaf", "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "gbps": 100, "planes": 2}
FABRIC = parse_fabric(json.dumps({"version": 1, "generate": SHAPE, "steering": "srv6"}), "fabric.yaml")
NICS = [f"h{host}-n0" for host in (1, 2, 3, 4)]


@pytest.fixture
async def planes():
    async with running(FABRIC) as found:
        yield found


async def test_a_jobs_file_for_a_running_controller_names_nics_with_all_their_ports(planes):
    fabric = fabric_of(await planes.fabric.GetTopology(pb.GetTopologyRequest()))
    assert {nic.id: (nic.of, nic.plane) for nic in fabric.nics} == {
        f"{nic}/p{plane}": (nic, plane) for nic in NICS for plane in (0, 1)
    }
    ring = {"kind": "RING_ALL_REDUCE", "bytes": 1}
    jobs = [
        {"job_id": "all", "ranks": {"all": True}, "collectives": [ring]},
        {"job_id": "two", "ranks": NICS[:2], "collectives": [ring]},
    ]
    read = parse_jobs(json.dumps({"version": 1, "jobs": jobs}), "jobs.yaml", fabric)
    assert [job.ranks for job in read] == [tuple(NICS), tuple(NICS[:2])]


async def test_flows_in_planes_are_sprayed_over_paths_of_their_plane(planes):
    collective = pb.Collective(kind="ALL_TO_ALL", bytes=10**9, paths_per_flow=2)
    plan = await planes.jobs.SubmitJob(pb.SubmitJobRequest(job_id="a", ranks=NICS, collectives=[collective]))
    assert plan.state == "running"
    whole = await planes.jobs.GetJob(pb.GetJobRequest(job_id="a", with_path_sets=True))
    apart = [flow for flow in whole.flows if flow.HasField("path_set")]
    assert Counter(len(flow.path_set.paths) for flow in apart) == {2: 16}
    for flow in apart:
        plane = flow.src_nic[-2:]
        crossed = {link.split(":")[0] for path in flow.path_set.paths for link in path.links[1:-1]}
        assert {each.partition("-")[0] for each in crossed} == {plane}


async def test_nodes_of_a_job_meet_with_nics_or_with_single_ports(planes):
    async def join(rank, nics):
        return await planes.jobs.JoinJob(pb.JoinJobRequest(job_id="j", node_rank=rank, node_count=2, nics=nics))

    both = await asyncio.gather(join(0, ["h1-n0"]), join(1, ["h3-n0/p1"]))
    assert [list(each.nics) for each in both] == [["h1-n0", "h3-n0/p1"]] * 2


def test_pairs_of_ports_are_kept_as_pairs_of_nics():
    kept = ConnectedPairs()
    rows = [
        pb.ConnectedPair(src_nic=f"h1-n0/p{plane}", dst_nic=f"h2-n0/p{plane}", queue_pairs=2 + plane)
        for plane in (0, 1)
    ]
    kept.report(pb.JobPairs(job_id="a", host="h1", pairs=rows), FABRIC.nic_by_id, ("a",))
    found = pb.JobPairs.FromString(kept.pairs("a")).pairs
    assert [(pair.src_nic, pair.dst_nic, pair.queue_pairs) for pair in found] == [("h1-n0", "h2-n0", 3)]


async def test_the_page_has_a_document_of_each_port_of_a_nic(planes):
    async with web(planes.addresses["http"]) as client:
        for name in ("h2-n0/p1", "h2-n0%2Fp1"):
            found = await client.json(f"/api/nics/{name}")
            assert (found["switch"], found["peer"]) == ("h2-n0/p1", "p1-leaf1:4")
        assert (await client.client.get("/api/nics/h2-n0/p2")).status_code == 404
