"""Serve ProbeService: sessions of probe agents, which get orders and report what they saw."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from ipaddress import IPv4Address
from typing import Any

import grpc

from heddle.controller.access.call import current
from heddle.controller.api.errors import errors_as_status
from heddle.controller.api.worker import in_worker
from heddle.controller.model.address import ip_text, ipv6_text, parse_ip
from heddle.controller.model.admission import quoted
from heddle.controller.model.error import DeniedError, InputError, UnavailableError
from heddle.controller.model.fabric import Fabric
from heddle.controller.probe_sessions.assembly import Lie, Reply
from heddle.controller.probe_sessions.sessions import MAX_QUESTIONS, Order, ProbeAgents, ProbeSession
from heddle.dataplane.config.refusal import shown
from heddle.probing.probe import Question
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

Context = Any
HELLO_TIMEOUT_S = 10.0
RATE_PPS, MAX_RATE_PPS = 1_000, 1_000_000
MAX_NICS = 1_024
MAX_REFUSAL = 200


class ProbeService(rpc.ProbeServiceServicer):
    """Sessions of probe agents."""

    def __init__(self, fabric: Fabric, agents: ProbeAgents) -> None:
        self._fabric, self._agents = fabric, agents

    async def Attach(self, reports: AsyncIterator[pb.ProbeReport], context: Context) -> AsyncIterator[pb.ProbeOrder]:
        """Run the session of one agent until either side ends it."""
        async with errors_as_status(context):
            hello = await _received_hello(reports)
            current().speaks_for(hello.host)
            session = _session_of(hello, self._fabric)
            self._agents.attach(session)
            try:
                await context.send_initial_metadata(())  # the agent is attached
                async for order in self._orders(reports, session):
                    yield order
            finally:
                self._agents.detach(session)

    async def _orders(
        self, reports: AsyncIterator[pb.ProbeReport], session: ProbeSession
    ) -> AsyncIterator[pb.ProbeOrder]:
        """Yield the orders to send to an agent, until either side ends the session."""
        reading = asyncio.create_task(self._read(reports, session))
        reading.add_done_callback(lambda _: session.wake.set())
        try:
            while not reading.done() and not session.ended:
                session.wake.clear()
                while session.to_send:
                    order = session.to_send.popleft()
                    if order.number in session.open:  # otherwise the search has ended meanwhile
                        yield await in_worker(_order_to, order)
                await session.wake.wait()
            if session.ended:
                raise UnavailableError(f"host {session.host}: {session.ended}")
            reading.result()
        finally:
            reading.cancel()

    async def _read(self, reports: AsyncIterator[pb.ProbeReport], session: ProbeSession) -> None:
        """Handle the reports of an agent until it ends the stream."""
        agents = self._agents
        async for report in reports:
            if report.WhichOneof("report") != "replies":
                raise InputError(f"host {session.host}: a session sends hello once, then replies")
            found = report.replies
            if max(len(found.replies), len(found.mesh_rtt_us)) > MAX_QUESTIONS:
                agents.lied(session, Lie.SURPLUS)
                continue
            replies = await in_worker(_replies_in, found)
            refused = shown(found.refused[:MAX_REFUSAL])[1:-1]
            rtt_us = tuple(found.mesh_rtt_us)
            agents.report(session, found.order_id, found.sent, refused, replies, rtt_us, found.late)


async def _received_hello(reports: AsyncIterator[pb.ProbeReport]) -> pb.ProbeHello:
    """Return the first message of a session; raises InputError where it is no hello."""
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            first = await anext(aiter(reports), None)
    except TimeoutError:
        raise InputError(f"no hello came within {HELLO_TIMEOUT_S:.0f} s") from None
    if first is None or first.WhichOneof("report") != "hello":
        raise InputError("the first message of a session must be a hello")
    return first.hello


def _session_of(hello: pb.ProbeHello, fabric: Fabric) -> ProbeSession:
    """Return the session of a hello; raises InputError, and DeniedError for addresses of another host."""
    if not 0 < len(hello.nics) <= MAX_NICS or hello.rate_pps > MAX_RATE_PPS:
        raise InputError(f"hello: must have 1 to {MAX_NICS:,} nics, and a rate_pps of {MAX_RATE_PPS:,} at most")
    host_of = {nic.ip: nic.host for nic in fabric.nics}
    ips, mesh, sids = set[int](), set[int](), set[int]()
    for number, nic in enumerate(hello.nics):
        place = f"hello.nics[{number}].ip"
        try:
            address = parse_ip(nic.ip)
        except ValueError:
            raise InputError(f"{place}: {quoted(nic.ip)} is no IPv4 address") from None
        host = host_of.get(address)
        if host is None:
            raise InputError(f"{place}: no NIC of this fabric has {nic.ip}")
        if host != hello.host:
            raise DeniedError(f"{place}: {nic.ip} is of another host than {quoted(hello.host)}")
        ips.add(address)
        mesh.update({address} if nic.mesh else ())
        sids.update({address} if nic.sids else ())
    rate_pps = float(hello.rate_pps or RATE_PPS)
    return ProbeSession(hello.host, frozenset(ips), rate_pps, frozenset(mesh), frozenset(sids))


def _order_to(order: Order) -> pb.ProbeOrder:
    return pb.ProbeOrder(
        order_id=order.number,
        src_ip=ip_text(order.src_ip),
        questions=[
            pb.ProbeQuestion(dst_ip=ip_text(question.dst_ip), port=question.port, ttl=question.ttl)
            for question in order.questions
        ],
        rate_pps=order.rate_pps,
        timeout_ms=round(order.timeout_s * 1000),
        qpn=order.header.qpn,
        dscp=order.header.dscp,
        mesh=[
            pb.MeshProbe(dst_ip=ip_text(probe.dst_ip), port=probe.port, reply_port=probe.reply_port)
            for probe in order.mesh
        ],
        sids=map(ipv6_text, order.sids),
        srv6_source=ipv6_text(order.source) if order.sids else "",
    )


def _replies_in(message: pb.ProbeReplies) -> list[Reply]:
    return list(_read_replies(message))


def _read_replies(message: pb.ProbeReplies) -> Iterator[Reply]:
    """Yield the replies of a report, None for one that is malformed."""
    for reply in message.replies:
        asked = reply.question
        try:
            yield Question(int(IPv4Address(asked.dst_ip)), asked.port, asked.ttl), int(IPv4Address(reply.router_ip))
        except ValueError:
            yield None


def add_to(server: grpc.aio.Server, fabric: Fabric, agents: ProbeAgents) -> None:
    """Register the service."""
    rpc.add_ProbeServiceServicer_to_server(ProbeService(fabric, agents), server)
