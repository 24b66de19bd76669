"""Keep a gRPC session with the controller: take orders, send probes from the NIC that each names, report the replies.

The agent decides nothing. Each NIC has a thread and carries out one order at a time, and beside them orders of paced
probes (`end.py`); orders of a session that has ended end with it. Requests of other agents are answered all the time.
A lost session is retried with exponential back-off, at the leader where that is known.
"""

import asyncio
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import grpc
import grpc.aio

from heddle.foundation.backoff import Backoff
from heddle.foundation.channel import aio_channel_to
from heddle.foundation.keepalive import KEEPALIVE_MS, client_options
from heddle.foundation.leader_address import LeaderAddress
from heddle.foundation.tls_files import Tls
from heddle.probing.agent.end import MAX_OPEN_ORDERS, PacedResult
from heddle.probing.agent.mesh import MeshEnd
from heddle.probing.agent.orders import Order, OrderError, mesh_order_in, order_in, replies_to, sid_order_in
from heddle.probing.agent.returning import ReturningEnd
from heddle.probing.prober import Prober
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

MAX_WAITING = 4
"""Orders that wait for a NIC; one more is refused."""
MAX_REPORTS = 64
log = logging.getLogger("heddle.probe")


class Ends(NamedTuple):
    """Open ends of paced probes by address: of the ping mesh, and of probes that return by their SIDs."""

    mesh: Mapping[int, MeshEnd] = MappingProxyType({})
    returning: Mapping[int, ReturningEnd] = MappingProxyType({})

    @property
    def all(self) -> "tuple[MeshEnd | ReturningEnd, ...]":
        """Return all of them."""
        return (*self.mesh.values(), *self.returning.values())


NO_ENDS = Ends()
End = TypeVar("End", MeshEnd, ReturningEnd)


class ProbeAgent:
    """The agent of one host; `counts` are cumulative."""

    def __init__(
        self, server: str, host: str, nics: Mapping[int, tuple[str, Prober]], *, rate_pps: int, tls: Tls | None = None,
        backoff: Backoff | None = None, ends: Ends = NO_ENDS,
    ) -> None:  # fmt: skip
        """Prepare a session; nothing is sent before `run`.

        Args:
            server: the controller's address, host:port or unix:/path; of several all, with commas between them.
            host: the host's id in the fabric file.
            nics: devices and open probers by address.
            rate_pps: the most probes per second from one NIC.
            tls: the certificate for the controller, of which each session uses the files of its moment; None: none.
            backoff: the delays between sessions.
            ends: of the NICs that send paced probes.
        """
        self._server, self._host, self._nics, self._rate_pps, self._tls = (
            LeaderAddress(server),
            host,
            nics,
            rate_pps,
            tls,
        )
        self._backoff, self._ends = backoff or Backoff(), ends
        self._pool = ThreadPoolExecutor(len(nics), thread_name_prefix="prober")
        self._named: set[str] = set()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Attach, and attach again after each failure, until cancelled."""
        for end in self._ends.all:
            end.listen()
        try:
            await self._attached()
        finally:
            for end in self._ends.all:
                end.unlisten()
                self.counts.update(end.counts)

    async def _attached(self) -> None:
        attempt, logged = 1, ""
        while True:
            called, trailers, began_s = self._server.current, None, time.monotonic()
            try:
                await self._session()
                reason = "the controller ended the session"
            except grpc.aio.AioRpcError as error:
                reason, trailers = error.details() or str(error.code()), error.trailing_metadata()
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                reason = "the session was cancelled"  # by gRPC, when it cannot send
            if reason != logged:
                log.warning("controller %s: %s; retrying", called, reason)
                logged = reason
            self._server.failed(trailers)
            attempt = self._backoff.next_attempt(attempt, time.monotonic() - began_s)
            await asyncio.sleep(self._backoff.delay_s(attempt, random.random()))

    async def _session(self) -> None:
        reports: asyncio.Queue[pb.ProbeReport] = asyncio.Queue(MAX_REPORTS)
        reports.put_nowait(pb.ProbeReport(hello=self._hello()))
        queues: dict[int, asyncio.Queue[Order]] = {ip: asyncio.Queue(MAX_WAITING) for ip in self._nics}
        over, meshing = threading.Event(), set[asyncio.Task[None]]()
        async with aio_channel_to(self._server.current, client_options(KEEPALIVE_MS), self._tls) as channel:
            call = rpc.ProbeServiceStub(channel).Attach()
            tasks = [asyncio.create_task(_send(call, reports))]
            tasks += [asyncio.create_task(self._carry_out(ip, queue, reports, over)) for ip, queue in queues.items()]
            try:
                await call.initial_metadata()
                if not call.done():
                    self.counts["sessions"] += 1
                    log.info("attached to controller %s", self._server.current)
                async for message in call:
                    if message.mesh or message.sids:
                        await self._take_paced(message, meshing, reports)
                    else:
                        await self._take(message, queues, reports)
            finally:
                over.set()
                call.cancel()
                for task in (*tasks, *meshing):
                    task.cancel()
                await asyncio.gather(
                    *tasks, *meshing, return_exceptions=True
                )  # what failed them has ended the call as well

    def _hello(self) -> pb.ProbeHello:
        nics = [
            pb.ProbeNic(
                ip=str(IPv4Address(ip)), device=device, mesh=ip in self._ends.mesh, sids=ip in self._ends.returning
            )
            for ip, (device, _) in self._nics.items()
        ]
        return pb.ProbeHello(host=self._host, nics=nics, rate_pps=self._rate_pps)

    async def _take(
        self, message: pb.ProbeOrder, queues: Mapping[int, "asyncio.Queue[Order]"],
        reports: "asyncio.Queue[pb.ProbeReport]",
    ) -> None:  # fmt: skip
        """Queue an order for its NIC, or report why it is refused."""
        try:
            order = order_in(message, self._nics, self._rate_pps)
            if queues[order.src_ip].full():
                raise OrderError(f"{MAX_WAITING} orders wait for this NIC already")
            queues[order.src_ip].put_nowait(order)
            self.counts["orders"] += 1
        except OrderError as refused:
            await self._refuse(message.order_id, refused, reports)

    async def _take_paced(
        self, message: pb.ProbeOrder, meshing: set["asyncio.Task[None]"], reports: "asyncio.Queue[pb.ProbeReport]"
    ) -> None:
        """Begin an order of paced probes, or report why it is refused."""
        try:
            probing = self._begun(message)
        except OrderError as refused:
            await self._refuse(message.order_id, refused, reports)
            return
        self.counts["orders"] += 1
        task = asyncio.create_task(_report_paced(message.order_id, probing, reports))
        meshing.add(task)
        task.add_done_callback(meshing.discard)

    def _begun(self, message: pb.ProbeOrder) -> Coroutine[None, None, PacedResult]:
        """Return an order of paced probes as what carries it out; raises OrderError."""
        if message.mesh:
            order = mesh_order_in(message, self._ends.mesh, self._rate_pps)
            return _with_room(self._ends.mesh[order.src_ip]).run(order)
        returning = sid_order_in(message, self._ends.returning, self._rate_pps)
        return _with_room(self._ends.returning[returning.src_ip]).run(returning)

    async def _refuse(self, number: int, refused: OrderError, reports: "asyncio.Queue[pb.ProbeReport]") -> None:
        """Count and report an order that is not carried out; log each reason once."""
        self.counts["refused_orders"] += 1
        if str(refused) not in self._named and len(self._named) < MAX_REPORTS:
            self._named.add(str(refused))
            log.warning("controller %s: an order is refused: %s", self._server.current, refused)
        await reports.put(pb.ProbeReport(replies=pb.ProbeReplies(order_id=number, refused=str(refused))))

    async def _carry_out(
        self, ip: int, orders: "asyncio.Queue[Order]", reports: "asyncio.Queue[pb.ProbeReport]", over: threading.Event
    ) -> None:
        """Carry out the orders of one NIC, one at a time, in its thread."""
        prober, running = self._nics[ip][1], asyncio.get_running_loop()
        while True:
            order = await orders.get()
            before = prober.sent, prober.unsent
            send = partial(prober.once, order.questions, order.pace, order.qpn, lambda: not over.is_set(), order.dscp)
            sending = running.run_in_executor(self._pool, send)
            try:
                found = await asyncio.shield(sending)
            except asyncio.CancelledError:
                await asyncio.wait([sending])  # `over` is set: the next session finds the sockets idle
                raise
            sent, unsent = prober.sent - before[0], prober.unsent - before[1]
            self.counts.update(probes=sent, unsent=unsent, replies=len(found))
            await reports.put(pb.ProbeReport(replies=replies_to(order, found, sent)))


def _with_room(end: End) -> End:
    """Return an end that can take an order more; raises OrderError."""
    if end.is_full:
        raise OrderError(f"{MAX_OPEN_ORDERS} orders of paced probes are open at this NIC already")
    return end


async def _report_paced(
    number: int, probing: Coroutine[None, None, PacedResult], reports: "asyncio.Queue[pb.ProbeReport]"
) -> None:
    """Carry out an order of paced probes, and report it."""
    rtt_us, sent, late = await probing
    await reports.put(
        pb.ProbeReport(replies=pb.ProbeReplies(order_id=number, sent=sent, mesh_rtt_us=rtt_us, late=late))
    )


async def _send(call: Any, reports: "asyncio.Queue[pb.ProbeReport]") -> None:
    """Send reports until cancelled. gRPC does not end a generator of requests without a traceback."""
    while True:
        await call.write(await reports.get())
