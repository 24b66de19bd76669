"""Calls beyond the limits of their caller are refused with the time to try again; other callers are served."""

import asyncio
import sys

import grpc
import pytest

from heddle.controller.api.limits import RETRY_KEY
from heddle.controller.api.peer import caller_of
from heddle.controller.config.limits import LimitsConfig
from heddle.controller.runtime.limits.limited import Limit
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.support.fabrics.small_fabrics import spine_leaf
from tests.unit.api.conftest import running

LIST = pb.ListJobsRequest()
APART = [("grpc.use_local_subchannel_pool", 1)]
"""A channel with connections of its own, which on loopback is a caller of its own."""


def limited(**limits):
    return running(limits=LimitsConfig(**limits))


async def test_a_caller_beyond_its_rate_gets_the_time_to_try_again_and_another_is_served():
    async with limited(calls_per_second=1, calls_burst=2) as controller:
        for _ in range(2):
            await controller.jobs.ListJobs(LIST)
        with pytest.raises(grpc.aio.AioRpcError, match="try again in") as refused:
            await controller.jobs.ListJobs(LIST)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert 0 < int(dict(refused.value.trailing_metadata())[RETRY_KEY]) <= 1_000
        async with grpc.aio.insecure_channel(controller.addresses["grpc"], options=APART) as channel:
            await rpc.JobServiceStub(channel).ListJobs(LIST)
        assert controller.application.limited[Limit.RATE] == 1


async def test_streams_of_a_caller_are_bounded_and_another_opens_one():
    async with limited(streams=2) as controller:
        opened = [controller.fabric.WatchTopology(pb.GetTopologyRequest()) for _ in range(2)]
        for stream in opened:
            await stream.read()
        with pytest.raises(grpc.aio.AioRpcError, match="has 2 streams open already"):
            await controller.fabric.WatchTopology(pb.GetTopologyRequest()).read()
        async with grpc.aio.insecure_channel(controller.addresses["grpc"], options=APART) as channel:
            await rpc.FabricServiceStub(channel).WatchTopology(pb.GetTopologyRequest()).read()
        opened[0].cancel()
        await until_served(lambda: controller.fabric.WatchTopology(pb.GetTopologyRequest()).read())


async def test_more_parallel_calls_than_are_in_progress_at_a_time_are_all_answered():
    async with limited(calls_in_progress=2) as controller:
        await asyncio.gather(*(controller.jobs.ListJobs(LIST) for _ in range(100)))
        assert not controller.application.limited


async def test_more_nodes_of_one_caller_meet_than_it_has_calls_in_progress():
    async with limited(calls_in_progress=2) as controller:
        nics = [nic.id for nic in controller.application.loop.state.fabric.nics][:6]
        joins = [
            controller.jobs.JoinJob(pb.JoinJobRequest(job_id="wide", node_rank=i, node_count=6, nics=[nic]), timeout=60)
            for i, nic in enumerate(nics)
        ]
        assert [list((await join).nics) for join in joins] == [nics] * 6


async def test_replies_that_a_stopped_client_does_not_read_are_bounded_and_another_client_is_served():
    many = {"calls_in_progress": 1_000, "unread_megabytes": 1}
    async with running(spine_leaf(4, 8, 16, 10**11), limits=LimitsConfig(**many)) as controller:
        command = (
            sys.executable,
            "-m",
            "tests.support.controllers.stopped_client",
            controller.addresses["grpc"],
            "600",
            "",
        )
        stopped = await asyncio.create_subprocess_exec(*command)
        try:
            async with asyncio.timeout(60):
                while not controller.application.limited[Limit.UNREAD]:
                    await asyncio.sleep(0.01)
            await controller.fabric.GetTopology(pb.GetTopologyRequest())
        finally:
            stopped.kill()
            await stopped.wait()


async def until_served(call):
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.01)


class Context:
    def __init__(self, peer, **properties):
        self.peer = lambda: peer
        self.auth_context = lambda: properties


@pytest.mark.parametrize(
    ("context", "name"),
    [
        (Context("ipv4:10.0.0.1:5000"), "ipv4:10.0.0.1"),
        (Context("ipv6:%5B2001:db8::1%5D:5000"), "ipv6:%5B2001:db8::1%5D"),
        (Context("ipv4:127.0.0.1:5000"), "ipv4:127.0.0.1:5000"),
        (Context("ipv6:%5B::1%5D:5000"), "ipv6:%5B::1%5D:5000"),
        (Context("unix:"), "unix:"),
        (Context("ipv4:127.0.0.1:5000", peer_spiffe_id=[b"spiffe://heddle/f/tenant/a"]), "spiffe://heddle/f/tenant/a"),
    ],
)
def test_a_caller_is_its_identity_else_its_address_and_on_loopback_its_connection(context, name):
    assert caller_of(context) == name
