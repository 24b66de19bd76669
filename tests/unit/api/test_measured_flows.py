"""GetJob and StreamFlows carry the rates that hosts report of a job's flows, and /metrics their sums."""

import asyncio

import pytest

from heddle.controller.api.translate import request_to
from heddle.programs.console.jobs import show
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.test_reports import reported
from tests.unit.brain.driver import shift_job
from tests.unit.dashboard.test_metrics import samples, scraped

SECOND_NS = 10**9
RATE_BPS = 300_000_000


def sending(flow, second, qpn=7):
    """Return the report of a flow's host at a second, if it sends at RATE_BPS."""
    source, target = (f"10.0.0.{nic[1:].partition('-')[0]}" for nic in (flow.src_nic, flow.dst_nic))
    pair = pb.ObservedFlow(
        src_ip=source, dst_ip=target, udp_source_port=flow.udp_source_port, src_qpn=qpn, dst_qpn=qpn + 1,
        sent_bytes=RATE_BPS // 8 * second, timestamp_unix_ns=second * SECOND_NS,
    )  # fmt: skip
    return pb.ObservedFlows(host=flow.src_nic.partition("-")[0], flows=[pair])


async def submitted(controller):
    """Submit a job and report its first flow at two seconds; return the plan as submitted."""
    plan = await controller.jobs.SubmitJob(request_to(shift_job("a")))
    first = plan.flows[0]
    await reported(controller, first.src_nic.partition("-")[0], sending(first, 1), sending(first, 2))
    return plan


async def test_a_job_has_the_rate_of_the_flow_that_is_measured_and_none_of_the_others(controller):
    plan = await submitted(controller)
    assert not any(flow.HasField("measured_bps") for flow in plan.flows)
    found = (await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))).flows
    pages = [page async for page in controller.jobs.StreamFlows(pb.GetJobRequest(job_id="a"))]
    for flows in (found, [flow for page in pages for flow in page.flows]):
        assert [flow.measured_bps for flow in flows if flow.HasField("measured_bps")] == [RATE_BPS]
        assert flows[0].measured_bps == RATE_BPS


async def test_a_flow_whose_host_has_reported_once_is_not_measured(controller):
    plan = await controller.jobs.SubmitJob(request_to(shift_job("a")))
    first = plan.flows[0]
    await reported(controller, first.src_nic.partition("-")[0], sending(first, 1))
    found = (await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))).flows
    assert not any(flow.HasField("measured_bps") for flow in found)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_flow_that_its_host_no_longer_lists_is_not_measured(controller, ended):
    first = (await submitted(controller)).flows[0]
    host = first.src_nic.partition("-")[0]
    if ended:
        await reported(controller, host, pb.ObservedFlows(host=host))
    found = (await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))).flows
    assert any(flow.HasField("measured_bps") for flow in found) is not ended


async def test_metrics_have_the_sums_of_the_jobs_that_are_measured(controller):
    await submitted(controller)
    await controller.jobs.SubmitJob(request_to(shift_job("b", by=4)))
    plan = await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
    found = {name: (labels, value) for (name, labels), value in samples(await scraped(controller)).items()}
    assert found["heddle_job_measured_flows"] == ('job="a"', 1)
    assert found["heddle_job_measured_bits_per_second"] == ('job="a"', RATE_BPS)
    assert found["heddle_job_planned_bits_per_second"] == ('job="a"', plan.flows[0].rate_bps)


async def test_job_show_prints_the_measured_rate_beside_the_planned_one(controller, capsys):
    plan = await submitted(controller)
    await asyncio.to_thread(show, controller.addresses["grpc"], "a", as_json=False)
    lines = {line.split()[0].rstrip(":"): line for line in capsys.readouterr().out.splitlines() if ": port " in line}
    assert "Gbit/s, measured 300 Mbit/s, leaf" in lines[plan.flows[0].flow_id]
    assert not any("measured" in lines[flow.flow_id] for flow in plan.flows[1:])
