import asyncio
import threading
from dataclasses import replace

import grpc
import pytest

from heddle.controller.api.services.connected_pairs import ConnectedPairs
from heddle.controller.api.translate import request_to
from heddle.controller.model.health import Health
from heddle.controller.model.job import CollectiveKind, Steering
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.conftest import running
from tests.unit.brain.driver import shift_job, small_fabric

BARRIER_REQUEST = 20


def message(job_id="a", **more) -> pb.SubmitJobRequest:
    return request_to(shift_job(job_id, **more))


async def refused(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


async def test_a_submitted_job_returns_paths_ports_and_a_certificate(controller):
    plan = await controller.jobs.SubmitJob(message())
    assert (plan.state, plan.generation, len(plan.flows), plan.flows_truncated) == ("running", 1, 8, False)
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound == 1.0
    assert plan.certificate.install_ns > 0
    assert all(49152 <= flow.udp_source_port <= 65535 for flow in plan.flows)
    assert plan.flows[0].links[0] == "h1-n0>leaf1:3"
    assert plan.flows[0].dscp == 26
    assert plan.flows[0].priority_group == 3


async def test_pins_are_installed_when_submit_returns(controller):
    before = {name: len(switch.tables.entries) for name, switch in controller.switches.items()}
    plan = await controller.jobs.SubmitJob(message(steering=Steering.PIN))
    after = {name: len(switch.tables.entries) for name, switch in controller.switches.items()}
    assert sum(after.values()) - sum(before.values()) == plan.certificate.rules_installed > 0
    assert all(flow.pinned for flow in plan.flows)


async def test_submit_waits_for_the_last_switchs_barrier(controller):
    slow = controller.switches["leaf3"]
    before = slow.received[BARRIER_REQUEST]
    slow.withheld.add(BARRIER_REQUEST)
    call = asyncio.ensure_future(controller.jobs.SubmitJob(message()))
    while slow.received[BARRIER_REQUEST] == before:
        await asyncio.sleep(0.01)
    assert not call.done()
    await slow.release()
    assert (await call).state == "running"


async def test_get_list_and_stream_return_the_same_plan(controller):
    plan = await controller.jobs.SubmitJob(message())
    assert await controller.jobs.GetJob(pb.GetJobRequest(job_id="a")) == plan
    assert list((await controller.jobs.ListJobs(pb.ListJobsRequest())).jobs) == [plan]
    pages = [page async for page in controller.jobs.StreamFlows(pb.GetJobRequest(job_id="a"))]
    assert [flow for page in pages for flow in page.flows] == list(plan.flows)


async def test_list_names_only_the_tenants_jobs(controller):
    await controller.jobs.SubmitJob(message("a", tenant="red"))
    await controller.jobs.SubmitJob(message("b", tenant="blue"))
    listed = await controller.jobs.ListJobs(pb.ListJobsRequest(tenant="blue"))
    assert [plan.job_id for plan in listed.jobs] == ["b"]


async def test_list_names_only_jobs_whose_ids_begin_with_the_prefix(controller):
    for name in ("slurm-1-a", "slurm-11-a", "slurm-1-b"):
        await controller.jobs.SubmitJob(message(name))
    listed = [await controller.jobs.ListJobs(pb.ListJobsRequest(id_prefix=prefix)) for prefix in ("slurm-1-", "x", "")]
    assert [[plan.job_id for plan in each.jobs] for each in listed] == [
        ["slurm-1-a", "slurm-1-b"],
        [],
        ["slurm-1-a", "slurm-11-a", "slurm-1-b"],
    ]


async def test_watch_streams_the_plan_its_changes_and_its_end(controller):
    await controller.jobs.SubmitJob(message())
    watch = controller.jobs.WatchJob(pb.WatchJobRequest(job_id="a", changes_only=True))
    first = await watch.read()
    controller.switches["leaf1"].set_port(1, up=False)
    degraded = await watch.read()
    await controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="a"))
    released = await watch.read()
    assert [plan.state for plan in (first, degraded, released)] == ["running", "degraded", "released"]
    left = [flow for flow in first.flows if any("leaf1:1" in link.split(">") for link in flow.links)]
    assert {flow.flow_id for flow in degraded.flows} >= {flow.flow_id for flow in left}
    assert all("leaf1:1" not in link.split(">") for flow in degraded.flows for link in flow.links)
    assert 0 < len(degraded.flows) < len(first.flows)
    assert len(released.flows) == 0
    assert await watch.read() is grpc.aio.EOF


async def test_release_returns_the_number_of_flows_and_forgets_the_job(controller):
    await controller.jobs.SubmitJob(message())
    assert (await controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="a"))).flows_released == 8
    error = await refused(controller.jobs.GetJob(pb.GetJobRequest(job_id="a")))
    assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_renew_extends_the_lease(controller):
    plan = await controller.jobs.SubmitJob(message(lease_ms=60_000))
    renewed = await controller.jobs.RenewJob(pb.RenewJobRequest(job_id="a", lease_ms=120_000))
    assert renewed.lease_expires_unix_ms > plan.lease_expires_unix_ms


async def test_a_preview_reserves_nothing(controller):
    plan = await controller.jobs.PreviewJob(message())
    assert (plan.state, plan.reason) == ("planned", "preview")
    assert not (await controller.jobs.ListJobs(pb.ListJobsRequest())).jobs


WRONG = {
    "an unknown NIC": (lambda m: m.ranks.append("unknown"), "ranks[8]"),
    "a rank out of range": (lambda m: setattr(m.collectives[0].pairs[0], "dst_rank", 99), "dst_rank"),
    "no bytes": (lambda m: setattr(m.collectives[0], "bytes", 0), "bytes"),
    "a bad id": (lambda m: setattr(m, "job_id", "no/slash"), "job_id"),
    "an unknown kind": (lambda m: setattr(m.collectives[0], "kind", 0), "kind"),
    "an unknown steering": (lambda m: setattr(m, "steering", 7), "steering"),
    "too many queue pairs": (lambda m: setattr(m.collectives[0], "qps_per_flow", 17), "qps_per_flow"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_request_is_an_invalid_argument_that_names_the_key(controller, name):
    spoil, place = WRONG[name]
    wrong = message()
    spoil(wrong)
    error = await refused(controller.jobs.SubmitJob(wrong))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert place in error.details()


async def test_an_id_in_use_with_another_request_already_exists(controller):
    await controller.jobs.SubmitJob(message())
    assert await controller.jobs.SubmitJob(message()) == await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
    error = await refused(controller.jobs.SubmitJob(message(by=4)))
    assert error.code() is grpc.StatusCode.ALREADY_EXISTS


async def test_a_plan_that_does_not_exist_is_a_failed_precondition_that_names_the_bottleneck(controller):
    error = await refused(controller.jobs.SubmitJob(message(require_utilisation=0.1)))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert ">" in error.details()


async def test_a_fabric_cut_in_two_is_a_failed_precondition_that_names_flows_and_cut():
    cut = [f"leaf{leaf}:{spine}>spine{spine}:{leaf}" for leaf, spine in ((1, 2), (2, 2), (3, 1), (4, 1))]
    fabric = replace(small_fabric(), failed=Health(down_cables=frozenset(cut)))
    async with running(fabric) as controller:
        await controller.connect_all()
        for call in (controller.jobs.PreviewJob, controller.jobs.SubmitJob):
            error = await refused(call(message(by=4)))
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert "8 flow(s) have no path, a/0/0-4/0" in error.details()
            assert cut[0] in error.details()
        assert not (await controller.jobs.ListJobs(pb.ListJobsRequest())).jobs


async def test_more_flow_plans_than_the_limit_are_an_invalid_argument_before_any_is_made(controller):
    everyone = [f"h{1 + rank % 8}-n0" for rank in range(1_600)]
    wrong = pb.SubmitJobRequest(job_id="a", ranks=everyone)
    wrong.collectives.add(kind=CollectiveKind.ALL_TO_ALL, bytes=1)
    error = await refused(controller.jobs.SubmitJob(wrong))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "2,000,000" in error.details()


async def test_a_fabric_without_its_switches_is_unavailable():
    async with running() as controller:
        error = await refused(controller.jobs.SubmitJob(message()))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "is not connected" in error.details()


async def test_a_switch_that_disconnects_during_the_installation_leaves_nothing_of_the_job(controller):
    controller.switches["spine1"].withheld.add(BARRIER_REQUEST)
    call = asyncio.ensure_future(controller.jobs.SubmitJob(message(steering=Steering.PIN)))
    await asyncio.sleep(0.1)
    await controller.switches["spine1"].disconnect()
    error = await refused(call)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "spine1" in error.details()
    assert not (await controller.jobs.ListJobs(pb.ListJobsRequest())).jobs


async def test_a_full_rule_budget_is_resource_exhausted():
    fabric = small_fabric()
    switches = tuple(replace(switch, rule_budget=1) if switch.id == "leaf2" else switch for switch in fabric.switches)
    async with running(replace(fabric, switches=switches)) as controller:
        await controller.connect_all()
        error = await refused(controller.jobs.SubmitJob(message(steering=Steering.PIN)))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "leaf2" in error.details()


async def test_a_refusal_of_many_long_names_still_comes_with_its_status(controller):
    wrong = pb.SubmitJobRequest(job_id="a", ranks=["\u65e5" * 60 for _ in range(20)])
    error = await refused(controller.jobs.SubmitJob(wrong))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    error = await refused(controller.jobs.GetJob(pb.GetJobRequest(job_id="x" * 1_000_000)))
    assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_the_certificate_of_a_job_says_that_it_is_assumed_and_that_of_others_does_not(controller):
    assumed = message("a")
    assumed.assumed = True
    plans = [await controller.jobs.SubmitJob(each) for each in (assumed, message("b"))]
    assert [plan.certificate.assumed for plan in plans] == [True, False]
    listed = await controller.jobs.ListJobs(pb.ListJobsRequest())
    assert [plan.certificate.assumed for plan in listed.jobs] == [True, False]


def pairs(job="a", host="h1", count=1, src="h1-n0", dst="h3-n0"):
    rows = [pb.ConnectedPair(src_nic=src, dst_nic=dst, queue_pairs=count)]
    return pb.JobPairs(job_id=job, host=host, pairs=rows)


async def test_pairs_that_hosts_report_of_a_job_are_kept_until_it_ends(controller):
    await controller.jobs.SubmitJob(message("a"))
    await controller.jobs.SubmitJob(message("b"))
    for report in (pairs(count=7), pairs(count=2), pairs(host="h3", src="h3-n0", dst="h1-n0"), pairs("b")):
        await controller.jobs.ReportPairs(report)
    found = await controller.jobs.GetPairs(pb.GetJobRequest(job_id="a"))
    assert [(row.src_nic, row.dst_nic, row.queue_pairs) for row in found.pairs] == [
        ("h1-n0", "h3-n0", 2),
        ("h3-n0", "h1-n0", 1),
    ]
    await controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="a"))
    for call in (controller.jobs.GetPairs(pb.GetJobRequest(job_id="a")), controller.jobs.ReportPairs(pairs())):
        assert (await refused(call)).code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("wrong", [pairs(src="h3-n0"), pairs(dst="x"), pairs(host="h9")])
async def test_a_report_of_nics_that_are_not_the_host_s_or_not_there_is_an_invalid_argument(controller, wrong):
    await controller.jobs.SubmitJob(message("a"))
    assert (await refused(controller.jobs.ReportPairs(wrong))).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_hosts_say_that_a_job_sends_is_kept_until_they_say_nothing_more(controller):
    await controller.jobs.SubmitJob(message("a"))
    for host, sends in (("h3", "qps=3"), ("h1", "qps=1"), ("h3", "qps=4"), ("h1", "")):
        await controller.jobs.ReportPairs(pb.JobPairs(job_id="a", host=host, sends=sends))
    found = await controller.jobs.GetPairs(pb.GetJobRequest(job_id="a"))
    assert (found.sends, len(found.pairs)) == ("qps=4", 0)
    for wrong in (
        pb.JobPairs(sends="x" * 257, host="h1"),
        pb.JobPairs(sends="a\nb", host="h1"),
        pb.JobPairs(sends="x"),
    ):
        wrong.job_id = "a"
        assert (await refused(controller.jobs.ReportPairs(wrong))).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_pairs_are_read_and_written_in_the_thread_of_replies(controller, monkeypatch):
    seen = []
    for name in ("report", "pairs"):
        method = getattr(ConnectedPairs, name)

        def noted(*values, method=method):
            seen.append(threading.current_thread().name)
            return method(*values)

        monkeypatch.setattr(ConnectedPairs, name, noted)
    await controller.jobs.SubmitJob(message("a"))
    await controller.jobs.ReportPairs(pairs())
    found = await controller.jobs.GetPairs(pb.GetJobRequest(job_id="a"))
    assert len(found.pairs) == 1
    assert [name.startswith("api") for name in seen] == [True, True]


@pytest.mark.parametrize("field", ["tenant", "id_prefix"])
async def test_a_list_by_a_text_that_is_too_long_is_one_line(controller, field):
    request = pb.ListJobsRequest()
    setattr(request, field, "x" * 128)
    assert not (await controller.jobs.ListJobs(request)).jobs
    setattr(request, field, "x" * 129)
    error = await refused(controller.jobs.ListJobs(request))
    assert (error.code(), error.details()) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        f"{field}: must be at most 128 characters, has 129",
    )


async def test_a_job_with_the_ports_of_another_s_plan_is_admitted_and_with_its_fixed_ports_already_exists(controller):
    plan = await controller.jobs.SubmitJob(message("a"))
    flow = plan.flows[0]
    fixed = pb.FlowDemand(src_rank=0, dst_rank=1, udp_source_port=flow.udp_source_port)
    custom = pb.Collective(kind=pb.Collective.CUSTOM, bytes=1, flows=[fixed])

    def request(job):
        return pb.SubmitJobRequest(job_id=job, ranks=[flow.src_nic, flow.dst_nic], collectives=[custom])

    await controller.jobs.PreviewJob(request("b"))
    await controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="a"))
    assert (await controller.jobs.SubmitJob(request("b"))).flows[0].udp_source_port == flow.udp_source_port
    assert (await refused(controller.jobs.PreviewJob(request("c")))).code() is grpc.StatusCode.ALREADY_EXISTS
