"""A controller of a fabric that hashes: no OpenFlow port, and plans whose paths probes have confirmed."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.request import urlopen

import grpc
import pytest

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.api.proto.heddle.v1 import heddle_pb2_grpc as rpc
from controller.app import Application
from controller.config.service import ServiceConfig
from controller.model.error import InputError
from controller.model.fabric import SteeredBy
from tests.fakes.probing.hashing_switches import HashingSwitches
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.unit.brain.driver import small_fabric

FABRIC = replace(small_fabric(), steered_by=SteeredBy.HASH)
RING = pb.SubmitJobRequest(
    job_id="ring",
    ranks=[nic.id for nic in FABRIC.nics],
    collectives=[pb.Collective(kind="RING_ALL_REDUCE", bytes=1_000_000)],
)


PATHS = ("/api/state", "/metrics")


def read(url: str) -> bytes:
    with urlopen(url, timeout=10) as reply:
        return reply.read()


class BrokenFinder:
    async def find(self, flows, ways):
        raise RuntimeError("a fault of the test")


@asynccontextmanager
async def served(finder, fabric=FABRIC, **more):
    config = ServiceConfig(openflow="127.0.0.1:0", grpc="127.0.0.1:0", http="127.0.0.1:0", **more)
    application = Application(fabric, config, ThreadPlanner(fabric), ThreadCompiler(fabric), finder=finder)
    async with application.started() as addresses, grpc.aio.insecure_channel(addresses["grpc"]) as channel:
        yield addresses, rpc.JobServiceStub(channel)


async def test_a_job_is_planned_without_a_switch_and_its_certificate_says_what_was_confirmed():
    async with served(HashingSwitches(FABRIC)) as (addresses, jobs):
        plan = await jobs.SubmitJob(RING, timeout=60)
        read = await jobs.GetJob(pb.GetJobRequest(job_id="ring"), timeout=10)
        watched = await anext(aiter(jobs.WatchJob(pb.WatchJobRequest(job_id="ring"), timeout=10)))
    assert "openflow" not in addresses
    assert plan.certificate.probed
    assert plan.certificate.paths_confirmed == len(plan.flows)
    assert plan.certificate.probes > 0
    assert plan.certificate.oldest_confirmation_unix_ms > 0
    assert read.certificate.paths_confirmed == watched.certificate.paths_confirmed == len(plan.flows)


@pytest.mark.parametrize(("finder", "why"), [(None, "no probe agent at h"), (BrokenFinder(), "a fault of the test")])
async def test_without_working_probes_a_job_is_refused_with_the_reason(finder, why):
    async with served(finder) as (_, jobs):
        with pytest.raises(grpc.aio.AioRpcError, match=why):
            await jobs.SubmitJob(RING, timeout=60)


async def test_switches_without_sessions_are_no_fault():
    async with (
        served(HashingSwitches(FABRIC)) as (addresses, _),
        grpc.aio.insecure_channel(addresses["grpc"]) as channel,
    ):
        topology = await rpc.FabricServiceStub(channel).GetTopology(pb.GetTopologyRequest(), timeout=10)
        state, metrics = [await asyncio.to_thread(read, f"http://{addresses['http']}{path}") for path in PATHS]
    assert topology.hashes
    assert json.loads(state)["switches"]["connected"] is None
    assert b"heddle_switches 6" in metrics
    assert b"heddle_switches_connected" not in metrics


async def test_jobs_of_a_journal_are_not_continued_under_another_steering(tmp_path):
    async with served(HashingSwitches(FABRIC), state=str(tmp_path)) as (_, jobs):
        await jobs.SubmitJob(RING, timeout=60)
    with pytest.raises(InputError, match=r"job ring was planned with `steering: hash`, .* has `openflow`"):
        async with served(None, small_fabric(), state=str(tmp_path)):
            pass
    async with served(HashingSwitches(FABRIC), state=str(tmp_path)) as (_, jobs):
        await jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="ring"), timeout=10)
    for fabric in (small_fabric(), FABRIC):
        async with served(None, fabric, state=str(tmp_path)) as (_, jobs):
            assert not (await jobs.ListJobs(pb.ListJobsRequest(), timeout=10)).jobs
