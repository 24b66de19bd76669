"""Write what a controller of this version leaves behind, for tests of later versions: its files, journal and recording.

python -m tests.support.controllers.written_state FOLDER

There are jobs that choose their ports and one that is pinned, a cable that failed and returned, a drain, a job that
ended, and networks. `jobs.json` has the plans as callers read them last, `networks.json` the networks.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message

from heddle.controller.config.load import load_fabric
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.controllers.controller_process import PATIENCE_S, Controller
from tests.support.processes.running_switches import Switches, switches

FABRIC = """\
version: 1
name: earlier
generate: {kind: clos3, pods: 2, leaves: 2, aggs_per_pod: 2, spines: 4, hosts_per_leaf: 2, gbps: 100}
"""
CONFIG = """\
default_lease_ms: 2592000000
moves: {arrival: own_job 8, failure: any 16, drain: any 32}
record: record
audit: none
log_level: warning
"""
SETTLED_S = 5.0
"""Seconds in which all that follows from an event has been decided and published, on a busy machine."""
RANKS = [f"h{host}-n0" for host in range(1, 9)]
RING = pb.Collective(kind="RING_ALL_REDUCE", bytes=64_000_000, qps_per_flow=2)
JOBS = (
    pb.SubmitJobRequest(job_id="ring", tenant="blue", ranks=RANKS, collectives=[RING], priority=4),
    pb.SubmitJobRequest(
        job_id="phases", tenant="blue", ranks=RANKS[:3], gpu_milli=500, collectives=[
            pb.Collective(kind="ALL_TO_ALL", bytes=6_000_000),
            pb.Collective(kind="GATHER", bytes=1_000_000, root=2, phase=1),
        ],
    ),
    pb.SubmitJobRequest(
        job_id="pinned", tenant="red", ranks=RANKS[::-1], steering="PIN",
        collectives=[pb.Collective(kind="ALL_GATHER", bytes=8_000_000)],
        move_limits=[pb.MoveLimit(cause="FAILURE", whose="OWN_JOB", max_flows=4)],
    ),
    pb.SubmitJobRequest(job_id="left", ranks=RANKS[:2], collectives=[RING]),
)  # fmt: skip
VPCS = [
    pb.Vpc(
        id=name, tenant=name, vni=vni, nat=pb.NatGateway(public_ip=f"203.0.113.{vni}"),
        subnets=[pb.Subnet(cidr="10.0.0.0/24", gateway_ip="10.0.0.254")],
        endpoints=[pb.Endpoint(ip="10.0.0.1", mac="02:00:00:00:00:01", vtep_ip="10.0.0.1")],
        security_rules=[pb.SecurityRule(allow=True, direction="in", protocol="any", remote_cidr="0.0.0.0/0")],
    )
    for name, vni in (("blue", 100), ("red", 101))
]  # fmt: skip
BALANCER = pb.LoadBalancer(
    id="web", tenant="blue", vpc_id="blue", vip="10.0.0.100", port=80, protocol="tcp", mode="full_nat",
    backends=[pb.Backend(ip="10.0.0.1", port=8080, weight=3)],
)  # fmt: skip
STORAGE = pb.BorderRule(allow=True, vpc="blue", network="storage", remote_cidr="192.0.2.0/24", protocol="any")


def write(folder: Path) -> None:
    """Run a controller beside fake switches, change its jobs, cables and networks, and end it; make `folder`."""
    folder.mkdir(parents=True)
    (folder / "fabric.yaml").write_text(FABRIC)
    (folder / "config.yaml").write_text(CONFIG)
    os.chdir(folder)  # where `record` of the config file is
    running = Controller(Path("fabric.yaml"), more=["--config", "config.yaml", "--state", "state"])
    try:
        with switches(load_fabric(Path("fabric.yaml")), running.openflow) as found:
            running.wait_for_rules()
            _change(running, found)
            plans = [_document(running.jobs.GetJob(pb.GetJobRequest(job_id=each.job_id))) for each in JOBS[:3]]
        networks = networks_of(running)
    finally:
        running.end()
    Path("jobs.json").write_text(json.dumps(plans, indent=1) + "\n")
    Path("networks.json").write_text(json.dumps(networks, indent=1) + "\n")
    Path("fabric.log").unlink()


def networks_of(running: Controller) -> dict[str, Any]:
    """Return the networks that a controller has, as a document."""
    networks = rpc.VpcServiceStub(running.channel)
    return {
        "vpcs": _document(networks.ListVpcs(pb.ListVpcsRequest()))["vpcs"],
        "balancers": _document(networks.ListLoadBalancers(pb.ListVpcsRequest())),
        "border": _document(networks.GetBorder(pb.GetBorderRequest())),
    }


def _change(running: Controller, found: Switches) -> None:
    for job in JOBS:
        running.jobs.SubmitJob(job)
    networks = rpc.VpcServiceStub(running.channel)
    for vpc in VPCS:
        networks.ApplyVpc(vpc)
    networks.ApplyLoadBalancer(BALANCER)
    networks.ApplyBorder(pb.Border(rules=[STORAGE]))
    running.fabric.Drain(pb.DrainRequest(target="pod2-agg2"))
    for up in (False, True):
        found.set_cable(found.fabric.cables[0], up=up)
        _wait_until_links(running, up=up)
    running.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="left"))
    time.sleep(SETTLED_S)


def _wait_until_links(running: Controller, *, up: bool) -> None:
    """Wait until the controller has all links in use, or not; and then until what follows has been decided."""
    end = time.monotonic() + PATIENCE_S
    while all(link.up for link in running.fabric.GetTopology(pb.GetTopologyRequest()).links) != up:
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(SETTLED_S)


def _document(message: Message) -> dict[str, Any]:
    return json_format.MessageToDict(message)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
