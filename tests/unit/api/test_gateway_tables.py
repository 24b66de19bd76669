"""ReadTables over gRPC: what a gateway has installed, streamed from its session to the reader."""

import asyncio

import grpc

from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.test_gateway_service import attached, started
from tests.unit.api.test_vpc_service import refusal


async def test_installed_tables_are_streamed_to_the_reader():
    async with started() as controller:
        session = controller.attach()
        await controller.status(attached("gw1"))
        reading = controller.gateways.ReadTables(pb.ReadTablesRequest(gateway_id="gw1"))
        collecting = asyncio.create_task(_collect(reading))
        await session.until(lambda s: s.tables_requests)
        for number in range(200):
            part = pb.TablesPart(request=session.tables_requests[0], data=bytes([number]), last=number == 199)
            await session.call.write(pb.GatewayReport(tables=part))
        assert await collecting == bytes(range(200))


async def _collect(call):
    return b"".join([part.data async for part in call])


async def test_reading_tables_of_a_gateway_that_is_absent_refuses_or_detaches_is_an_error():
    async with started() as controller:
        absent = controller.gateways.ReadTables(pb.ReadTablesRequest(gateway_id="gw1"))
        assert (await refusal(_collect(absent)))[0] is grpc.StatusCode.NOT_FOUND
        session = controller.attach()
        await controller.status(attached("gw1"))
        for part in (pb.TablesPart(refused="not yet"), None):
            reading = controller.gateways.ReadTables(pb.ReadTablesRequest(gateway_id="gw1"))
            collecting = asyncio.create_task(_collect(reading))
            seen = 1 if part is not None else 2
            await session.until(lambda s, seen=seen: len(s.tables_requests) == seen)
            if part is None:
                await session.close()
            else:
                part.request = session.tables_requests[-1]
                await session.call.write(pb.GatewayReport(tables=part))
            code, details = await refusal(collecting)
            expected = grpc.StatusCode.UNAVAILABLE if part is None else grpc.StatusCode.INTERNAL
            assert code is expected, details
