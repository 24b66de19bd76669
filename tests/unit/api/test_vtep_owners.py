"""A VTEP belongs to one host: whose certificate may speak for which, over real TLS."""

import asyncio

import grpc
import pytest

from heddle.foundation.identity import Role
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.gateway.gateway_session import GatewaySession
from tests.support.certified_callers import certified
from tests.unit.api.conftest import running

BESIDE = "10.9.0.7"
"""A VTEP of the config key `vteps`: no NIC of the fabric."""


@pytest.fixture
async def site(tmp_path, monkeypatch):
    async with certified(tmp_path, monkeypatch) as callers, running(vteps=["10.9.0.0/24"]) as controller:
        yield callers, controller


def theirs(vtep):
    subnet = pb.Subnet(cidr="10.1.0.0/24", gateway_ip="10.1.0.1")
    endpoint = pb.Endpoint(ip="10.1.0.9", mac="02:00:00:00:00:09", vtep_ip=vtep)
    return pb.Vpc(id="theirs", tenant="blue", vni=31, subnets=[subnet], endpoints=[endpoint])


async def outcome(channel, name, vtep, kind="host", **hello):
    """Return the status and text that end an attachment that is refused."""
    session = GatewaySession(channel, name, vtep, kind, **hello)
    await session.ended()
    assert isinstance(session.error, grpc.aio.AioRpcError)
    return session.error.code().name, session.error.details()


async def attached(controller, channel, name, vtep, kind, **hello):
    session = GatewaySession(channel, name, vtep, kind, **hello)
    async with asyncio.timeout(20):
        while name not in controller.application.attached.gateways.by_id and session.error is None:
            await asyncio.sleep(0.02)
    assert session.error is None
    return session


async def test_an_agent_reads_no_network_by_a_vtep_that_is_not_its_own(site):
    callers, controller = site
    await rpc.VpcServiceStub(controller.channel).ApplyVpc(theirs(BESIDE))
    channel = callers.channel(Role.AGENT, "h1")
    for vtep in (BESIDE, "10.0.0.2", "172.16.4.4"):
        status, text = await outcome(channel, "h1", vtep)
        assert (status, f"hello.vtep_ip: {vtep} is no VTEP of agent:h1" in text) == ("PERMISSION_DENIED", True)
        assert f"heddle pki issue … agent h1 --ip {vtep}" in text
    status, text = await outcome(channel, "h1", "10.0.0.1", host_vtep_ip="10.0.0.2")
    assert (status, "hello.host_vtep_ip: 10.0.0.2" in text) == ("INVALID_ARGUMENT", True)


async def test_a_nic_of_the_host_and_an_address_in_the_certificate_are_its_own(site):
    callers, controller = site
    await rpc.VpcServiceStub(controller.channel).ApplyVpc(theirs(BESIDE))
    for name, vtep, read in (("h1", "10.0.0.1", []), ("h1", BESIDE, ["theirs"]), ("elsewhere", BESIDE, ["theirs"])):
        agent = callers.channel(Role.AGENT, name, vteps=["fd00::7", BESIDE])
        session = await attached(controller, agent, name, vtep, "host", host_vtep_ip=vtep)
        await session.until(lambda one: one.network is not None)
        assert [vpc.id for vpc in session.network.vpcs] == read
        await session.close()


async def test_a_gateway_has_no_vtep_of_another_host_but_those_of_its_certificate(site):
    callers, controller = site
    agent = await attached(controller, callers.channel(Role.AGENT, "far", vteps=[BESIDE]), "far", BESIDE, "host")
    channel = callers.channel(Role.GATEWAY, "gw1")
    for vtep, of_hosts in (("10.0.0.2", ""), ("172.16.4.4", "10.0.0.2"), (BESIDE, ""), ("172.16.4.4", BESIDE)):
        field = "host_vtep_ip" if of_hosts else "vtep_ip"
        for kind in ("gateway", "balancer"):
            status, text = await outcome(channel, "gw1", vtep, kind, host_vtep_ip=of_hosts)
            assert (status, f"hello.{field}: {of_hosts or vtep} is a host's" in text) == ("PERMISSION_DENIED", True)
    for name, vtep, vteps in (("gw1", "172.16.4.4", ()), ("gw2", "10.0.0.2", ["10.0.0.2"]), ("h2", "10.0.0.2", ())):
        right = callers.channel(Role.GATEWAY, name, vteps=vteps)
        await (await attached(controller, right, name, vtep, "gateway", host_vtep_ip=vtep)).close()
    await agent.close()
