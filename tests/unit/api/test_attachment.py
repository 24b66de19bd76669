"""The session that gateways and hosts keep with the controller, against a real controller."""

import asyncio
from contextlib import asynccontextmanager

import grpc.aio

from heddle.dataplane.control.session.attachment import Attachment
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.unit.api.test_gateway_service import attached, started
from tests.unit.api.test_vpc_service import blue, red


class Gateway:
    """Records the applied configurations; refuses a generation with a VPC of a given id."""

    def __init__(self, server, refuses="", **hello):
        self.applied, self._refuses, self._changed = [], refuses, asyncio.Event()
        wanted = {"gateway_id": "gw1", "vtep_ip": "10.0.0.1", **hello}
        self.attachment = Attachment(server, pb.GatewayHello(**wanted), self.apply)

    async def apply(self, desired):
        if any(vpc.id == self._refuses for vpc in desired.network.vpcs):
            raise ValueError(f"no room for {self._refuses}")
        self.applied.append(desired)
        self._changed.set()

    async def until(self, holds):
        async with asyncio.timeout(20):
            while not holds(self):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def gateway(controller, **options):
    found = Gateway(controller.target, **options)
    task = asyncio.create_task(found.attachment.run())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait([task])


def ids(found):
    return [vpc.id for vpc in found.applied[-1].network.vpcs] if found.applied else []


async def test_a_gateway_gets_everything_then_every_change_and_acknowledges_each():
    async with started() as controller:
        await controller.vpcs.ApplyVpc(blue())
        async with gateway(controller) as found:
            await found.until(lambda g: ids(g) == ["blue"])
            await controller.vpcs.ApplyVpc(red())
            await found.until(lambda g: ids(g) == ["blue", "red"])
            newest = found.applied[-1].network.generation
            await controller.status(lambda reply: reply.gateways[0].acknowledged_generation == newest)
            assert found.attachment.generation == newest


async def test_a_generation_that_cannot_be_applied_is_refused_with_its_reason_and_the_next_one_is_taken():
    async with started() as controller, gateway(controller, refuses="red") as found:
        await controller.status(attached("gw1"))
        applying = asyncio.ensure_future(controller.vpcs.ApplyVpc(red()))
        status = await controller.status(lambda reply: reply.gateways and reply.gateways[0].refused)
        assert "no room for red" in status.gateways[0].refused
        await asyncio.wait([applying])
        applying.exception()
        await controller.vpcs.DeleteVpc(pb.DeleteVpcRequest(id="red"))
        await controller.vpcs.ApplyVpc(blue())
        await found.until(lambda g: ids(g) == ["blue"])


async def test_a_session_that_breaks_is_opened_again_and_the_configuration_stays():
    async with started() as controller:
        await controller.vpcs.ApplyVpc(blue())
        async with gateway(controller) as found:
            await found.until(lambda g: ids(g) == ["blue"])
            controller.attach("gw1", "10.0.0.1")  # another session under the same id ends this one
            count = len(found.applied)
            await found.until(lambda g: len(g.applied) > count)
            assert ids(found) == ["blue"]


class Scripted(rpc.GatewayServiceServicer):
    """A controller that sends these messages in its sessions, one list for each, and then nothing."""

    def __init__(self, *sessions):
        self._sessions, self.acks = list(sessions), []

    async def Attach(self, reports, context):
        for message in self._sessions.pop(0):
            yield message
        async for report in reports:
            if report.WhichOneof("report") == "ack":
                self.acks.append((report.ack.generation, report.ack.refused))


async def test_after_a_generation_that_cannot_be_decoded_the_next_one_is_requested_as_a_whole():
    wrong = pb.Border(rules=[pb.BorderRule(vpc="*", network="of a later version")])
    first = [
        pb.NetworkUpdate(generation=1, whole=True),
        pb.NetworkUpdate(generation=2, border=wrong),
        pb.NetworkUpdate(generation=3, vpcs=[blue()]),
    ]
    server, script = grpc.aio.server(), Scripted(first, [pb.NetworkUpdate(generation=3, whole=True, vpcs=[blue()])])
    rpc.add_GatewayServiceServicer_to_server(script, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    found = Gateway(f"127.0.0.1:{port}")
    task = asyncio.create_task(found.attachment.run())
    try:
        await found.until(lambda g: ids(g) == ["blue"])
        assert [each.network.generation for each in found.applied] == [1, 3]
        assert found.attachment.generation == 3
    finally:
        task.cancel()
        await asyncio.wait([task])
        await server.stop(None)
