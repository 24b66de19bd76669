"""A session with the controller, for gateways and hosts alike: everything, then every change, each acknowledged.

While the controller is away what was told last stays in force (fail-static), and the session is tried again after ever
longer pauses. A generation is acknowledged when `apply` returns; where it refuses, the controller is told why and the
generation before goes on.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import grpc.aio

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.api.proto.heddle.v1 import heddle_pb2_grpc as rpc
from dataplane.config.desired import Desired
from dataplane.config.refusal import ConfigError
from dataplane.config.updates import MAX_MESSAGE_BYTES, Replica

Apply = Callable[[Desired], Awaitable[None]]
"""Put a generation into force; raises ValueError (ConfigError is one) where it cannot, with one line that says why."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
COUNTERS_S = 1.0
TABLES_PART_BYTES = 1 << 18
MAX_WAITING = 64
"""Reports that wait to be sent; counters that find no room are left out, the next ones hold them."""

log = logging.getLogger("heddle.gateway")


class Attachment:
    """Keeps a session for as long as `run` runs; `generation` is the one in force, 0 for none."""

    def __init__(
        self,
        server: str,
        hello: pb.GatewayHello,
        apply: Apply,
        counters: Callable[[], pb.GatewayCounters] | None = None,
        tables: Callable[[], bytes] | None = None,
    ) -> None:
        """Take the controller's address (host:port, or unix:/path), who we are, and what to do with a generation.

        `tables` returns the installed tables, packed by `gateway.compiler.archive`, or None; it runs in a thread.
        """
        self._server, self._hello, self._apply, self._counters = server, hello, apply, counters
        self._tables = tables
        self.generation = 0
        self.attached = False

    async def run(self) -> None:
        """Attach, and attach again, until cancelled."""
        pause_s, complaint = FIRST_PAUSE_S, ""
        while True:
            try:
                await self._session()
                said = "the session was ended by the controller"
            except grpc.aio.AioRpcError as error:
                said = error.details() or str(error.code())
            if self.attached:
                pause_s = FIRST_PAUSE_S
            self.attached = False
            if said != complaint:
                log.warning("controller %s: %s; what it told last stays in force, trying again", self._server, said)
                complaint = said
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _session(self) -> None:
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.keepalive_time_ms", 10_000)]
        reports: asyncio.Queue[pb.GatewayReport] = asyncio.Queue(MAX_WAITING)
        hello = pb.GatewayHello()
        hello.CopyFrom(self._hello)
        hello.generation = self.generation
        reports.put_nowait(pb.GatewayReport(hello=hello))
        async with grpc.aio.insecure_channel(self._server, options=options) as channel:
            call = rpc.GatewayServiceStub(channel).Attach(_all_of(reports))
            telling = asyncio.create_task(self._tell(reports))
            try:
                await self._listen(call, reports)
            finally:
                telling.cancel()
                call.cancel()

    async def _listen(self, call: AsyncIterator[pb.NetworkUpdate], reports: asyncio.Queue[pb.GatewayReport]) -> None:
        replica = Replica()
        async for update in call:
            self.attached = True
            if update.tables_request:
                await self._send_tables(update.tables_request, reports)
                continue
            ack = pb.GatewayAck(generation=update.generation)
            try:
                desired = replica.apply(update)
                if desired is None:
                    continue
                await self._apply(desired)
                self.generation = update.generation
            except (ConfigError, ValueError) as refusal:
                ack.refused = str(refusal).splitlines()[0]
                log.error("generation %d is refused: %s", update.generation, ack.refused)
            await reports.put(pb.GatewayReport(ack=ack))

    async def _send_tables(self, request: int, reports: asyncio.Queue[pb.GatewayReport]) -> None:
        """Send the installed tables in parts, or say why there are none."""
        try:
            if self._tables is None:
                raise ValueError("this agent has no tables")
            data = await asyncio.to_thread(self._tables)
        except (OSError, ValueError) as error:
            part = pb.TablesPart(request=request, last=True, refused=str(error) or "it cannot read its tables")
            await reports.put(pb.GatewayReport(tables=part))
            return
        for at in range(0, max(len(data), 1), TABLES_PART_BYTES):
            piece, last = data[at : at + TABLES_PART_BYTES], at + TABLES_PART_BYTES >= len(data)
            await reports.put(pb.GatewayReport(tables=pb.TablesPart(request=request, data=piece, last=last)))

    async def _tell(self, reports: asyncio.Queue[pb.GatewayReport]) -> None:
        """Report counters once a second."""
        while self._counters is not None:
            await asyncio.sleep(COUNTERS_S)
            if self.attached and not reports.full():
                reports.put_nowait(pb.GatewayReport(counters=self._counters()))


async def _all_of(reports: asyncio.Queue[pb.GatewayReport]) -> AsyncIterator[pb.GatewayReport]:
    while True:
        yield await reports.get()
