"""What no path set can be made for: a running controller refuses it with one clear line, and its jobs go on."""

import json

import grpc
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import running

SHAPE = {"kind": "spine_leaf", "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "gbps": 100}
TOO_MANY = "3, but leaves of this fabric have at most 2 paths between them: ask for at most so many"
PORTS = [{"port": "p0-leaf1:9", "gbps": 100}, {"port": "p0-leaf2:9", "gbps": 100}]
TWICE = {"id": "h9", "nics": [{"id": "h9-n0", "ip": "10.9.0.1", "ports": PORTS}]}
ONE_PLANE = (
    "hosts[0].nics[0].ports[1].port: p0-leaf2:9 is in plane 0, as p0-leaf1:9: a NIC has one port a plane; "
    "plug it into a switch of another, or give each port its `plane`"
)


def document(**more):
    return {"version": 1, "name": "lab", "steering": "srv6", "generate": {**SHAPE, "planes": 2}, **more}


async def test_a_running_controller_refuses_both_and_its_jobs_go_on():
    async with running(parse_fabric(json.dumps(document()), "fabric.yaml")) as found:
        collectives = [pb.Collective(kind="RING_ALL_REDUCE", bytes=1, paths_per_flow=2)]
        ranks = [f"h{host}-n0" for host in (1, 2, 3, 4)]
        await found.jobs.SubmitJob(pb.SubmitJobRequest(job_id="a", ranks=ranks, collectives=collectives))
        collectives[0].paths_per_flow = 3
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await found.jobs.SubmitJob(pb.SubmitJobRequest(job_id="b", ranks=ranks, collectives=collectives))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert refused.value.details() == f"job b: collectives[0].paths_per_flow: {TOO_MANY}"
        text = json.dumps(document(hosts=[TWICE]))
        with pytest.raises(grpc.aio.AioRpcError) as unfit:
            await found.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=True))
        assert unfit.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert ONE_PLANE in (unfit.value.details() or "")
        assert (await found.jobs.GetJob(pb.GetJobRequest(job_id="a"))).state == "running"
