"""Run one switch's OpenFlow session: the handshake, the liveness check, requests and replies.

Order of the handshake, each step after the reply to the one before:

    Hello -> features -> admission by `Owner.admit` -> `Owner.generation` -> role
    -> port description -> barrier -> read groups and flows -> READY

The barrier shows that the switch acknowledges at all, and that what an earlier session sent has been processed.

Invariants: Hello is the first message and occurs once; `Owner.ready` is called before any other event of this switch,
and `Owner.ended` exactly once, with a reason.
"""

import asyncio
import logging
from collections.abc import Callable
from itertools import islice
from typing import ClassVar, Protocol

from heddle.controller.model.rule import GroupRule, SwitchRules
from heddle.controller.southbound.batch import Batch
from heddle.controller.southbound.codec import decode, readback, wire
from heddle.controller.southbound.codec.check import MalformedMessageError
from heddle.controller.southbound.codec.wire import ControllerRole, MessageType, MultipartType
from heddle.controller.southbound.liveness import Liveness, Verdict
from heddle.controller.southbound.pace import Pace
from heddle.controller.southbound.pending import (
    PendingRequests,
    RequestRejectedError,
    SessionClosedError,
    StrayCounters,
    done_within,
)
from heddle.controller.southbound.phase import SessionPhase, SessionRejectedError
from heddle.controller.southbound.settings import SouthboundSettings
from heddle.controller.southbound.transport import MessageTransport
from heddle.foundation.certificate import Peer

_LOG = logging.getLogger("heddle.southbound")

COMPLAINTS_PER_PERIOD = 20
"""Maximum of errors that belong to no request passed to `Owner.complained` per echo period; others are counted."""
ENTRIES_PER_TURN = 50
"""The flow entries that are decoded in one turn of the event loop, whichever switch they are of."""


class Owner(Protocol):
    """The object that owns all sessions and receives their events."""

    def connected(self, session: "SwitchSession") -> None:
        """A connection is open; raises SessionRejectedError past the limit of connections."""

    async def admit(self, session: "SwitchSession", features: decode.Features) -> str:
        """Return the switch's id, or raise SessionRejectedError."""

    async def generation(self) -> int | None:
        """Wait until this controller leads; return the generation of its role, None for no role."""

    def may_send(self) -> bool:
        """Return whether this controller leads at this moment."""

    def ready(self, session: "SwitchSession", installed: SwitchRules) -> None:
        """The handshake is over."""

    def ended(self, session: "SwitchSession", reason: str) -> None:
        """The session is over."""

    def suspected(self, session: "SwitchSession", suspect: bool) -> None:
        """A ready switch is silent, or sends again."""

    def port_changed(self, session: "SwitchSession", port: decode.Port) -> None:
        """A port of a ready switch has changed."""

    def flow_removed(self, session: "SwitchSession") -> None:
        """A ready switch has removed an entry."""

    def packet_in(self, session: "SwitchSession", message: bytes) -> None:
        """A ready switch has sent a packet to the controller."""

    def complained(self, session: "SwitchSession", text: str) -> None:
        """A switch sent an error that belongs to no request."""


class SwitchSession:
    """The controller's end of one connection from a switch."""

    def __init__(self, owner: Owner, settings: SouthboundSettings, decoding: asyncio.Lock | None = None) -> None:
        """Begin with a connection; of the sessions that share `decoding` one decodes at a time."""
        self.switch_id: str | None = None
        self.datapath_id: int | None = None
        self.peer = "?"
        self.holder: Peer | None = None
        """Whose certificate the switch showed; None without TLS."""
        self.timed_out = False
        self.phase = SessionPhase.HELLO
        self.ports: dict[int, bool] = {}
        self.counters = StrayCounters()
        self.transport = MessageTransport(self, settings.stranger_messages_per_period)
        self.pace = Pace(settings)
        """How fast the switch acknowledges; `Owner.admit` sets that of its earlier sessions."""
        self._owner = owner
        self._settings = settings
        self._decoding = decoding or asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._pending = PendingRequests()
        self._batches: list[Batch] = []
        self._hello = asyncio.Event()
        self._phase = "its Hello"
        self._handshake_task: asyncio.Task[None] | None = None
        self._liveness = Liveness(settings)
        self._timer: asyncio.TimerHandle | None = None
        self._complaints = 0

    def __str__(self) -> str:
        datapath = "?" if self.datapath_id is None else f"{self.datapath_id:#x}"
        return f"switch={self.switch_id or '?'} datapath_id={datapath} peer={self.peer}"

    def close(self, reason: str, farewell: bytes = b"") -> None:
        """End the session; no further message of it is handled."""
        self.transport.close(reason, farewell)

    # callbacks of the transport (`transport.Receiver`)

    def connected(self, peer: str) -> None:
        """Send Hello and start the handshake."""
        self.peer = peer
        try:
            self._owner.connected(self)
        except SessionRejectedError as why:
            self.close(str(why))
            return
        self.transport.write(wire.HELLO)
        self._handshake_task = self._loop.create_task(self._shake_hands())
        self._timer = self._loop.call_later(self._settings.echo_period_s, self._tick)

    def received(self, kind: int, xid: int, message: bytes) -> None:
        """Handle one checked message."""
        if self.phase is SessionPhase.HELLO and kind not in (MessageType.HELLO, MessageType.ERROR):
            raise MalformedMessageError(f"{wire.type_name(kind)} before HELLO")
        handle = self._HANDLERS.get(kind)
        if handle is not None:
            handle(self, xid, message)
        elif not self._pending.reply(kind, xid, message):
            self.counters.strays += 1

    def closed(self, reason: str) -> None:
        """Fail every pending request and batch, and notify the owner."""
        if self._timer is not None:
            self._timer.cancel()
        for batch in self._batches:
            batch.fail(reason)
        self._pending.close(reason)
        if self._handshake_task is not None and self._handshake_task is not asyncio.current_task(self._loop):
            self._handshake_task.cancel()
        try:
            self._owner.ended(self, reason)
        finally:
            self.phase = SessionPhase.CLOSED

    # handshake

    async def _shake_hands(self) -> None:
        try:
            async with asyncio.timeout(self._settings.handshake_timeout_s):
                await self._introduce()
            generation = await self._owner.generation()
            async with asyncio.timeout(self._settings.handshake_timeout_s):
                await self._prepare(generation)
            self._phase = "its reply to a barrier"
            await self.barrier(self.pace.unacknowledged)
            self._phase = "its rules"
            installed = await self.read_rules()
            self.phase = SessionPhase.READY
            self._owner.ready(self, installed)
        except TimeoutError:
            self.timed_out = True
            self.close(f"the handshake took too long: still waiting for {self._phase}")
        except SessionRejectedError as why:
            self.close(str(why))
        except (MalformedMessageError, RequestRejectedError) as why:
            self.close(f"{self._phase}: {why}")
        except SessionClosedError:
            pass
        except Exception as fault:
            _LOG.exception("a fault of the controller in a handshake")
            self.close(f"a fault of the controller: {fault!r}")

    async def _introduce(self) -> None:
        await self._hello.wait()
        self._phase = "its features"
        features = decode.features(await self._request_one(wire.FEATURES_REQUEST, MessageType.FEATURES_REPLY))
        self._phase = "its admission"
        self.datapath_id = features.datapath_id
        self.switch_id = await self._owner.admit(self, features)
        self.transport.allow(self._settings.messages_per_period)

    async def _prepare(self, generation: int | None) -> None:
        self._phase = "its role"
        if not self._owner.may_send():
            raise SessionRejectedError("this controller no longer leads")
        await self._take_role(generation)
        for setting in (wire.SET_CONFIG, wire.SET_ASYNC):
            self.transport.write(wire.with_xid(setting, self._pending.reserve(1)))
        self._phase = "its ports"
        parts = await self._request(wire.PORT_DESC_REQUEST, MessageType.MULTIPART_REPLY, MultipartType.PORT_DESC)
        for part in parts:
            for port in decode.ports(part):
                self._note_port(port)

    async def _take_role(self, generation: int | None) -> None:
        if generation is None:
            return
        request = wire.role_request(ControllerRole.MASTER, generation)
        try:
            await self._request_one(request, MessageType.ROLE_REPLY)
        except RequestRejectedError as refusal:
            if (refusal.error.type, refusal.error.code) != decode.ROLE_STALE:
                raise
            query = wire.role_request(ControllerRole.NOCHANGE, 0)
            seen = decode.role(await self._request_one(query, MessageType.ROLE_REPLY)).generation_id
            raise SessionRejectedError(
                f"the switch has obeyed generation {seen} and ours is {generation}: a newer controller has taken over; "
                f"if there is none, stop this one, run `heddle state raise --above {seen}` (with the same "
                "--state), and start it again"
            ) from refusal

    # requests

    async def _request(
        self, request: bytes, kind: MessageType, body: MultipartType | None = None, timeout_s: float | None = None
    ) -> list[bytes]:
        """Send a request and return its reply's messages.

        Raises SessionClosedError, RequestRejectedError or TimeoutError.
        """
        timeout_s = self.pace.doubled(self._settings.request_timeout_s) if timeout_s is None else timeout_s
        if not self.transport.open:
            raise SessionClosedError("the switch is not connected")
        xid = self._pending.reserve(1)
        reply = self._pending.open(xid, kind, body)
        self.transport.write(wire.with_xid(request, xid))
        try:
            if not await done_within(reply, timeout_s, self._settings.echo_period_s):
                raise TimeoutError
            return await reply
        finally:
            self._pending.forget(xid)

    async def _request_one(self, request: bytes, kind: MessageType) -> bytes:
        return (await self._request(request, kind))[0]

    async def barrier(self, rules: int = 0) -> None:
        """Wait until the switch has processed all earlier messages (OpenFlow 1.3, 6.1), `rules` of them changes.

        A reply that is missed ends the session (`Pace.limit_s`): otherwise what needs this switch would wait for ever.
        """
        limit_s = self.pace.limit_s(rules)
        try:
            await self._request(wire.BARRIER_REQUEST, MessageType.BARRIER_REPLY, timeout_s=limit_s)
        except TimeoutError:
            self._cut(rules, f"no reply to a barrier within {limit_s:.1f} s")
            raise

    async def writable(self, rules: int) -> None:
        """Wait until the switch has read what was sent, as long as for a barrier behind so many changes."""
        limit_s, written = self.pace.limit_s(rules), self._loop.create_task(self.transport.writable())
        if not await done_within(written, limit_s, self._settings.echo_period_s):
            self._cut(rules, f"nothing that was sent was read within {limit_s:.1f} s")

    def _cut(self, rules: int, why: str) -> None:
        self.pace.missed(rules)
        self.close(f"{why}; {rules} changes were outstanding")

    @property
    def outstanding(self) -> int:
        """Return how many changes have been sent, or are being sent, that no barrier reply covers."""
        return sum(len(batch.changes) for batch in self._batches)

    async def replies_within(self, seconds: float) -> bool:
        """Return whether the switch replies to an echo request in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._request(wire.ECHO_REQUEST, MessageType.ECHO_REPLY)
        except (TimeoutError, SessionClosedError, RequestRejectedError):
            return False
        return True

    async def read_flows(self) -> list[readback.FlowEntry]:
        """Read every flow entry of the switch."""
        found: list[readback.FlowEntry] = []
        parts = await self._request(wire.FLOW_REQUEST, MessageType.MULTIPART_REPLY, MultipartType.FLOW)
        for part in parts:
            entries = readback.each_flow_entry(part)
            while True:
                async with self._decoding:  # sessions wait in turn, so that no switch with many rules holds up others
                    before = len(found)
                    found.extend(islice(entries, ENTRIES_PER_TURN))
                    await asyncio.sleep(0)  # a whole part takes 3 ms
                if len(found) - before < ENTRIES_PER_TURN:
                    break
        return found

    async def read_rules(self) -> SwitchRules:
        """Read all flow entries and groups of the switch."""
        parts = await self._request(wire.GROUP_DESC_REQUEST, MessageType.MULTIPART_REPLY, MultipartType.GROUP_DESC)
        groups: list[GroupRule] = []
        for part in parts:
            groups += readback.groups(part)
            await asyncio.sleep(0)
        return SwitchRules(rules=tuple(entry.rule for entry in await self.read_flows()), groups=tuple(groups))

    # batches of changes

    def open_batch(self, batch: Batch) -> None:
        """Assign transaction ids to a batch and route errors for them to it."""
        batch.first_xid = self._pending.reserve(len(batch.changes))
        self._batches.append(batch)

    def close_batch(self, batch: Batch) -> None:
        """Stop routing errors to a batch; later ones are counted as unsolicited."""
        self._batches.remove(batch)

    # messages

    def _on_hello(self, _: int, message: bytes) -> None:
        if self.phase is not SessionPhase.HELLO:
            raise MalformedMessageError("a second HELLO")
        if not decode.hello_offers_our_version(message):
            self.close(f"its Hello (version {message[0]}) does not offer OpenFlow 1.3", farewell=wire.INCOMPATIBLE)
            return
        self.phase = SessionPhase.HANDSHAKE
        self._hello.set()

    def _on_error(self, xid: int, message: bytes) -> None:
        error = decode.error(message)
        if self.phase is SessionPhase.HELLO:
            self.close(f"the switch refused our Hello: {error}")
            return
        if self._pending.refuse(xid, error) or any(batch.refuse(xid, error) for batch in self._batches):
            return
        self.counters.errors += 1
        if self._complaints < COMPLAINTS_PER_PERIOD:
            self._complaints += 1
            self._owner.complained(self, f"{error} for message {xid:#x}")

    def _on_echo_request(self, xid: int, message: bytes) -> None:
        self.transport.write(wire.message(MessageType.ECHO_REPLY, message[wire.HEADER_BYTES :], xid))

    def _on_echo_reply(self, xid: int, message: bytes) -> None:
        self._pending.reply(MessageType.ECHO_REPLY, xid, message)  # no request waits for the periodic ones

    def _on_packet_in(self, _: int, message: bytes) -> None:
        self.counters.packet_ins += 1
        if self.phase is SessionPhase.READY:
            self._owner.packet_in(self, message)

    def _on_flow_removed(self, _: int, __: bytes) -> None:
        if self.phase is SessionPhase.READY:
            self._owner.flow_removed(self)

    def _on_port_status(self, _: int, message: bytes) -> None:
        port = decode.port_status(message)
        if self._note_port(port) and self.phase is SessionPhase.READY:
            self._owner.port_changed(self, port)

    def _note_port(self, port: decode.Port) -> bool:
        """Record a port's state; False for reserved port numbers, which have no cable."""
        if port.number >= wire.PORT_MAX:
            return False
        self.ports[port.number] = port.up
        return True

    _HANDLERS: ClassVar[dict[int, Callable[["SwitchSession", int, bytes], None]]] = {
        MessageType.HELLO: _on_hello,
        MessageType.ERROR: _on_error,
        MessageType.ECHO_REQUEST: _on_echo_request,
        MessageType.ECHO_REPLY: _on_echo_reply,
        MessageType.PACKET_IN: _on_packet_in,
        MessageType.FLOW_REMOVED: _on_flow_removed,
        MessageType.PORT_STATUS: _on_port_status,
    }

    # liveness

    def _tick(self) -> None:
        self._complaints = 0
        self.transport.new_period()
        if not self.transport.open:
            return
        self._timer = self._loop.call_later(self._settings.echo_period_s, self._tick)
        if self.phase is SessionPhase.HELLO:
            return
        traffic = self.transport.traffic
        verdict = self._liveness.after_period(traffic.bytes_in, traffic.messages_in)
        if verdict is Verdict.DEAD:
            self.close(self._liveness.reason)
            return
        if self.phase is SessionPhase.READY and verdict in (Verdict.SUSPECT, Verdict.RECOVERED):
            self._owner.suspected(self, verdict is Verdict.SUSPECT)
        self.transport.write(wire.with_xid(wire.ECHO_REQUEST, self._pending.reserve(1)))
