"""Keep a gRPC session with the controller, for gateways and hosts: receive the configuration, then every change.

While the controller is unreachable the last configuration stays in force (fail-static), and the session is retried with
exponential back-off. A generation is acknowledged when `apply` returns, with the VPCs that are not served as it wants.
If `apply` refuses all of it, the controller gets the reason and the previous generation stays in force.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

import grpc
import grpc.aio

from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.refusal import ConfigError
from heddle.dataplane.config.replica import Replica
from heddle.dataplane.config.updates import MAX_MESSAGE_BYTES
from heddle.dataplane.config.wire_balancers import states_to
from heddle.dataplane.control.back_end_health import BackEndHealth
from heddle.foundation.backoff import Backoff
from heddle.foundation.channel import aio_channel_to
from heddle.foundation.keepalive import KEEPALIVE_MS, client_options
from heddle.foundation.leader_address import LeaderAddress
from heddle.foundation.tls_files import Tls
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

Apply = Callable[[Desired], Awaitable[Mapping[str, str] | None]]
"""Put a generation into force; return what is served instead, and why, by VPC that is not served as wanted (None: all
are). Raises ValueError (such as ConfigError) with a one-line reason if none of it can be served."""

RECONNECT = Backoff(first_s=0.1, max_s=2.0)
COUNTERS_S = 1.0
NOTICE_S = 1.0
HEALTH_S = 0.1
"""Least time between two reports of health, each of which has all back ends."""
TABLES_PART_BYTES = 1 << 18
MAX_KEPT = 4_096
"""VPCs named in one acknowledgement as kept, and as unknown."""
MAX_WHY_LENGTH = 300
MAX_WAITING = 64
"""Reports queued for sending. Counters are left out while the queue is full; the next report includes them."""

log = logging.getLogger("heddle.gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the reports to the controller come from; None: there are none of the kind."""

    counters: Callable[[], pb.GatewayCounters] | None = None
    """Returns the counters, which are reported once a second."""
    tables: Callable[[], bytes] | None = None
    """Returns the installed tables, packed by `tables.compiler.archive`; runs in a thread."""
    notices: asyncio.Queue[str] | None = None
    """Lines for the controller's event log."""
    health: BackEndHealth | None = None


NO_SOURCES = Sources()


class Attachment:
    """The session of one gateway or host; `generation` is the one in force, 0 for none."""

    def __init__(
        self,
        server: str,
        hello: pb.GatewayHello,
        apply: Apply,
        sources: Sources = NO_SOURCES,
        *,
        keepalive_ms: int = KEEPALIVE_MS,
        tls: Tls | None = None,
    ) -> None:
        """Prepare a session; nothing is sent before `run`.

        Args:
            server: the controller's address, host:port or unix:/path; of several all, with commas between them.
            hello: identity of this gateway or host.
            apply: puts a generation into force.
            sources: of the reports.
            keepalive_ms: probe the controller after so long without a message.
            tls: the certificate for the controller, of which each session uses the files of its moment; None: none.
        """
        self._server, self._hello, self._apply, self._sources = LeaderAddress(server), hello, apply, sources
        self._keepalive_ms, self._tls = keepalive_ms, tls
        self.generation = 0
        self.attached = False
        self._in_force: Desired | None = None
        self._kept: Mapping[str, str] = {}

    async def run(self) -> None:
        """Attach, and re-attach after each failure, until cancelled."""
        attempt, logged = 1, ""
        while True:
            called, trailers = self._server.current, None
            try:
                reason = await self._session()
            except grpc.aio.AioRpcError as error:
                reason, trailers = error.details() or str(error.code()), error.trailing_metadata()
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                reason = "the session was cancelled"  # by gRPC, when it cannot send
            if self.attached:
                attempt = 1
            self.attached = False
            if reason != logged:
                log.warning("controller %s: %s; the last configuration stays in force, retrying", called, reason)
                logged = reason
            self._server.failed(trailers)
            await asyncio.sleep(RECONNECT.delay_s(attempt, random.random()))
            attempt += 1

    async def _session(self) -> str:
        """Run one session; return why it ended."""
        options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), *client_options(self._keepalive_ms)]
        reports: asyncio.Queue[pb.GatewayReport] = asyncio.Queue(MAX_WAITING)
        hello = pb.GatewayHello()
        hello.CopyFrom(self._hello)
        hello.generation = self.generation
        reports.put_nowait(pb.GatewayReport(hello=hello))
        async with aio_channel_to(self._server.current, options, self._tls) as channel:
            call = rpc.GatewayServiceStub(channel).Attach()
            tasks = [
                asyncio.create_task(_send(call, reports)),
                asyncio.create_task(self._report_counters(reports)),
                asyncio.create_task(self._report_notices(reports)),
                asyncio.create_task(self._report_health(reports)),
            ]
            try:
                return await self._listen(call, reports)
            finally:
                call.cancel()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)  # what failed them has ended the call as well

    async def _listen(self, call: AsyncIterator[pb.NetworkUpdate], reports: asyncio.Queue[pb.GatewayReport]) -> str:
        """Apply and acknowledge updates until the controller ends the session; return why it ended."""
        replica = Replica(self._in_force)
        async for update in call:
            self.attached = True
            if replica.is_behind and not update.tables_request and not update.whole:
                return "a generation was refused, and there is another: the whole is requested"
            if update.tables_request:
                await self._send_tables(update.tables_request, reports)
                continue
            ack = pb.GatewayAck(generation=update.generation)
            try:
                desired = replica.apply(update)
                if desired is None:
                    continue
                kept = await self._apply(desired) or desired.refused
                self.generation, self._in_force = update.generation, desired
                self._note_kept(kept)
                ack.kept_vpcs.extend(_kept(kept))
                ack.unknown_vpcs.extend(sorted(desired.unknown)[:MAX_KEPT])
            except (ConfigError, ValueError) as error:
                ack.refused = str(error).splitlines()[0]
                log.error("generation %d is refused: %s", update.generation, ack.refused)
            await reports.put(pb.GatewayReport(ack=ack))
        return "the controller ended the session"

    def _note_kept(self, kept: Mapping[str, str]) -> None:
        """Log VPCs that are not served as wanted, each reason once."""
        for vpc, why in kept.items():
            if self._kept.get(vpc) != why:
                log.error("vpc %s: %s", vpc, why)
        self._kept = kept

    async def _send_tables(self, request: int, reports: asyncio.Queue[pb.GatewayReport]) -> None:
        """Send the installed tables in parts, or the reason why there are none."""
        try:
            if self._sources.tables is None:
                raise ValueError("this agent has no tables")
            data = await asyncio.to_thread(self._sources.tables)
        except (OSError, ValueError) as error:
            part = pb.TablesPart(request=request, last=True, refused=str(error) or "it cannot read its tables")
            await reports.put(pb.GatewayReport(tables=part))
            return
        for at in range(0, max(len(data), 1), TABLES_PART_BYTES):
            piece, last = data[at : at + TABLES_PART_BYTES], at + TABLES_PART_BYTES >= len(data)
            await reports.put(pb.GatewayReport(tables=pb.TablesPart(request=request, data=piece, last=last)))

    async def _report_counters(self, reports: asyncio.Queue[pb.GatewayReport]) -> None:
        """Report counters once a second."""
        while self._sources.counters is not None:
            await asyncio.sleep(COUNTERS_S)
            if self.attached and not reports.full():
                reports.put_nowait(pb.GatewayReport(counters=self._sources.counters()))

    async def _report_notices(self, reports: asyncio.Queue[pb.GatewayReport]) -> None:
        """Report notices while attached, once a second at most; meanwhile they wait."""
        while self._sources.notices is not None:
            await asyncio.sleep(NOTICE_S)
            if self.attached and not reports.full() and not self._sources.notices.empty():
                reports.put_nowait(pb.GatewayReport(notice=pb.GatewayNotice(text=self._sources.notices.get_nowait())))

    async def _report_health(self, reports: asyncio.Queue[pb.GatewayReport]) -> None:
        """Report the health of all back ends when the session begins, and after each change."""
        if self._sources.health is None:
            return
        self._sources.health.changed.set()
        while True:
            await self._sources.health.changed.wait()
            self._sources.health.changed.clear()
            await reports.put(pb.GatewayReport(health=states_to(self._sources.health.states())))
            await asyncio.sleep(HEALTH_S)


def _kept(kept: Mapping[str, str]) -> Iterator[pb.KeptVpc]:
    for vpc, why in sorted(kept.items())[:MAX_KEPT]:
        yield pb.KeptVpc(vpc_id=vpc, why=why[:MAX_WHY_LENGTH])


async def _send(call: grpc.aio.StreamStreamCall, reports: asyncio.Queue[pb.GatewayReport]) -> None:
    """Send reports until cancelled. gRPC does not end a generator of requests without a traceback."""
    while True:
        await call.write(await reports.get())
