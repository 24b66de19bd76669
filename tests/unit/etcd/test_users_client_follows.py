"""The clients of `heddle.client` follow the leader of two controllers, processes over a real etcd."""

import asyncio
import contextlib
import time

import pytest

import heddle
from heddle import client
from heddle.controller.config.load import load_fabric
from tests.support.clusters.cluster import ControllerCluster
from tests.support.clusters.shared_switches import shared_switches

SEARCH_S = 60.0
"""Seconds within which another controller has to lead: a lease, and a busy machine."""
RING = heddle.Collective(kind=heddle.CollectiveKind.RING_ALL_REDUCE, size_bytes=1_000_000)
JOB = heddle.Job(job_id="train", ranks=("h1-n0", "h2-n0"), collectives=(RING,))


@pytest.fixture
def site(tmp_path, one_etcd):
    """Two controllers of a small fabric, with the switches connected to both."""
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(
        f"version: 1\nname: {tmp_path.name}\n"
        "generate: {kind: spine_leaf, spines: 1, leaves: 2, hosts_per_leaf: 1, gbps: 100}\n"
    )
    with (
        ControllerCluster(tmp_path, fabric, one_etcd, count=2) as cluster,
        shared_switches(load_fabric(fabric), [member.openflow for member in cluster.members]),
    ):
        yield cluster


def submitted(found, job):
    """Submit a job once the switches of its paths are connected."""
    end = time.monotonic() + SEARCH_S
    while True:
        with contextlib.suppress(heddle.HeddleError):
            return found.submit(job)
        assert time.monotonic() < end
        time.sleep(0.1)


def ports(flows):
    return [(flow.flow_id, flow.udp_source_port) for flow in flows]


@pytest.mark.soak
def test_a_client_goes_on_with_its_jobs_where_the_leader_is_killed(site):
    leader = site.leader()
    (other,) = (member for member in site.members if member is not leader)
    with client.connect(site.addresses, timeout_s=SEARCH_S) as found:
        plan = submitted(found, JOB)
        watched = found.watch("train")
        assert next(watched).state == "running"
        leader.kill()
        with pytest.raises(heddle.HeddleError):
            list(watched)
        assert ports(found.job("train").flows) == ports(plan.flows)
        assert ports(found.flows("train")) == ports(plan.flows)
        assert other.leads()

        async def session():
            async with client.connect_async(site.addresses, timeout_s=SEARCH_S) as without_blocking:
                kept = ports([flow async for flow in without_blocking.flows("train")])
                await without_blocking.release("train")
                return kept, await without_blocking.jobs()

        assert asyncio.run(session()) == (ports(plan.flows), [])
