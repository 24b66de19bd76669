"""A gateway session with the controller over real gRPC: it applies configurations and acknowledges on request."""

import asyncio
import contextlib

from heddle.dataplane.config.replica import Replica
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc


class GatewaySession:
    """`answers`: acknowledge each generation automatically; otherwise only by `acknowledge`. `hello`: more fields."""

    def __init__(self, channel, gateway_id="gw1", vtep="10.0.0.1", kind="", *, answers=True, **hello):
        self.replica = Replica()
        self.messages = []
        self.tables_requests = []
        self.error = None
        self.answers = answers
        self._changed = asyncio.Event()
        whole = pb.GatewayHello(gateway_id=gateway_id, vtep_ip=vtep, kind=kind, **hello)
        self.call = rpc.GatewayServiceStub(channel).Attach()
        self._task = asyncio.create_task(self._run(whole))

    @property
    def network(self):
        return self.replica.desired and self.replica.desired.network

    async def _run(self, hello):
        try:
            await self.call.write(pb.GatewayReport(hello=hello))
            async for update in self.call:
                if update.tables_request:
                    self.tables_requests.append(update.tables_request)
                else:
                    self.messages.append(update)
                    done = self.replica.apply(update)
                    if done and self.answers:
                        await self.acknowledge()
                self._changed.set()
        except Exception as error:
            self.error = error
        finally:
            self._changed.set()

    async def acknowledge(self, refused=""):
        ack = pb.GatewayAck(generation=self.network.generation, refused=refused)
        await self.call.write(pb.GatewayReport(ack=ack))

    async def until(self, holds, timeout_s=20):
        """Wait until a condition of this session holds."""
        async with asyncio.timeout(timeout_s):
            while not holds(self):
                self._changed.clear()
                await self._changed.wait()

    async def ended(self, timeout_s=20):
        async with asyncio.timeout(timeout_s):
            await asyncio.wait([self._task])

    async def close(self):
        self.call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
