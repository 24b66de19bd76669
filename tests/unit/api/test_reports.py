"""ReportFlows: a large flow of no job is pinned while hosts report it."""

import grpc
import pytest

from heddle.controller.api.services import reports
from heddle.controller.api.translate import request_to
from heddle.foundation.kernel_port import kernel_source_port
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import running
from tests.unit.brain.driver import shift_job, small_fabric

SECOND_NS = 10**9
JOB = f"observed.h1-n0.h3-n0.{kernel_source_port(7, 9)}"


def report(host, second, own, peer, sent=0):
    flow = pb.ObservedFlow(
        src_ip=f"10.0.0.{host[1:]}", src_qpn=own, dst_qpn=peer, sent_bytes=sent * second,
        timestamp_unix_ns=second * SECOND_NS,
    )  # fmt: skip
    return pb.ObservedFlows(host=host, flows=[flow])


async def reported(controller, host, *messages):
    stream = controller.jobs.ReportFlows()
    for message in messages:
        await stream.write(message)
    await stream.done_writing()
    return (await stream).flows_pinned


async def pin(controller):
    """Report a flow of 0.4 of its NIC from both hosts."""
    await reported(controller, "h3", report("h3", 1, 9, 7))
    messages = [report("h1", second, 7, 9, sent=50_000_000) for second in (1, 2)]
    return await reported(controller, "h1", *messages)


async def jobs_of(controller):
    return {plan.job_id: plan for plan in (await controller.jobs.ListJobs(pb.ListJobsRequest())).jobs}


async def test_a_large_flow_is_pinned_with_the_port_that_it_has(controller):
    assert await pin(controller) == 1
    (flow,) = (await jobs_of(controller))[JOB].flows
    assert (flow.src_nic, flow.dst_nic, flow.udp_source_port) == ("h1-n0", "h3-n0", kernel_source_port(7, 9))
    assert flow.pinned


async def test_a_flow_that_is_gone_is_released(controller):
    await pin(controller)
    assert await reported(controller, "h1", pb.ObservedFlows(host="h1")) == 0
    assert await jobs_of(controller) == {}


async def test_a_flow_between_nics_of_a_job_is_left_to_it(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    assert await pin(controller) == 0
    assert set(await jobs_of(controller)) == {"a"}


async def test_a_job_that_has_ended_otherwise_is_submitted_again(controller):
    await pin(controller)
    await controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id=JOB))
    assert await pin(controller) == 1
    assert set(await jobs_of(controller)) == {JOB}


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([pb.ObservedFlows(host="elsewhere")], "no host"),
        ([pb.ObservedFlows(host="h1"), pb.ObservedFlows(host="h2")], "one host"),
        ([pb.ObservedFlows(host="h1", flows=[pb.ObservedFlow(src_ip="10.0.0.256")])], "no IPv4 address"),
        ([pb.ObservedFlows(host="h1", flows=[pb.ObservedFlow(src_ip="10.0.0.1", udp_source_port=65_536)])], "65535"),
    ],
)
async def test_a_report_that_makes_no_sense_is_refused(controller, messages, why):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await reported(controller, messages[0].host, *messages)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert why in refused.value.details()


async def test_streams_that_are_refused_cost_a_few_plans_a_turn_and_each_has_its_turn(monkeypatch):
    fabric = small_fabric()
    async with running(fabric) as controller:  # no switch is connected: every job is refused
        counts = controller.application.attached.flows.counts
        tried = []
        request = controller.application.loop.request

        async def noted(made):
            tried.append(made(0).request.job_id)
            return await request(made)

        monkeypatch.setattr(controller.application.loop, "request", noted)
        await many(controller, 1)
        for turn in range(1, 4):
            await many(controller, turn + 1)
            assert counts["refused"] == turn * reports.MAX_REFUSED
        assert len(set(tried)) == 3 * reports.MAX_REFUSED
        shares = [int(name.rpartition(".")[2]) for name in tried]
        assert shares == sorted(shares, reverse=True)  # the port says how large it is


async def many(controller, second):
    """Report thirty flows of h1 whose rates grow with their ports."""
    flows = [
        pb.ObservedFlow(
            src_ip="10.0.0.1", dst_ip="10.0.0.3", udp_source_port=50_000 + number, src_qpn=number, dst_qpn=number,
            sent_bytes=(20 + number) * 10**6 * second, timestamp_unix_ns=second * SECOND_NS,
        )
        for number in range(1, 31)
    ]  # fmt: skip
    await reported(controller, "h1", pb.ObservedFlows(host="h1", flows=flows))
