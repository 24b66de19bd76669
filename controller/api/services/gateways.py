"""Serve GatewayService: send network configurations to gateways and hosts, and collect their reports.

At most one generation is in flight to a gateway: after its acknowledgement the newest one is sent, skipping those in
between. A session remembers the configuration that it sent, and sends differences.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from ipaddress import IPv4Address
from typing import Any

import grpc

from heddle.controller.access.call import current
from heddle.controller.access.vteps import check_vteps
from heddle.controller.api.errors import errors_as_status
from heddle.controller.api.worker import in_worker
from heddle.controller.brain.networks.publishing import update_for
from heddle.controller.brain.state import State
from heddle.controller.brain.virtual_networks import Gateway
from heddle.controller.model.effect import Note
from heddle.controller.model.error import (
    BudgetExceededError,
    DeniedError,
    HeddleError,
    InputError,
    NotFoundError,
    UnavailableError,
)
from heddle.controller.model.network_event import BackEndsReported, ForgetGateway, GatewayAcked, GatewayDown, GatewayUp
from heddle.controller.runtime.gateways import Gateways, GatewaySession, TooManyRequestsError
from heddle.controller.runtime.loop import Loop
from heddle.dataplane.config.check import NAME, is_unicast
from heddle.dataplane.config.check_local import MAX_INTERFACES
from heddle.dataplane.config.desired import Desired, Kind
from heddle.dataplane.config.refusal import ConfigError, shown
from heddle.dataplane.config.updates import updates
from heddle.dataplane.config.wire import gateway_ports_from
from heddle.dataplane.config.wire_balancers import pools_from, states_from
from heddle.foundation.identity import Role
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

Context = Any
HELLO_TIMEOUT_S = 10.0
TABLES_TIMEOUT_S = 60.0
MAX_REFUSAL = 1_000
MAX_NOTICE = 400
MIN_NOTICE_MS = 500
"""Half the interval of a gateway's notices, as the network may delay one and not the next."""


class GatewayService(rpc.GatewayServiceServicer):
    """Sessions of gateways and hosts, and their status."""

    def __init__(self, loop: Loop, gateways: Gateways, note: Callable[[Note], None]) -> None:
        self._loop, self._gateways, self._note = loop, gateways, note

    async def Attach(
        self, reports: AsyncIterator[pb.GatewayReport], context: Context
    ) -> AsyncIterator[pb.NetworkUpdate]:
        """Run the session of one gateway or host until either side ends it."""
        async with errors_as_status(context):
            hello = await _received_hello(reports)
            _check_speaker(hello, self._loop.state)
            name, session = hello.gateway_id, self._gateways.open()
            session.hello = hello
            try:
                self._gateways.attach(name, session)
                await self._loop.request(partial(_up, hello, session.number))
                async for update in self._updates(reports, name, session):
                    yield update
            finally:
                self._gateways.detach(name, session)
                self._loop.post(GatewayDown(session=session.number, gateway_id=name))

    async def _updates(
        self, reports: AsyncIterator[pb.GatewayReport], name: str, session: GatewaySession
    ) -> AsyncIterator[pb.NetworkUpdate]:
        """Yield the updates to send to a gateway, until either side ends the session."""
        reading = asyncio.create_task(self._read(reports, name, session))
        reading.add_done_callback(lambda _: session.wake.set())
        sent: Desired | None = None
        try:
            while not reading.done() and not session.ended:
                session.wake.clear()
                while session.table_requests:
                    yield pb.NetworkUpdate(tables_request=session.table_requests.pop(0))
                if session.acknowledged_generation >= session.sent_generation:
                    newest = update_for(self._loop.state.networks, name, sent)
                    if newest is not None:
                        session.sent_generation = newest.network.generation
                        messages = updates(sent, newest)
                        while (update := await in_worker(next, messages, None)) is not None:
                            yield update
                        sent = newest
                        continue
                    self._acknowledge_unchanged(name, session, sent)
                await session.wake.wait()
            if session.ended:
                raise UnavailableError(f"gateway {name}: {session.ended}")
            reading.result()
        finally:
            reading.cancel()

    def _acknowledge_unchanged(self, name: str, session: GatewaySession, sent: Desired | None) -> None:
        """Acknowledge the newest generation for a host whose part of it is unchanged and therefore not sent."""
        networks = self._loop.state.networks
        known = networks.gateways.get(name)
        if sent is None or known is None or known.session != session.number or known.refused:
            return
        if sent.network.generation <= known.acknowledged < networks.generation:
            acked = GatewayAcked(
                session=session.number, gateway_id=name, generation=networks.generation, kept=known.kept,
                unknown=known.unknown,
            )  # fmt: skip
            self._loop.post(acked)  # where the inbox is full, the next wake tries again

    async def _read(self, reports: AsyncIterator[pb.GatewayReport], name: str, session: GatewaySession) -> None:
        """Handle the reports of a gateway until it ends the stream."""
        async for report in reports:
            session.last_seen_unix_ms = self._loop.now_unix_ms()
            kind = report.WhichOneof("report")
            if kind == "ack":
                self._acked(name, session, report.ack)
            elif kind == "counters":
                session.counters = report.counters
            elif kind == "tables":
                await _relayed(session, report.tables)
            elif kind == "notice":
                self._noticed(name, session, report.notice)
            elif kind == "health":
                self._health(name, session, report.health)
            else:
                known = "ack, counters, tables, notices or health"
                raise InputError(f"gateway {name}: a session sends hello once, then {known}")

    def _noticed(self, name: str, session: GatewaySession, notice: pb.GatewayNotice) -> None:
        """Write a gateway's line to the event log, unless it sends more than one a second."""
        if session.last_seen_unix_ms - session.last_notice_unix_ms >= MIN_NOTICE_MS:
            session.last_notice_unix_ms = session.last_seen_unix_ms
            self._note(Note(severity="warning", subject=name, text=_line(notice.text, MAX_NOTICE)))

    def _health(self, name: str, session: GatewaySession, health: pb.BackEndHealth) -> None:
        try:
            states = states_from(health)
        except ConfigError as refused:
            raise InputError(f"gateway {name}: {refused}") from None
        reported = BackEndsReported(session=session.number, gateway_id=name, states=states)
        if not self._loop.post(reported, f"gateway {name}"):
            raise BudgetExceededError("the controller's inbox is full; attach again")

    def _acked(self, name: str, session: GatewaySession, ack: pb.GatewayAck) -> None:
        if ack.generation > session.sent_generation:
            raise InputError(f"gateway {name}: ack.generation: {ack.generation} was not sent")
        session.acknowledged_generation = max(session.acknowledged_generation, ack.generation)
        session.wake.set()
        acked = GatewayAcked(
            session=session.number,
            gateway_id=name,
            generation=ack.generation,
            refused=_line(ack.refused, MAX_REFUSAL),
            kept={each.vpc_id: _line(each.why, MAX_NOTICE) for each in ack.kept_vpcs if NAME.fullmatch(each.vpc_id)},
            unknown=frozenset(filter(NAME.fullmatch, ack.unknown_vpcs)),
        )
        if not self._loop.post(acked, f"gateway {name}"):
            raise BudgetExceededError("the controller's inbox is full; attach again")

    async def ListGateways(self, request: pb.ListGatewaysRequest, context: Context) -> pb.ListGatewaysReply:
        """Return the known gateways and hosts, ordered by id."""
        networks, sessions = self._loop.state.networks, self._gateways.by_id
        known = sorted(networks.gateways.items())
        return pb.ListGatewaysReply(
            gateways=[
                _status(name, gateway, sessions.get(name), networks.unknown_at(gateway)) for name, gateway in known
            ],
            generation=networks.generation,
        )

    async def ForgetGateway(self, request: pb.ForgetGatewayRequest, context: Context) -> pb.ForgetGatewayReply:
        """Remove a detached gateway."""
        async with errors_as_status(context):
            await self._loop.request(lambda reply: ForgetGateway(reply=reply, gateway_id=request.gateway_id))
            return pb.ForgetGatewayReply()

    async def ReadTables(self, request: pb.ReadTablesRequest, context: Context) -> AsyncIterator[pb.TablesPart]:
        """Stream the tables that a gateway has installed."""
        async with errors_as_status(context):
            try:
                session, number, parts = self._gateways.request_tables(request.gateway_id)
            except KeyError:
                raise NotFoundError(f"gateway_id: no gateway {shown(request.gateway_id)} is attached") from None
            except TooManyRequestsError as error:
                raise BudgetExceededError(str(error)) from None
            try:
                last = False
                while not last:
                    part = await _next_part(parts, request.gateway_id)
                    last = part.last
                    yield part
            finally:
                session.table_parts.pop(number, None)


async def _received_hello(reports: AsyncIterator[pb.GatewayReport]) -> pb.GatewayHello:
    """Return the first message of a session, checked; raises InputError where it is no valid hello."""
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            first = await anext(aiter(reports), None)
    except TimeoutError:
        raise InputError(f"no hello came within {HELLO_TIMEOUT_S:.0f} s") from None
    if first is None or first.WhichOneof("report") != "hello":
        raise InputError("the first message of a session must be a hello")
    hello = first.hello
    if not NAME.fullmatch(hello.gateway_id):
        raise InputError(f"hello.gateway_id: {shown(hello.gateway_id)} is no id")
    hello.kind = hello.kind or Kind.GATEWAY.value
    if hello.kind not in set(Kind):
        raise InputError(f"hello.kind: {shown(hello.kind)} is none of {', '.join(Kind)}")
    _check_vtep("vtep_ip", hello.vtep_ip)
    if hello.host_vtep_ip:
        _check_vtep("host_vtep_ip", hello.host_vtep_ip)
        if hello.kind == Kind.HOST and hello.host_vtep_ip != hello.vtep_ip:
            raise InputError(f"hello.host_vtep_ip: {hello.host_vtep_ip} is not hello.vtep_ip; a host has one VTEP")
    return hello


def _check_speaker(hello: pb.GatewayHello, state: State) -> None:
    """Raise DeniedError where the caller is not what a hello says: its name, its kind, its VTEPs."""
    call = current()
    call.concerns(hello.gateway_id)
    kinds = {Role.GATEWAY: (Kind.GATEWAY, Kind.BALANCER), Role.AGENT: (Kind.HOST,)}.get(call.caller.role, tuple(Kind))
    if hello.kind not in kinds:
        raise DeniedError(f"hello.kind: {call.caller.who} may be {' or '.join(kinds)}, not {hello.kind}")
    given = {field: getattr(hello, field) for field in ("vtep_ip", "host_vtep_ip")}
    vteps = {field: IPv4Address(text) for field, text in given.items() if text}
    hosts = {each.vtep for each in state.networks.gateways.values() if each.is_host}
    check_vteps(call.caller, vteps, state.fabric, hosts)
    call.speaks_for(hello.gateway_id)


def _up(hello: pb.GatewayHello, session: int, reply: int) -> GatewayUp:
    """Return the event of a checked hello; raises InputError for malformed source pools and interfaces."""
    if len(hello.interfaces) > MAX_INTERFACES:
        raise InputError(f"hello.interfaces: {len(hello.interfaces)}; at most {MAX_INTERFACES}")
    try:
        pools = pools_from(hello.source_pools)
        ports = gateway_ports_from(hello.interfaces)
    except ConfigError as refused:
        raise InputError(*refused.problems) from None
    return GatewayUp(
        reply=reply,
        session=session,
        gateway_id=hello.gateway_id,
        vtep=IPv4Address(hello.vtep_ip),
        kind=Kind(hello.kind),
        generation=hello.generation,
        host_vtep=IPv4Address(hello.host_vtep_ip) if hello.host_vtep_ip else None,
        pools=pools,
        partner=hello.partner,
        ports=ports,
    )


def _line(text: str, length: int) -> str:
    """Return a text of a peer as one line of at most so many characters."""
    return repr(text[:length])[1:-1]


def _check_vtep(field: str, text: str) -> None:
    try:
        vtep = IPv4Address(text)
    except ValueError:
        raise InputError(f"hello.{field}: {shown(text)} is no IPv4 address") from None
    if not is_unicast(vtep):
        raise InputError(f"hello.{field}: {vtep} is no address of a VTEP")


def _status(name: str, gateway: Gateway, session: GatewaySession | None, unknown: frozenset[str]) -> pb.GatewayStatus:
    hello = pb.GatewayHello(gateway_id=name, kind=gateway.kind.value, vtep_ip=str(gateway.vtep))
    found = pb.GatewayStatus(
        hello=session.hello if session else hello,
        attached=gateway.session is not None,
        acknowledged_generation=gateway.acknowledged,
        refused=gateway.refused,
        kept_vpcs=[pb.KeptVpc(vpc_id=vpc, why=why) for vpc, why in sorted(gateway.kept.items())],
        unknown_vpcs=sorted(unknown),
    )
    if session is not None:
        found.sent_generation = session.sent_generation
        found.last_seen_unix_ms = session.last_seen_unix_ms
        if session.counters is not None:
            found.counters.CopyFrom(session.counters)
    return found


async def _relayed(session: GatewaySession, part: pb.TablesPart) -> None:
    """Forward a part of the tables to the reader that requested it; discarded where the reader has gone."""
    waiting = session.table_parts.get(part.request)
    if waiting is None:
        return
    try:
        async with asyncio.timeout(TABLES_TIMEOUT_S):
            await waiting.put(part)
    except TimeoutError:
        session.table_parts.pop(part.request, None)


async def _next_part(parts: "asyncio.Queue[pb.TablesPart | None]", name: str) -> pb.TablesPart:
    try:
        async with asyncio.timeout(TABLES_TIMEOUT_S):
            part = await parts.get()
    except TimeoutError:
        raise UnavailableError(f"gateway {name} does not send its tables") from None
    if part is None:
        raise UnavailableError(f"gateway {name} went away")
    if part.refused:
        raise HeddleError(f"gateway {name}: {_line(part.refused, MAX_REFUSAL)}")
    return part


def add_to(server: grpc.aio.Server, loop: Loop, gateways: Gateways, note: Callable[[Note], None]) -> None:
    """Register the service."""
    rpc.add_GatewayServiceServicer_to_server(GatewayService(loop, gateways, note), server)
