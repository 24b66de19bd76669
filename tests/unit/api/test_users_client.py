"""The clients of `heddle.client` call a real controller, and follow the one that leads."""

import asyncio
import contextlib
import io
import re
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

import heddle
from heddle import client
from heddle.foundation.leader_address import LEADER
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.unit.brain.driver import shift_job

PAGE = Path(__file__).parents[3] / "docs" / "library.md"
MAX_SEARCH_S = 2.0


class Member(rpc.JobServiceServicer):
    """A controller of several, of which one leads; the others refuse calls and name it."""

    def __init__(self):
        self.leader = ""
        self.calls = 0
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        rpc.add_JobServiceServicer_to_server(self, self._server)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def follow(self, leader):
        self.leader = leader
        status = health_pb2.HealthCheckResponse
        self._health.set("heddle.v1.JobService", status.NOT_SERVING if leader else status.SERVING)

    def GetJob(self, request, context):
        self.calls += 1
        if self.leader:
            context.set_trailing_metadata(((LEADER, self.leader),))
            context.abort(grpc.StatusCode.UNAVAILABLE, f"{self.leader} leads")
        return pb.JobPlan(job_id=request.job_id, reason=self.address)

    def ReleaseJob(self, request, context):
        self.calls += 1
        context.abort(grpc.StatusCode.UNAVAILABLE, "leaf1 does not reply")

    def stop(self):
        self._server.stop(None)


@pytest.fixture
def members():
    first, second = Member(), Member()
    first.follow("")
    second.follow(first.address)
    yield first, second
    first.stop()
    second.stop()


async def in_a_thread(work):
    return await asyncio.to_thread(work)


async def test_a_job_is_submitted_shown_renewed_and_released(controller):
    def session():
        with client.connect(controller.addresses["grpc"]) as found:
            preview = found.preview(shift_job("a"))
            plan = found.submit(shift_job("a"))
            again = [flow.udp_source_port for flow in found.flows("a")]
            states = preview.state, plan.state, found.job("a").generation, [job.job_id for job in found.jobs()]
            first = next(found.watch("a")).job_id
            found.renew("a", 60_000)
            found.release("a")
            return states, again == [flow.udp_source_port for flow in plan.flows], first, found.jobs()

    assert await in_a_thread(session) == (("planned", "running", 1, ["a"]), True, "a", [])


async def test_the_example_of_the_page_runs(controller):
    (code,) = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    address = controller.addresses["grpc"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        await in_a_thread(lambda: exec(code.replace("127.0.0.1:50051", address), {"heddle": heddle}))
    offline, state = printed.getvalue().splitlines()
    assert state.startswith(f"running {offline} ")


async def test_the_same_without_blocking(controller):
    async with client.connect_async(controller.addresses["grpc"]) as found:
        assert (await found.preview(shift_job("a"))).state == "planned"
        plan = await found.submit(shift_job("a"))
        ports = [flow.udp_source_port async for flow in found.flows("a")]
        assert ports == [flow.udp_source_port for flow in plan.flows]
        assert [job.job_id for job in await found.jobs()] == ["a"]
        async for watched in found.watch("a"):
            assert watched.generation == 1
            break
        await found.renew("a", 60_000)
        await found.release("a")
        assert await found.jobs() == []


async def test_errors_are_those_of_heddle(controller):
    async with client.connect_async(controller.addresses["grpc"]) as found:
        with pytest.raises(heddle.HeddleError, match="no job"):
            await found.job("none")
        with pytest.raises(heddle.InputError):
            await found.submit(shift_job("a", priority=99))
        with pytest.raises(heddle.HeddleError, match="no job"):
            async for _ in found.watch("none"):
                pass


def test_a_call_is_repeated_at_the_controller_that_leads_by_now(members):
    first, second = members
    with client.connect(f"{second.address},{first.address}", timeout_s=MAX_SEARCH_S) as found:
        assert found.job("a").reason == first.address
        first.follow(second.address)
        second.follow("")
        assert found.job("a").reason == second.address


async def test_the_same_for_many_tasks_at_once(members):
    first, second = members
    async with client.connect_async(f"{second.address},{first.address}", timeout_s=MAX_SEARCH_S) as found:

        async def leaders():
            return {plan.reason for plan in await asyncio.gather(*(found.job("a") for _ in range(8)))}

        assert await leaders() == {first.address}
        first.follow(second.address)
        second.follow("")
        assert await leaders() == {second.address}


def test_a_refusal_of_the_leader_itself_is_no_reason_to_repeat(members):
    first, _ = members
    with client.connect(first.address) as found:
        with pytest.raises(heddle.HeddleError, match=r"^leaf1 does not reply$"):
            found.release("a")
        assert first.calls == 1


def test_without_a_controller_it_is_one_line():
    with client.connect("127.0.0.1:1", timeout_s=0.1) as found, pytest.raises(heddle.HeddleError) as error:
        found.jobs()
    assert str(error.value).startswith("no controller at 127.0.0.1:1; ")


def test_certificates_that_are_missing_are_named(tmp_path):
    with pytest.raises(heddle.InputError, match="HEDDLE_TLS: "):
        client.connect("127.0.0.1:1", tls_directory=str(tmp_path / "none"))
