"""Of several controllers one with a fabric file that would take running flows off their paths never leads.

The journal here is as controllers of before wrote it: it does not say which fabric is in force, so each has its file.
`test_one_fabric` has what follows where it does.
"""

import asyncio
import contextlib
import logging
from contextlib import AsyncExitStack

import grpc
import httpx
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import SteppedDownError
from heddle.controller.runtime.journal import fitting
from heddle.controller.store.etcd.candidacy import Candidacy
from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.grown_files import LEAF_MORE, SPINE_MORE, SPINES_BEYOND, YARD
from tests.unit.api.conftest import running

WHY = "with this fabric file 1 running job, mesh ("
CHANGE = "because leaf1 has 5 uplinks, and the ports of running jobs have room for 4"


@pytest.fixture(autouse=True)
def journal_of_before(monkeypatch):
    """Let no controller write which fabric is in force."""
    described = fitting.described
    monkeypatch.setattr(fitting, "described", lambda fabric: described(fabric) | {fitting.WHOLE: None})


@pytest.fixture
def controller(one_etcd, tmp_path):
    """Return what starts a controller of the test's own fabric, from the text of its file and its name."""

    def started(text: str, name: str):
        fabric = parse_fabric(text.replace("name: yard", f"name: {tmp_path.name}"), f"{name}.yaml")
        cluster = {"endpoints": one_etcd.endpoints, "name": name, "advertise": f"{name}.example:1"}
        return running(fabric, cluster=cluster)

    return started


async def health(found) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(f"http://{found.addresses['http']}/healthz")


async def until_leads(found) -> None:
    while True:
        with contextlib.suppress(grpc.aio.AioRpcError):
            await found.fabric.GetTopology(pb.GetTopologyRequest(), timeout=10)
            return
        await asyncio.sleep(0.05)


async def until_health(found, status: int) -> str:
    """Wait until the health check names the job, with this status."""
    while WHY not in (said := await health(found)).text or said.status_code != status:
        await asyncio.sleep(0.05)
    return said.text


async def submitted(found) -> pb.JobPlan:
    await until_leads(found)
    await found.connect_all()
    collective = pb.Collective(kind="ALL_TO_ALL", bytes=3_000)
    ranks = [f"h{number}-n0" for number in range(1, 7)]
    return await found.jobs.SubmitJob(pb.SubmitJobRequest(job_id="mesh", ranks=ranks, collectives=[collective]))


async def test_it_waits_and_says_why_until_the_job_has_ended_under_the_former_file(controller, caplog):
    caplog.set_level(logging.INFO, "heddle.cluster")
    async with AsyncExitStack() as stays:
        async with controller(YARD, "c0") as leader:
            plan = await submitted(leader)
            grown = await stays.enter_async_context(controller(SPINES_BEYOND, "c1"))
            text = await until_health(grown, 200)
            assert text.startswith("c0.example:1 leads, and this controller does not stand: etcd at ")
            assert CHANGE in text
        text = await until_health(grown, 503)  # none leads now
        assert text.startswith("no leader is known, ")
        with pytest.raises(grpc.aio.AioRpcError, match=r"does not stand for election: .*1 running job, mesh \(") as why:
            await grown.jobs.GetJob(pb.GetJobRequest(job_id="mesh"), timeout=10)
        assert why.value.code() is grpc.StatusCode.UNAVAILABLE
        async with httpx.AsyncClient() as client:
            metrics = (await client.get(f"http://{grown.addresses['http']}/metrics")).text.splitlines()
        assert {"heddle_leader 0", "heddle_leader_unfit 1"} <= set(metrics)
        async with controller(YARD, "c0") as again:  # stands at once
            await until_leads(again)
            same = await again.jobs.GetJob(pb.GetJobRequest(job_id="mesh"), timeout=10)
            assert list(same.flows) == list(plan.flows)
            await again.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="mesh"), timeout=10)
        await until_leads(grown)
        assert (await health(grown)).text == "ok\n"
    said = [record.message for record in caplog.records if record.name == "heddle.cluster"]
    assert sum("this controller does not stand for election: etcd at" in line for line in said) == 1
    assert "this controller stands for election: its fabric file fits the jobs that run" in said


@pytest.mark.parametrize("text", [LEAF_MORE, SPINE_MORE], ids=["leaf", "spine"])
async def test_one_with_a_switch_more_takes_over_with_every_path_and_port(controller, text):
    async with AsyncExitStack() as stays:
        async with controller(YARD, "c0") as leader:
            plan = await submitted(leader)
            grown = await stays.enter_async_context(controller(text, "c1"))
        await until_leads(grown)
        same = await grown.jobs.GetJob(pb.GetJobRequest(job_id="mesh"), timeout=10)
        assert [(each.links, each.udp_source_port) for each in same.flows] == [
            (each.links, each.udp_source_port) for each in plan.flows
        ]


async def test_one_that_was_elected_with_such_a_file_lets_another_lead(controller, monkeypatch):
    """Between its check and its election another controller may have led."""

    async def stands(self) -> bool:
        return True

    async with controller(YARD, "c0") as leader:
        await submitted(leader)
    monkeypatch.setattr(Candidacy, "stands", stands)
    async with controller(SPINES_BEYOND, "c1") as grown:
        with pytest.raises(SteppedDownError, match=r"1 running job, mesh \("):
            await grown.application.failed()
