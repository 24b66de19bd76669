"""A jobs file is checked against the fabric of a running controller, which names the NVLink domains of NICs."""

import json

from heddle.client.topology import fabric_of
from heddle.controller.config import parse_jobs
from heddle.controller.config.load import parse_fabric
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import running

SHAPE = {
    "kind": "rail_optimised", "spines": 2, "leaves": 2, "hosts_per_leaf": 2, "nics_per_host": 2,
    "hosts_per_nvlink_domain": 1,
}  # fmt: skip
FABRIC = parse_fabric(json.dumps({"version": 1, "generate": SHAPE, "steering": "srv6"}), "fabric.yaml")


async def test_a_job_with_the_flows_of_nccl_is_submitted_to_a_running_controller():
    job = {
        "job_id": "a",
        "ranks": {"all": True},
        "collectives": [{"kind": "RING_ALL_REDUCE", "bytes": 1, "algorithm": "NCCL"}],
    }
    async with running(FABRIC) as found:
        fabric = fabric_of(await found.fabric.GetTopology(pb.GetTopologyRequest()))
    read = parse_jobs(json.dumps({"version": 1, "jobs": [job]}), "jobs.yaml", fabric)
    assert [len(each.ranks) for each in read] == [4]
