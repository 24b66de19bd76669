"""A probe agent over real gRPC whose reports a test makes."""

import asyncio
import contextlib
from ipaddress import IPv4Address

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc


class FakeProbeAgent:
    """Sends a hello, then for each order the reports that `answer` returns."""

    def __init__(self, channel, host, ips, answer, **hello):
        self.orders, self.error = [], None
        self._answer = answer
        nics = [pb.ProbeNic(ip=str(IPv4Address(ip)), device=f"eth{number}") for number, ip in enumerate(ips)]
        self.call = rpc.ProbeServiceStub(channel).Attach()
        self.task = asyncio.create_task(self._run(pb.ProbeHello(host=host, nics=nics, **hello)))

    async def _run(self, hello):
        try:
            await self.call.write(pb.ProbeReport(hello=hello))
            async for order in self.call:
                self.orders.append(order)
                for replies in self._answer(order):
                    await self.call.write(pb.ProbeReport(replies=replies))
        except Exception as error:
            self.error = error

    async def close(self):
        self.call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
