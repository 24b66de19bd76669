"""Keep a gRPC session with the controller: take orders, send probes from the NIC that each names, report the replies.

The agent decides nothing. Each NIC has a thread and carries out one order at a time, and beside them orders of mesh
probes (`mesh.py`); orders of a session that has ended end with it. Requests of other agents are answered all the time.
A lost session is retried with exponential back-off, at the leader where that is known.
"""

import asyncio
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address
from types import MappingProxyType
from typing import Any

import grpc
import grpc.aio

from heddle.foundation.backoff import Backoff
from heddle.foundation.channel import aio_channel_to
from heddle.foundation.keepalive import KEEPALIVE_MS, client_options
from heddle.foundation.leader_address import LeaderAddress
from heddle.foundation.tls_files import Tls
from heddle.probing.agent.mesh import MAX_OPEN_ORDERS, MeshEnd
from heddle.probing.agent.orders import MeshOrder, Order, OrderError, mesh_order_in, order_in, replies_to
from heddle.probing.prober import Prober
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

MAX_WAITING = 4
"""Orders that wait for a NIC; one more is refused."""
MAX_REPORTS = 64
NO_MESH: Mapping[int, MeshEnd] = MappingProxyType({})
log = logging.getLogger("heddle.probe")


class ProbeAgent:
    """The agent of one host; `counts` are cumulative."""

    def __init__(
        self, server: str, host: str, nics: Mapping[int, tuple[str, Prober]], *, rate_pps: int, tls: Tls | None = None,
        backoff: Backoff | None = None, mesh: Mapping[int, MeshEnd] = NO_MESH,
    ) -> None:  # fmt: skip
        """Prepare a session; nothing is sent before `run`.

        Args:
            server: the controller's address, host:port or unix:/path; of several all, with commas between them.
            host: the host's id in the fabric file.
            nics: devices and open probers by address.
            rate_pps: the most probes per second from one NIC.
            tls: the certificate for the controller, of which each session uses the files of its moment; None: none.
            backoff: the delays between sessions.
            mesh: open ends of the ping mesh by address, of the NICs that take part.
        """
        self._server, self._host, self._nics, self._rate_pps, self._tls = (
            LeaderAddress(server),
            host,
            nics,
            rate_pps,
            tls,
        )
        self._backoff, self._mesh = backoff or Backoff(), mesh
        self._pool = ThreadPoolExecutor(len(nics), thread_name_prefix="prober")
        self._named: set[str] = set()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Attach, and attach again after each failure, until cancelled."""
        for end in self._mesh.values():
            end.listen()
        try:
            await self._attached()
        finally:
            for end in self._mesh.values():
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
                    if message.mesh:
                        await self._take_mesh(message, meshing, reports)
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
            pb.ProbeNic(ip=str(IPv4Address(ip)), device=device, mesh=ip in self._mesh)
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

    async def _take_mesh(
        self, message: pb.ProbeOrder, meshing: set["asyncio.Task[None]"], reports: "asyncio.Queue[pb.ProbeReport]"
    ) -> None:
        """Begin an order of mesh probes, or report why it is refused."""
        try:
            order = mesh_order_in(message, self._mesh, self._rate_pps)
            if self._mesh[order.src_ip].is_full:
                raise OrderError(f"{MAX_OPEN_ORDERS} orders of mesh probes are open at this NIC already")
        except OrderError as refused:
            await self._refuse(message.order_id, refused, reports)
            return
        self.counts["orders"] += 1
        task = asyncio.create_task(self._run_mesh(order, reports))
        meshing.add(task)
        task.add_done_callback(meshing.discard)

    async def _run_mesh(self, order: MeshOrder, reports: "asyncio.Queue[pb.ProbeReport]") -> None:
        rtt_us, sent, late = await self._mesh[order.src_ip].run(order)
        replies = pb.ProbeReplies(order_id=order.number, sent=sent, mesh_rtt_us=rtt_us, late=late)
        await reports.put(pb.ProbeReport(replies=replies))

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


async def _send(call: Any, reports: "asyncio.Queue[pb.ProbeReport]") -> None:
    """Send reports until cancelled. gRPC does not end a generator of requests without a traceback."""
    while True:
        await call.write(await reports.get())
