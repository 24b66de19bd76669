import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from heddle.controller.api.translate import request_to
from heddle.controller.brain.state import wanted
from heddle.controller.config.load import parse_fabric
from heddle.controller.config.write import fabric_text
from heddle.controller.rules.diff import diff
from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.grown_files import LEAF_MORE, YARD
from tests.unit.api.conftest import running
from tests.unit.brain.driver import shift_job


async def test_the_topology_names_switches_links_and_nics(controller):
    topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
    assert [(switch.id, switch.role, switch.connected) for switch in topology.switches[:1]] == [
        ("spine1", "spine", True)
    ]
    assert all(switch.rules > 0 for switch in topology.switches)
    links = {link.id: link for link in topology.links}
    assert len(links) == 2 * (8 + 8)
    assert links["leaf1:1>spine1:1"].capacity_bps == 10**9
    assert links["h1-n0>leaf1:3"].up
    assert [(nic.id, nic.ip, nic.mac, nic.leaf_port) for nic in topology.nics[:1]] == [
        ("h1-n0", "10.0.0.1", "02:00:00:00:00:01", "leaf1:3")
    ]


async def test_planned_utilisation_is_that_of_the_running_jobs(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
    loaded = {link.id: link.planned_utilisation for link in topology.links if ":" in link.src and ":" in link.dst}
    assert set(loaded.values()) == {1.0}


async def test_watchers_see_a_port_that_goes_down_and_comes_back(controller):
    def is_up(topology):
        return {link.id: link.up for link in topology.links}["leaf1:1>spine1:1"]

    controller.switches["leaf1"].set_port(1, up=False)
    await controller.until(lambda topology: not is_up(topology))
    controller.switches["leaf1"].set_port(1, up=True)
    await controller.until(is_up)


async def test_every_switch_holds_exactly_the_wanted_rules(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    state = controller.application.loop.state
    for name, switch in controller.switches.items():
        assert diff(switch.tables.rules(), wanted(state, name)) == ()


async def test_a_switch_that_comes_back_with_its_rules_is_sent_no_flow_mod(controller):
    old = controller.switches["leaf2"]
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    await old.disconnect()
    await controller.until(lambda topology: not _connected(topology, "leaf2"))
    new = await controller.connect("leaf2", tables=old.tables)
    await controller.until(lambda topology: _connected(topology, "leaf2"))
    await controller.jobs.SubmitJob(request_to(shift_job("b")))
    assert new.received[14] == new.received[15] == 0  # OFPT_FLOW_MOD, OFPT_GROUP_MOD


async def test_a_switch_that_comes_back_empty_is_filled_again(controller):
    old = controller.switches["leaf2"]
    await old.disconnect()
    await controller.until(lambda topology: not _connected(topology, "leaf2"))
    new = await controller.connect("leaf2")
    await controller.until(lambda topology: _connected(topology, "leaf2"))
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    assert diff(new.tables.rules(), wanted(controller.application.loop.state, "leaf2")) == ()


def _connected(topology, name):
    return next(switch.connected for switch in topology.switches if switch.id == name)


async def test_explain_follows_the_flow_and_names_flows_that_share_its_links(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    await controller.jobs.SubmitJob(request_to(shift_job("b")))
    found = await controller.fabric.Explain(pb.ExplainRequest(flow_id="a/0/0-2/0"))
    assert "as planned" in found.text
    assert "NOT" not in found.text
    assert found.job_id == "a"
    assert [hop.split()[0] for hop in found.hops][-1] == "leaf2"
    assert any(flow.startswith("b/0/") for flow in found.sharing_flows)


async def test_an_unknown_flow_is_not_found(controller):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await controller.fabric.Explain(pb.ExplainRequest(flow_id="a/0/0-1/0"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_health_and_reflection_reply():
    async with running() as controller:
        health = health_pb2_grpc.HealthStub(controller.channel)
        status = await health.Check(health_pb2.HealthCheckRequest(service="heddle.v1.JobService"))
        assert status.status == health_pb2.HealthCheckResponse.SERVING
        query = reflection_pb2.ServerReflectionRequest(list_services="")
        call = reflection_pb2_grpc.ServerReflectionStub(controller.channel).ServerReflectionInfo(iter([query]))
        reply = await call.read()
        names = {service.name for service in reply.list_services_response.service}
        assert {"heddle.v1.JobService", "heddle.v1.FabricService", "grpc.health.v1.Health"} <= names


async def test_a_link_is_drained_and_returned(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a", ranks=4)))
    plan = await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))
    link = plan.flows[0].links[1]
    done = await controller.fabric.Drain(pb.DrainRequest(target=link))
    assert done.flows_moved >= 1
    topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
    cable = controller.application.loop.state.fabric.cable_by_link[link]
    assert {found.id for found in topology.links if found.drained} == {cable.up_link, cable.down_link}
    assert all(link not in flow.links for flow in (await controller.jobs.GetJob(pb.GetJobRequest(job_id="a"))).flows)
    await controller.fabric.Drain(pb.DrainRequest(target=link, undrain=True))
    topology = await controller.fabric.GetTopology(pb.GetTopologyRequest())
    assert not [found.id for found in topology.links if found.drained]


async def test_a_drain_that_strands_a_flow_is_failed_precondition(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await controller.fabric.Drain(pb.DrainRequest(target="leaf1"))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "a/0/0-2/0" in str(caught.value.details())


async def test_many_jobs_at_once_all_get_a_reply(controller):
    plans = await asyncio.gather(
        *(controller.jobs.SubmitJob(request_to(shift_job(f"j{i}", by=2 + i % 3))) for i in range(20))
    )
    assert {plan.job_id for plan in plans} == {f"j{i}" for i in range(20)}
    assert all(plan.state == "running" for plan in plans)


async def test_a_dry_run_says_what_happens_to_each_job_and_changes_nothing(controller):
    await controller.jobs.SubmitJob(request_to(shift_job("a")))
    before = controller.application.loop.state
    text = "\n".join(fabric_text(before.fabric, numbered=True)) + "\n"
    same = await controller.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=text, dry_run=True))
    assert same == pb.ApplyFabricReply(jobs=[pb.JobFate(job_id="a")])
    cable = next(line for line in text.splitlines() if '"leaf1:1"' in line)
    gone = await controller.fabric.ApplyFabric(
        pb.ApplyFabricRequest(fabric=text.replace(cable + "\n", ""), dry_run=True)
    )
    assert [(job.job_id, job.kind) for job in gone.jobs] == [("a", pb.JobFate.CUT_OFF)]
    assert gone.refusal.startswith("cable leaf1:1>spine1:1 is in use: `heddle drain 'leaf1:1>spine1:1'` first")
    assert list(gone.harms) == ["1 cable gone", "leaf1:2>spine2:1 has place 1 among the cables of leaf1, was 2"]
    assert {each.switch for each in gone.rules} >= {"leaf1"}
    kinds = [(each.kind, each.id) for each in gone.differences]
    assert kinds[0] == ("removed_cables", "leaf1:1>spine1:1")
    assert kinds[1][0] == "displaced"
    assert [each.what for each in gone.copies] == ["the file that this controller starts with"]
    after = controller.application.loop.state
    assert (after.fabric, after.underlay) == (before.fabric, before.underlay)
    assert after.jobs["a"].flows is before.jobs["a"].flows


async def test_one_change_of_the_fabric_or_dry_run_at_a_time(controller):
    text = "generate: {kind: spine_leaf, spines: 16, leaves: 64, hosts_per_leaf: 8}\n"
    request = pb.ApplyFabricRequest(fabric=text, dry_run=True)
    replies = await asyncio.gather(*(controller.fabric.ApplyFabric(request) for _ in range(3)), return_exceptions=True)
    refused = [each for each in replies if isinstance(each, grpc.aio.AioRpcError)]
    assert {each.code() for each in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert len(refused) < 3
    assert (await controller.fabric.ApplyFabric(request)).harms, "there is room again"


async def test_a_file_without_what_the_policy_names_is_refused_before_the_controller_would_begin_again(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text("tenants: {red: {nics: [h8-n0]}}\n")
    async with running(parse_fabric(LEAF_MORE, "grown"), policy=str(policy)) as found:
        for dry_run in (True, False):
            with pytest.raises(grpc.aio.AioRpcError, match="h8-n0") as why:
                await found.fabric.ApplyFabric(pb.ApplyFabricRequest(fabric=YARD, dry_run=dry_run))
            assert why.value.code() is grpc.StatusCode.INVALID_ARGUMENT
