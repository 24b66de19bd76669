"""A gateway serves all VPCs but one as wanted, and what a controller without state does not know, over gRPC."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest

from heddle.dataplane.control.session.attachment import Attachment
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.test_gateway_service import attached, started
from tests.unit.api.test_vpc_service import blue, red, refusal

WAN = pb.GatewayInterface(name="wan", ip="203.0.113.2", cidr="203.0.113.0/24", router_ip="203.0.113.1")


class Gateway:
    """Records the applied configurations; keeps the VPC of an id as it was."""

    def __init__(self, servers, keeps=""):
        self.applied, self._keeps, self._changed = [], keeps, asyncio.Event()
        hello = pb.GatewayHello(gateway_id="gw1", vtep_ip="10.0.0.1", interfaces=[WAN])
        self.attachment = Attachment(servers, hello, self.apply)

    async def apply(self, desired):
        self.applied.append(desired)
        self._changed.set()
        return {vpc.id: "as before: no room" for vpc in desired.network.vpcs if vpc.id == self._keeps}

    async def serves(self, *ids):
        async with asyncio.timeout(20):
            while not self.applied or [vpc.id for vpc in self.applied[-1].network.vpcs] != list(ids):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def gateway(servers, **options):
    found = Gateway(servers, **options)
    task = asyncio.create_task(found.attachment.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_caller_of_a_vpc_that_a_gateway_keeps_gets_the_reason_and_others_their_change():
    async with started() as controller, gateway(controller.target, keeps="red"):
        await controller.status(attached("gw1"))
        code, details = await refusal(controller.vpcs.ApplyVpc(red()))
        assert (code, "vpc red at gateway gw1: as before: no room" in details) == (grpc.StatusCode.UNAVAILABLE, True)
        assert await controller.vpcs.ApplyVpc(blue()) == blue()
        (status,) = (await controller.status()).gateways
        assert [(each.vpc_id, each.why) for each in status.kept_vpcs] == [("red", "as before: no room")]
        assert status.refused == ""


async def test_the_addresses_of_a_gateway_that_has_attached_are_refused():
    async with started() as controller, gateway(controller.target):
        await controller.status(attached("gw1"))
        code, details = await refusal(controller.vpcs.ApplyVpc(blue(nat=pb.NatGateway(public_ip="203.0.113.1"))))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert "vpc blue: nat.public_ip: 203.0.113.1 is the router of gateway gw1 on wan" in details


@pytest.mark.parametrize(
    ("interfaces", "words"),
    [
        ([pb.GatewayInterface(name="wan", cidr="203.0.113.0/33")], "hello: interfaces[0].cidr"),
        ([pb.GatewayInterface(name="wan", cidr="fd00::/64")], "is no IPv4 prefix"),
        ([pb.GatewayInterface(name="wan", router_ip="fd00::1")], "hello: interfaces[0].router_ip"),
        ([WAN] * 17, "hello.interfaces: 17; at most 16"),
    ],
)
async def test_a_hello_with_malformed_interfaces_is_refused(interfaces, words):
    async with started() as controller:
        session = controller.attach(interfaces=interfaces)
        await session.ended()
        assert words in str(session.error)


async def test_a_controller_without_state_leaves_in_force_what_its_first_file_does_not_name_until_it_may_end_it():
    async with started() as second, AsyncExitStack() as stack:
        former = AsyncExitStack()
        first = await former.enter_async_context(started())
        found = await stack.enter_async_context(gateway(f"{first.target},{second.target}"))
        await first.status(attached("gw1"))
        await first.vpcs.ApplyVpc(blue())
        await first.vpcs.ApplyVpc(red())
        await former.aclose()
        await second.status(attached("gw1"))
        await second.vpcs.ApplyVpc(red())
        await found.serves("red", "blue")
        (status,) = (await second.status()).gateways
        assert list(status.unknown_vpcs) == ["blue"]
        await second.vpcs.DropUnknownVpcs(pb.DropUnknownVpcsRequest())
        await found.serves("red")
        assert not (await second.status()).gateways[0].unknown_vpcs


async def test_nothing_is_ended_by_a_controller_to_which_nothing_was_applied():
    async with started() as controller:
        code, details = await refusal(controller.vpcs.DropUnknownVpcs(pb.DropUnknownVpcsRequest()))
        assert (code, "apply the network first" in details) == (grpc.StatusCode.INVALID_ARGUMENT, True)
