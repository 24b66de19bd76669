"""ICMPv6 errors that hosts report of planned flows: a hint in events, metrics and explanations that moves no flow."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.unit.api.test_hash_fabric import read, served
from tests.unit.api.test_srv6_fabric import FABRIC, RING


class Site:
    """A controller with a job, and one of its flows that crosses a spine."""

    def __init__(self, addresses, jobs, plan) -> None:
        self.addresses, self.jobs = addresses, jobs
        self.flow = next(flow for flow in plan.flows if len(flow.links) > 2)
        self.host = self.flow.src_nic.partition("-")[0]

    async def report(self, path_errors: int, left: str) -> None:
        flow, nics = self.flow, FABRIC.nic_by_id
        pair = pb.ObservedFlow(
            src_ip=f"10.0.0.{nics[flow.src_nic].ip & 255}", dst_ip=f"10.0.0.{nics[flow.dst_nic].ip & 255}",
            udp_source_port=flow.udp_source_port, src_qpn=7, dst_qpn=9, path_errors=path_errors, left_sid=left,
        )  # fmt: skip
        stream = self.jobs.ReportFlows()
        await stream.write(pb.ObservedFlows(host=self.host, flows=[pair]))
        await stream.done_writing()
        await stream

    async def explained(self) -> str:
        async with grpc.aio.insecure_channel(self.addresses["grpc"]) as channel:
            request = pb.ExplainRequest(flow_id=self.flow.flow_id)
            return (await rpc.FabricServiceStub(channel).Explain(request, timeout=10)).text

    async def notes(self) -> dict[str, list[str]]:
        async with grpc.aio.insecure_channel(self.addresses["grpc"]) as channel:
            stub = rpc.TelemetryServiceStub(channel)
            events = [event async for event in stub.WatchEvents(pb.WatchEventsRequest(history_only=True), timeout=10)]
        return {event.subject: event.text for event in events if "ICMPv6" in event.text}

    async def counted(self) -> int:
        page = (await asyncio.to_thread(read, f"http://{self.addresses['http']}/metrics")).decode()
        (line,) = [line for line in page.splitlines() if line.startswith("heddle_flow_reports_path_errors_total ")]
        return int(line.split()[1])


@asynccontextmanager
async def site():
    async with served(None, FABRIC) as (addresses, jobs):
        yield Site(addresses, jobs, await jobs.SubmitJob(RING, timeout=60))


def left_of(sid: str, shifted: int) -> str:
    """Return an address of block fcbb:0 after some uSIDs were shifted away."""
    usids = sid.removeprefix("fcbb:0:").removesuffix("::").split(":")[shifted:]
    return "fcbb:0:" + ":".join(usids) + "::"


async def test_an_error_names_the_link_that_a_packet_did_not_take():
    async with site() as here:
        await here.report(3, left_of(here.flow.sid, 1))
        refused, text = here.flow.links[2], await here.explained()
        assert f"3 ICMPv6 errors say that its packets are refused before {refused}: a hint, no evidence." in text
        assert await here.notes() == {
            refused: f"3 ICMPv6 errors say that packets of {here.flow.flow_id} are refused here: a hint, no evidence"
        }
        assert await here.counted() == 3


async def test_later_errors_are_counted_and_have_no_line_of_their_own_at_once():
    async with site() as here:
        for errors in (3, 5, 5):
            await here.report(errors, left_of(here.flow.sid, 1))
        assert await here.counted() == 5
        assert "3 ICMPv6 errors" in "".join((await here.notes()).values())
        assert "5 ICMPv6 errors" in await here.explained()


async def test_errors_alone_move_no_flow():
    async with site() as here:
        await here.report(1000, left_of(here.flow.sid, 0))
        plan = await here.jobs.GetJob(pb.GetJobRequest(job_id="ring"), timeout=10)
        assert (plan.generation, plan.state) == (1, "running")


async def test_an_error_of_another_path_names_no_link():
    async with site() as here:
        await here.report(3, "fcbb:0:e009:e001::")
        assert "ICMPv6" not in await here.explained()
        assert await here.notes() == {}
        assert await here.counted() == 3


async def test_without_errors_nothing_is_read_of_the_address():
    async with site() as here:
        await here.report(0, "nonsense")
        assert await here.counted() == 0


@pytest.mark.parametrize("left", ["", "10.0.0.1", "fcbb::g"])
async def test_an_address_that_is_none_is_refused(left):
    async with site() as here:
        with pytest.raises(grpc.aio.AioRpcError, match=r"flows\[0\].left_sid: .* is no IPv6 address"):
            await here.report(1, left)
