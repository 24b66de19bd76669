"""Controllers as processes over a real etcd: who serves, who refuses, and how callers find the leader."""

import subprocess
import sys
import time

import grpc
import httpx
import pytest

from heddle.foundation.leader_address import LEADER, LeaderAddress, leader_in
from heddle.programs.console.client import connected
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.clusters.cluster import ControllerCluster


@pytest.fixture
def cluster(tmp_path, one_etcd):
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(
        f"version: 1\nname: {tmp_path.name}\n"
        "generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
    )
    found = ControllerCluster(tmp_path, fabric, one_etcd, count=2)
    try:
        yield found
    finally:
        found.close()


def vpc(name: str, vni: int) -> pb.Vpc:
    found = pb.Vpc(id=name, network="business", vni=vni)
    found.subnets.add(cidr="10.0.0.0/24", gateway_ip="10.0.0.1")
    return found


def metric(member, name):
    """Return a metric without labels; None where the controller has none of that name."""
    lines = httpx.get(f"http://{member.http}/metrics").text.splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), None)


def refused(follower):
    """Return how a follower refuses a call once it knows the leader, which it learns a moment after the election."""
    with grpc.insecure_channel(follower.grpc) as channel:
        while True:
            with pytest.raises(grpc.RpcError) as refusal:
                rpc.VpcServiceStub(channel).ListVpcs(pb.ListVpcsRequest())
            assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
            if "no leader is known yet" not in refusal.value.details():
                return refusal.value
            time.sleep(0.05)


def test_a_follower_names_the_leader_and_takes_over_with_everything_that_was_acknowledged(cluster):
    leader = cluster.leader()
    (follower,) = (member for member in cluster.members if member is not leader)
    refusal = refused(follower)
    assert leader_in(refusal.trailing_metadata()) == leader.grpc in refusal.details()
    assert httpx.get(f"http://{follower.http}/healthz").text == "ok\n"
    page = httpx.get(f"http://{follower.http}/")
    assert page.status_code == 503
    assert leader.grpc in page.text
    assert (metric(leader, "heddle_leader"), metric(follower, "heddle_leader")) == (1, 0)
    assert metric(follower, "heddle_switches") is None  # it knows nothing of them
    with connected(follower.grpc) as client:  # follows the trailer
        client.vpcs.ApplyVpc(vpc("kept", 7))
    assert leader.end() == 0  # it resigns
    assert cluster.leader() is follower
    assert metric(follower, "heddle_leader") == metric(follower, "heddle_leader_takeovers_total") == 1
    assert metric(follower, "heddle_etcd_call_seconds_total") > 0
    assert metric(follower, "heddle_switches") == 3
    with connected(cluster.addresses) as client:
        assert [each.id for each in client.vpcs.ListVpcs(pb.ListVpcsRequest()).vpcs] == ["kept"]
        client.vpcs.ApplyVpc(vpc("more", 8))
    command = [sys.executable, "-m", "heddle.programs.console.main", "vpc", "list", "--server", cluster.addresses]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "kept" in shown
    assert "more" in shown
    assert follower.end() == 0
    assert not any("Traceback" in member.log.read_text() for member in cluster.members)


def test_the_address_to_call_is_the_leaders_or_the_next_of_the_list():
    address = LeaderAddress("a:1, b:2")
    found = [address.current]
    for trailers in (None, ((LEADER, "c:3"),), ((LEADER, "c:3"),), None, None):
        address.failed(trailers)
        found.append(address.current)
    assert found == ["a:1", "b:2", "c:3", "b:2", "a:1", "b:2"]
