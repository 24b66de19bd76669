"""A controller of a fabric that hashes: no OpenFlow port, and plans whose paths probes have confirmed."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.request import urlopen

import grpc
import pytest

from heddle.controller.app import Application
from heddle.controller.config.service import ServiceConfig
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import SteeredBy
from heddle.programs.console.fabric import explain
from heddle.programs.console.jobs import list_jobs, show
from heddle.programs.console.telemetry.top import paths_confirmed
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
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


DOCUMENTS = ("/api/jobs", "/api/jobs/ring", "/api/health")


async def test_the_page_and_the_commands_show_what_was_confirmed_and_which_agents_are_attached(capsys):
    async with served(HashingSwitches(FABRIC)) as (addresses, jobs):
        plan = await jobs.SubmitJob(RING, timeout=60)
        base = f"http://{addresses['http']}"
        listed, job, health = [json.loads(await asyncio.to_thread(read, base + path)) for path in DOCUMENTS]
        await asyncio.to_thread(list_jobs, addresses["grpc"], "", as_json=False)
        await asyncio.to_thread(show, addresses["grpc"], "ring", as_json=False)
        await asyncio.to_thread(explain, addresses["grpc"], plan.flows[0].flow_id, as_json=False)
        light = await jobs.ListJobs(pb.ListJobsRequest(without_flows=True), timeout=10)
    seen, flows = plan.certificate.paths_confirmed, len(plan.flows)
    assert (listed["jobs"][0]["probed"], listed["jobs"][0]["paths_confirmed"]) == (True, seen)
    assert job["certificate"]["probes"] == plan.certificate.probes
    assert job["certificate"]["oldest_confirmation_ms"] > 0
    assert (health["probe_agents"]["attached"], health["probe_agents"]["expected"]) == (0, 8)
    assert health["probe_agents"]["missing"][0] == FABRIC.nics[0].host
    text = capsys.readouterr().out
    assert f"{seen} of {flows} │" in text
    assert f"probed: the paths of {seen} of {flows} flows are confirmed, the oldest at " in text
    assert f"Probes have confirmed the paths of {seen} of {flows} flows of the job" in text
    assert "NOT as planned" not in text
    assert [(each.flow_count, list(each.flows)) for each in light.jobs] == [(flows, [])]
    assert paths_confirmed(light.jobs).startswith(f"probed: the paths of {seen} of {flows} flows are confirmed")
    light.jobs[0].certificate.paths_confirmed = 0
    assert paths_confirmed(light.jobs).endswith("; not all of ring")


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
