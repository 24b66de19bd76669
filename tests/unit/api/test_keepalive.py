"""Keepalive of sessions: probes end no idle session, and a peer that vanishes is noticed at both ends."""

import asyncio
import logging
from contextlib import asynccontextmanager

from heddle.dataplane.control.session.attachment import Attachment
from heddle.foundation.keepalive import KEEPALIVE_MS, client_options, server_options
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.test_gateway_service import attached, started

SHORT_MS = 200
IDLE_S = 6.0
"""gRPC sends a probe a second at most; a server of its defaults ends the session after the third."""


class Relay:
    """A TCP relay that can stop carrying, as a cut cable does: no end gets a reset."""

    def __init__(self, target):
        self._host, _, self._port = target.rpartition(":")
        self.carries = asyncio.Event()
        self.carries.set()
        self.connections = 0

    async def handle(self, reader, writer):
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection(self._host, int(self._port))
        await asyncio.gather(self._carry(reader, there_writer), self._carry(there_reader, writer))

    async def _carry(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                await self.carries.wait()
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def host(target):
    async def apply(desired):
        """Accept everything."""

    hello = pb.GatewayHello(gateway_id="h1", kind="host", vtep_ip="10.0.0.1")
    attachment = Attachment(target, hello, apply, keepalive_ms=SHORT_MS)
    task = asyncio.create_task(attachment.run())
    try:
        yield attachment
    finally:
        task.cancel()
        await asyncio.wait([task])


def of_a_closed_loop(record):
    """Return whether `record` is of the loop of an ended test: one poller of gRPC serves all loops of a process."""
    error = record.exc_info and record.exc_info[1]
    return "PollerCompletionQueue" in record.message and str(error) == "Event loop is closed"


async def test_an_idle_session_outlasts_its_probes(caplog):
    async with started(keepalive_ms=SHORT_MS) as controller, host(controller.target):
        await controller.status(attached("h1"))
        await asyncio.sleep(IDLE_S)
        assert attached("h1")(await controller.status())
    assert not [record for record in caplog.records if record.name == "heddle.gateway"]


async def test_a_controller_that_vanishes_is_one_line_and_both_ends_notice_and_the_session_returns(caplog):
    async with started(keepalive_ms=SHORT_MS) as controller:
        relay = Relay(controller.target)
        server = await asyncio.start_server(relay.handle, "127.0.0.1", 0)
        address, port = server.sockets[0].getsockname()
        async with server, host(f"{address}:{port}"):
            await controller.status(attached("h1"))
            relay.carries.clear()
            await controller.status(attached())
            relay.carries.set()
            await controller.status(attached("h1"))
            assert relay.connections > 1
    lines = [record for record in caplog.records if record.name == "heddle.gateway" and "h1" not in record.message]
    assert [record.levelno for record in lines] == [logging.WARNING]
    assert all(record.exc_info is None for record in caplog.records if not of_a_closed_loop(record))


def test_a_server_admits_the_probes_of_its_clients():
    for interval_ms in (SHORT_MS, KEEPALIVE_MS, 6 * KEEPALIVE_MS):
        admitted_ms = dict(server_options(interval_ms))["grpc.http2.min_ping_interval_without_data_ms"]
        for client_ms in (interval_ms, KEEPALIVE_MS):
            assert dict(client_options(client_ms))["grpc.keepalive_time_ms"] > admitted_ms
