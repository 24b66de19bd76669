"""The session that gateways and hosts keep with the controller, against a real controller."""

import asyncio
from contextlib import asynccontextmanager

from heddle.dataplane.control.session.attachment import Attachment
from heddle.v1 import heddle_pb2 as pb
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
