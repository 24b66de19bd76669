"""Two tenants at one controller over real TLS: neither sees, names or touches what is the other's."""

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from heddle.controller.access.table import ROWS
from heddle.controller.api.translate import request_to
from heddle.controller.model.effect import Note
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.foundation.identity import Role
from heddle.programs.console.start import main
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.gateway.gateway_session import GatewaySession
from tests.support.certified_callers import certified
from tests.unit.api.conftest import running
from tests.unit.api.test_vpc_service import refusal

POLICY = """
users: {alice: operator, grafana: viewer}
tenants:
  red: {nics: [h1-n0, h3-n0, h5-n0], quotas: {jobs: 1, vpcs: 1}}
  blue: {nics: [h2-n0, h4-n0, h6-n0, h7-n0]}
"""
RED, BLUE = ("h1-n0", "h3-n0", "h5-n0"), ("h2-n0", "h4-n0", "h6-n0")
DENIED, NOT_FOUND = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND
SECRETS = ("blue", "theirs", *BLUE, "h7-n0", "h2", "h4", "h6")


def stubs(channel):
    return SimpleNamespace(
        channel=channel, jobs=rpc.JobServiceStub(channel), fabric=rpc.FabricServiceStub(channel),
        telemetry=rpc.TelemetryServiceStub(channel), vpcs=rpc.VpcServiceStub(channel),
        gateways=rpc.GatewayServiceStub(channel),
    )  # fmt: skip


@asynccontextmanager
async def two_tenants(folder, monkeypatch):
    (folder / "policy.yaml").write_text(POLICY)
    audit = folder / "audit.jsonl"
    async with (
        certified(folder, monkeypatch) as callers,
        running(policy=str(folder / "policy.yaml"), audit=str(audit)) as controller,
    ):
        await controller.connect_all()
        found = {name: stubs(callers.channel(Role.TENANT, name)) for name in ("red", "blue")}
        yield SimpleNamespace(controller=controller, callers=callers, audit=audit, **found)


@pytest.fixture
async def both(tmp_path, monkeypatch):
    async with two_tenants(tmp_path, monkeypatch) as found:
        yield found


def job(job_id, ranks, **more):
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1_000_000)
    return request_to(JobRequest(job_id=job_id, ranks=ranks, collectives=(ring,), **more))


def vpc(name, vni, vtep, tenant=""):
    return pb.Vpc(
        id=name, tenant=tenant, vni=vni,
        subnets=[pb.Subnet(cidr="10.1.0.0/24", gateway_ip="10.1.0.1")],
        endpoints=[pb.Endpoint(ip="10.1.0.5", mac="02:00:00:00:00:05", vtep_ip=vtep)],
    )  # fmt: skip


def balancer(name, of):
    return pb.LoadBalancer(
        id=name, vpc_id=of, vip="10.1.0.9", port=80, protocol="tcp", mode="direct_return",
        backends=[pb.Backend(ip="10.1.0.5", port=80)],
    )  # fmt: skip


async def read(stream):
    return [message async for message in stream]


NEW = {"SubmitJob", "PreviewJob", "JoinJob", "LeaveJob", "ApplyVpc", "ApplyPeering", "ApplyLoadBalancer"}
"""The methods whose object need not exist."""


def calls_about_an_object(channel):
    """Return, by name, what calls each method of the contract that tenants may call about an object that exists."""
    return {
        method.name: partial(called, getattr(rpc, f"{service.name}Stub")(channel), method, row.object)
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if Role.TENANT in (row := ROWS[f"/{service.full_name}/{method.name}"]).roles
        and row.object
        and method.name not in NEW
    }


def called(stub, method, fields, name):
    request = GetMessageClass(method.input_type)(**{**dict.fromkeys(fields, "mine"), fields[-1]: name})
    call = getattr(stub, method.name)(request, timeout=20)
    return read(call) if method.server_streaming else call


def hides(message):
    text = str(message)
    return not [name for name in SECRETS if f'"{name}' in text or f" {name}" in text or f"{name}>" in text]


async def test_a_policy_is_read_again_and_a_wrong_one_changes_nothing(both, tmp_path, caplog):
    application, file = both.controller.application, tmp_path / "policy.yaml"
    wrong = POLICY.replace("h3-n0", "h99-n0")
    file.write_text(wrong)
    await application.reload_policy()
    assert "h99-n0" in caplog.text
    assert "the former one stays in use; correct the file" in caplog.text
    assert (await both.red.jobs.SubmitJob(job("mine", RED))).tenant == "red"
    file.write_text(
        POLICY.replace(
            "red: {nics: [h1-n0, h3-n0, h5-n0], quotas: {jobs: 1", "red: {nics: [h1-n0, h6-n0], quotas: {jobs: 2"
        )
    )
    await application.reload_policy()
    assert (await refusal(both.red.jobs.PreviewJob(job("new", RED))))[0] is not grpc.StatusCode.OK
    assert (await both.red.jobs.SubmitJob(job("new", ("h1-n0", "h6-n0")))).tenant == "red"
    file.write_text("tenants: {blue: {nics: [h2-n0]}}")
    await application.reload_policy()
    assert (await refusal(both.red.jobs.GetJob(pb.GetJobRequest(job_id="mine"))))[0] is DENIED


async def test_neither_sees_or_touches_what_is_the_other_s(both):
    red, blue = both.red, both.blue
    assert (await red.jobs.SubmitJob(job("mine", RED))).tenant == "red"
    await blue.jobs.SubmitJob(job("theirs", BLUE))
    await blue.vpcs.ApplyVpc(vpc("theirs", 7, "10.0.0.2"))
    await blue.vpcs.ApplyLoadBalancer(balancer("theirs", "theirs"))
    await red.vpcs.ApplyVpc(vpc("mine", 8, "10.0.0.1"))
    calls = calls_about_an_object(red.channel)
    assert calls.keys() >= {
        "GetJob", "RenewJob", "ReleaseJob", "StreamFlows", "WatchJob", "DeleteVpc", "DeleteLoadBalancer",
        "DeletePeering",
    }  # fmt: skip
    calls["Explain"] = lambda name: red.fabric.Explain(pb.ExplainRequest(flow_id=f"{name}/0/0-1/0"))
    for what, call in calls.items():
        found, absent = await refusal(call("theirs")), await refusal(call("unknown"))
        assert (what, found[0]) == (what, NOT_FOUND)
        assert found[1].replace("theirs", "unknown") == absent[1]
    for wanted in (lambda name: red.vpcs.ApplyPeering(pb.Peering(vpc_a="mine", vpc_b=name)),
                   lambda name: red.vpcs.ApplyLoadBalancer(balancer("lb", name)),
                   lambda name: red.jobs.PreviewJob(job("new", ("h1-n0", name)))):  # fmt: skip
        found, absent = await refusal(wanted("theirs")), await refusal(wanted("unknown"))
        assert (found[0], found[1].replace("theirs", "unknown")) == absent
    seen = [
        await red.jobs.ListJobs(pb.ListJobsRequest()),
        await red.jobs.GetJob(pb.GetJobRequest(job_id="mine")),
        await red.vpcs.ListVpcs(pb.ListVpcsRequest()),
        await red.vpcs.ListLoadBalancers(pb.ListVpcsRequest()),
        await red.fabric.GetTopology(pb.GetTopologyRequest()),
        await red.fabric.Explain(pb.ExplainRequest(flow_id="mine/0/0-1/0")),
        *await read(red.telemetry.WatchEvents(pb.WatchEventsRequest(history_only=True))),
    ]
    assert [message for message in seen if not hides(message)] == []
    assert [plan.job_id for plan in seen[0].jobs] == ["mine"]
    assert not (await red.jobs.ListJobs(pb.ListJobsRequest(tenant="blue"))).jobs
    assert [nic.id for nic in seen[4].nics] == list(RED)
    assert len((await both.controller.jobs.ListJobs(pb.ListJobsRequest())).jobs) == 2


async def test_ids_are_taken_fabric_wide_and_others_names_are_hidden_in_refusals(both):
    red, blue = both.red, both.blue
    await blue.jobs.SubmitJob(job("theirs", BLUE))
    await blue.vpcs.ApplyVpc(vpc("theirs", 7, "10.0.0.2"))
    assert (await refusal(red.jobs.SubmitJob(job("theirs", RED))))[0] is grpc.StatusCode.ALREADY_EXISTS
    assert (await refusal(red.vpcs.ApplyVpc(vpc("theirs", 9, "10.0.0.1"))))[0] is grpc.StatusCode.ALREADY_EXISTS
    code, details = await refusal(red.vpcs.ApplyVpc(vpc("mine", 7, "10.0.0.1")))
    assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, "vpc mine: vni: 7 is used by vpc (hidden) already")
    for call in (red.jobs.SubmitJob(job("x", RED, tenant="blue")), red.vpcs.ApplyVpc(vpc("x", 9, "10.0.0.1", "blue")),
                 red.vpcs.ApplyVpc(vpc("x", 9, "10.0.0.2"))):  # fmt: skip
        assert (await refusal(call))[0] is DENIED


async def test_a_file_holds_a_tenant_s_own_objects_alone_and_its_refusal_hides_others(both):
    red = both.red.vpcs
    await both.blue.vpcs.ApplyNetwork(pb.NetworkObjects(vpcs=[vpc("theirs", 7, "10.0.0.2")]))
    mine = vpc("mine", 8, "10.0.0.1")
    assert (await red.ApplyNetwork(pb.NetworkObjects(vpcs=[mine]))).applied.vpcs[0].tenant == "red"
    for file, wanted in (
        (pb.NetworkObjects(vpcs=[mine], border=pb.Border()), DENIED),
        (pb.NetworkObjects(vpcs=[vpc("mine", 8, "10.0.0.1", "blue")]), DENIED),
        (pb.NetworkObjects(vpcs=[vpc("mine", 8, "10.0.0.2")]), DENIED),
        (pb.NetworkObjects(load_balancers=[balancer("lb", "mine")], vpcs=[vpc("theirs", 8, "10.0.0.1")]),
         grpc.StatusCode.ALREADY_EXISTS),
    ):  # fmt: skip
        assert (await refusal(red.ApplyNetwork(file)))[0] is wanted
    _, details = await refusal(red.ApplyNetwork(pb.NetworkObjects(vpcs=[vpc("mine", 7, "10.0.0.1")])))
    assert details == "vpc mine: vni: 7 is used by vpc (hidden) already"
    many = [pb.Peering(vpc_a="mine", vpc_b=f"zone-{number}") for number in range(60)]  # more than the audit log has
    found, absent = [
        (await refusal(red.ApplyNetwork(pb.NetworkObjects(peerings=[*many, pb.Peering(vpc_a="mine", vpc_b=name)]))))[1]
        for name in ("theirs", "thears")
    ]
    assert found.replace("theirs", "thears") == absent
    audited = [json.loads(line) for line in both.audit.read_text().splitlines()]
    assert [line["subject"] for line in audited if line["what"].endswith("ApplyNetwork")][:2] == ["theirs", "mine"]


async def test_a_tenant_s_own_nics_are_suggested(both):
    shape = pb.SuggestPlacementRequest(
        ranks=3, collectives=[pb.Collective(kind=pb.Collective.RING_ALL_REDUCE, bytes=1000)], max_suggestions=16
    )
    places = (await both.red.jobs.SuggestPlacement(shape)).placements
    assert {frozenset(place.nics) for place in places} == {frozenset(RED)}
    shape.ranks = 4
    assert hides((await refusal(both.red.jobs.SuggestPlacement(shape)))[1])


async def test_quotas_are_refused_with_their_numbers(both):
    await both.red.jobs.SubmitJob(job("mine", RED))
    code, details = await refusal(both.red.jobs.SubmitJob(job("more", RED)))
    assert (code, "tenant red has 1 of 1 jobs" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
    await both.red.vpcs.ApplyVpc(vpc("one", 8, "10.0.0.1"))
    code, details = await refusal(both.red.vpcs.ApplyVpc(vpc("two", 9, "10.0.0.1")))
    assert (code, "1 of 1 VPCs" in details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)


async def test_a_gateway_attaches_and_a_host_reports_under_its_own_name_alone(both):
    gateway = both.callers.channel(Role.GATEWAY, "gw1")
    agent = both.callers.channel(Role.AGENT, "h1")
    wrong = [
        (gateway, "gw2", "10.0.0.1", "gateway"), (gateway, "gw1", "10.0.0.1", "host"),
        (agent, "h1", "10.0.0.1", "gateway"), (agent, "h2", "10.0.0.2", "host"), (agent, "h1", "10.0.0.2", "host"),
    ]  # fmt: skip
    for channel, name, vtep, kind in wrong:
        session = GatewaySession(channel, name, vtep, kind)
        await session.ended()
        assert isinstance(session.error, grpc.aio.AioRpcError)
        assert session.error.code() is DENIED
    right = GatewaySession(gateway, "gw1", "10.0.0.99")
    async with asyncio.timeout(20):
        while "gw1" not in both.controller.application.attached.gateways.by_id:
            await asyncio.sleep(0.02)
    await right.close()
    report = rpc.JobServiceStub(agent).ReportFlows
    assert (await refusal(report(iter([pb.ObservedFlows(host="h2")]))))[0] is DENIED
    assert (await report(iter([pb.ObservedFlows(host="h1")]))).flows_pinned == 0


async def test_each_call_that_changes_something_is_a_line_and_an_event(tmp_path, monkeypatch):
    async with two_tenants(tmp_path, monkeypatch) as both:
        await both.red.jobs.SubmitJob(job("mine", RED))
        await refusal(both.blue.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="mine")))
        await refusal(both.blue.fabric.Drain(pb.DrainRequest(target="spine1")))
        await both.red.jobs.GetJob(pb.GetJobRequest(job_id="mine"))
        await both.controller.jobs.ReleaseJob(pb.ReleaseJobRequest(job_id="mine"))
        watch = both.controller.telemetry.WatchEvents(pb.WatchEventsRequest(history_only=True))
        events = [event.text.split(" (")[0] for event in await read(watch) if event.kind == "audit"]
    lines = [json.loads(line) for line in both.audit.read_text().splitlines()]
    assert [(line["who"], line["what"].rpartition("/")[2], line["subject"], line["outcome"]) for line in lines] == [
        ("tenant:red", "SubmitJob", "mine", "OK"),
        ("tenant:blue", "ReleaseJob", "mine", "NOT_FOUND"),
        ("tenant:blue", "Drain", "", "PERMISSION_DENIED"),
        ("operator:local", "ReleaseJob", "mine", "OK"),
    ]
    assert events == [
        "SubmitJob by tenant:red", "ReleaseJob by tenant:blue", "Drain by tenant:blue", "ReleaseJob by operator:local",
    ]  # fmt: skip
    assert all(line["time"] and line["at"] for line in lines)


async def test_ports_and_congestion_are_those_of_own_nics_and_between_switches(both):
    both.controller.application.feeds.telemetry.configured = True
    feed = both.controller.feed
    for _ in range(2):
        for port in ("leaf1:1", "leaf1:3", "leaf1:4", "h1-n0", "h2-n0"):
            feed.grow(port, tx_bytes=1_000_000, tx_packets=1_000)
            feed.queue(port, packets=1_000, ecn_marked_packets=900)
        feed.scan()
    watch = aiter(both.red.telemetry.WatchPorts(pb.WatchPortsRequest(), timeout=20))
    seen = {(await anext(watch)).port for _ in range(3)}
    assert seen == {"leaf1:1", "leaf1:3", "h1-n0"}
    for name in ("leaf1:4", "h2-n0"):
        found = await refusal(read(both.red.telemetry.WatchPorts(pb.WatchPortsRequest(ports=[name]), timeout=20)))
        absent = await refusal(read(both.red.telemetry.WatchPorts(pb.WatchPortsRequest(ports=["none"]), timeout=20)))
        assert (found[0], found[1].replace(name, "none")) == absent
    await both.blue.jobs.SubmitJob(job("theirs", BLUE))
    await both.red.jobs.SubmitJob(job("mine", RED))
    everyone = (await both.controller.telemetry.ListCongestion(pb.ListCongestionRequest())).congestion
    assert {"leaf1:4", "leaf1:3"} <= {each.port for each in everyone}
    congested = (await both.red.telemetry.ListCongestion(pb.ListCongestionRequest())).congestion
    assert {"leaf1:1", "leaf1:3"} <= {each.port for each in congested}
    assert [each for each in congested if not hides(each)] == []
    assert all(flow.startswith("mine/") for each in congested for flow in each.flow_ids)


async def test_events_of_own_objects_reach_a_watching_tenant_and_no_others(both):
    watch = aiter(both.red.telemetry.WatchEvents(pb.WatchEventsRequest(since_unix_ns=1), timeout=20))
    await both.blue.jobs.SubmitJob(job("theirs", BLUE))
    await both.red.jobs.SubmitJob(job("mine", RED))
    feeds = both.controller.application.feeds
    for subject in ("theirs", "spine1", "mine"):
        feeds.note(Note(severity="info", subject=subject, text="job theirs arrived"))
    event = await anext(watch)
    assert (event.subject, event.text) == ("mine", "job (hidden) arrived")


def test_a_wrong_policy_file_ends_the_start_with_status_2(tmp_path, capsys, monkeypatch):
    (tmp_path / "policy.yaml").write_text("tenants: {red: {nics: [h1-n9]}}")
    (tmp_path / "config.yaml").write_text(f"policy: {tmp_path}/policy.yaml")
    (tmp_path / "fabric.yaml").write_text("generate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 1}")
    monkeypatch.setattr(
        "sys.argv", ["heddle", "run", str(tmp_path / "fabric.yaml"), "--config", str(tmp_path / "config.yaml")]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "policy.yaml: tenants.red.nics[0]: no NIC named 'h1-n9'" in capsys.readouterr().err
