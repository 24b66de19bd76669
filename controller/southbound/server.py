"""Listen for switches, admit them, and send rules to them: the only path of rules to switches.

Events are reported by callbacks (`SouthboundEvents`) on the event loop's thread; they must not block.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from heddle.controller.model.rule import Step, SwitchRules
from heddle.controller.runtime.background import Background
from heddle.controller.runtime.leadership import Leadership
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.ports import InstallError, InstallWatch
from heddle.controller.runtime.tls_front import TlsFront
from heddle.controller.southbound.codec import encode
from heddle.controller.southbound.codec.decode import Features, Port
from heddle.controller.southbound.install import Installer
from heddle.controller.southbound.lldp.discovery import Discovery
from heddle.controller.southbound.pace import Pace
from heddle.controller.southbound.pending import RequestRejectedError, SessionClosedError
from heddle.controller.southbound.phase import SessionPhase, SessionRejectedError
from heddle.controller.southbound.session import SwitchSession
from heddle.controller.southbound.settings import SouthboundSettings
from heddle.controller.southbound.strangers import Strangers
from heddle.foundation.certificate import PeerRefusedError
from heddle.foundation.identity import Role
from heddle.foundation.listener import close_listener
from heddle.foundation.tls_files import Tls

_LOG = logging.getLogger("heddle.southbound")
_REMEMBERED = 64
BACKLOG = 1_024
"""Connections that the kernel holds until they are accepted: beyond, a switch tries again after a second."""


class SouthboundEvents(Protocol):
    """The callbacks of the southbound. `switch_up` precedes all others of a switch, `switch_down` ends them."""

    def switch_up(self, switch_id: str, ports: Mapping[int, bool], installed: SwitchRules) -> None:
        """A switch is ready; `ports` holds each port's state (True: up), `installed` the rules it holds already."""

    def switch_suspect(self, switch_id: str) -> None:
        """Nothing came from a switch for two echo periods; its session is still open."""

    def switch_recovered(self, switch_id: str) -> None:
        """A suspect switch sends again."""

    def switch_down(self, switch_id: str, reason: str) -> None:
        """A switch's session has ended; its rules stay installed."""

    def port_status(self, switch_id: str, port_no: int, up: bool) -> bool:
        """A port has changed; False ends the session, as the state of the switch's ports is lost."""

    def rule_error(self, switch_id: str, text: str) -> None:
        """A switch sent an error for a message that no installation is waiting for."""

    def flow_removed(self, switch_id: str) -> None:
        """A switch has removed a flow entry on its own."""


class OpenFlowServer:
    """The OpenFlow 1.3 side of the controller.

    `known` returns the switch id of a datapath id, None where the fabric has no such switch. With `tls` each switch
    shows the certificate that names it; without, any peer that reaches the port may be any switch.
    """

    def __init__(
        self,
        address: str,
        port: int,
        known: Callable[[int], str | None],
        events: SouthboundEvents,
        settings: SouthboundSettings | None = None,
        leadership: Leadership | None = None,
        tls: Tls | None = None,
        limited: Counter[Limit] | None = None,
        discovery: Discovery | None = None,
    ) -> None:
        """Report to `events`; count what the limits of connections refuse in `limited`.

        `discovery` hears the cabling, None for not at all. With `leadership` switches wait for their role until this
        controller leads.
        """
        self.limited: Counter[Limit] = Counter() if limited is None else limited
        self.refusals: deque[str] = deque(maxlen=_REMEMBERED)
        self._address = (address, port)
        self._known = known
        self._events = events
        self._settings = settings or SouthboundSettings()
        self._connections: set[SwitchSession] = set()
        self._strangers = Strangers(self._settings, self.limited)
        self._claims: dict[int, SwitchSession] = {}
        self._ready: dict[str, SwitchSession] = {}
        self._paces: dict[str, Pace] = {}
        self._listener: asyncio.Server | None = None
        self._leadership = leadership
        self._installer = Installer(self.may_send, self._settings.lag_s)
        self._closing = False
        self._tls = tls
        self._front: TlsFront | None = None
        if tls is not None:
            context = tls.server_context()  # each handshake uses the files of its moment
            self._front = TlsFront(lambda: context, self._settings.handshake_timeout_s, self._no_tls)
        self._discovery = discovery
        self._background = Background()
        self._decoding = asyncio.Lock()

    async def start(self) -> tuple[str, int]:
        """Listen; return the bound address and port. Raises OSError where they are in use."""
        await asyncio.to_thread(encode.codec)  # 0.13 s of imports, off the event loop
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._accept, *self._address, backlog=BACKLOG)
        if self._tls is not None:
            self._background.start(self._end_denied(self._tls))
        if self._discovery is not None:
            self._background.start(self._discovery.run(self.may_send))
        host, port = self._listener.sockets[0].getsockname()[:2]
        return host, port

    async def close(self) -> None:
        """Stop listening and end every session; the switches keep their rules."""
        self._closing = True
        await self._background.close()
        if self._listener is not None:
            await close_listener(self._listener)
        if self._front is not None:
            self._front.close()
        for session in list(self._connections):
            session.close("the controller is shutting down")

    async def install(self, steps: Sequence[Step], watch: InstallWatch | None = None) -> None:
        """Send the steps, each behind barriers on all its switches; raises InstallError."""
        await self._installer.install(steps, self._ready, watch or InstallWatch())

    async def caught_up(self, switch_id: str) -> bool:
        """Wait until a switch has processed all that was sent to it; False where its session ends first."""
        session = self._ready.get(switch_id)
        await self._installer.caught_up(switch_id)
        return session is not None and self._ready.get(switch_id) is session

    async def read_rules(self, switch_id: str) -> SwitchRules:
        """Read a switch's installed rules; raises InstallError where it does not reply."""
        session = self._session_of(switch_id)
        try:
            return await session.read_rules()
        except TimeoutError as why:
            session.pace.missed(0)
            session.close("no reply to a request for its rules")  # what waits for them would wait for ever
            raise InstallError(switch_id, "its rules could not be read: no reply") from why
        except (SessionClosedError, RequestRejectedError) as why:
            raise InstallError(switch_id, f"its rules could not be read: {why}") from why

    def sessions(self) -> Mapping[str, SwitchSession]:
        """Return the session of every ready switch, for its counters."""
        return dict(self._ready)

    def _session_of(self, switch_id: str) -> SwitchSession:
        if switch_id not in self._ready:
            raise InstallError(switch_id, "the switch is not connected")
        return self._ready[switch_id]

    def _accept(self) -> asyncio.Protocol:
        inner = SwitchSession(self, self._settings, self._decoding).transport
        return self._front.before(inner) if self._front is not None else inner

    def _no_tls(self, peer: str, reason: str) -> None:
        _LOG.warning('tls_refused peer=%s reason="%s"', peer, reason)
        self.refusals.append(f"peer={peer}: {reason}")

    async def _end_denied(self, tls: Tls) -> None:
        """End sessions whose certificates come onto the deny list."""
        while True:
            await asyncio.sleep(self._settings.echo_period_s)
            denied = tls.denied()
            for session in [one for one in self._connections if one.holder and one.holder.serial in denied]:
                session.close("its certificate is denied now")

    # callbacks of sessions (`session.Owner`)

    def connected(self, session: SwitchSession) -> None:
        """Accept a connection; raises SessionRejectedError past the limits."""
        if len(self._connections) >= self._settings.max_connections:
            self.limited[Limit.SWITCH_CONNECTIONS] += 1
            raise SessionRejectedError(f"{self._settings.max_connections} connections are open: no more are taken")
        if self._tls is not None:
            try:
                session.holder = self._tls.peer(session.transport.tls_object(), Role.SWITCH)
            except PeerRefusedError as why:
                raise SessionRejectedError(str(why)) from None
        self._strangers.add(session)
        self._connections.add(session)

    async def admit(self, session: SwitchSession, features: Features) -> str:
        """Return the switch's id; raises SessionRejectedError.

        An open session with the same datapath id is probed first, and replaced where it does not reply.
        """
        datapath_id = features.datapath_id
        switch_id = self._known(datapath_id)
        if switch_id is None:
            raise SessionRejectedError(f"datapath id {datapath_id:#x} is none of this fabric's switches")
        if session.holder is not None and session.holder.identity.name != switch_id:
            raise SessionRejectedError(
                f"datapath id {datapath_id:#x} is {switch_id}'s; the certificate is of {session.holder.identity.uri}"
            )
        if features.auxiliary_id:
            raise SessionRejectedError("auxiliary connections are not used")
        while (older := self._claims.get(datapath_id)) is not None:
            if await older.replies_within(self._settings.probe_timeout_s):
                raise SessionRejectedError(f"datapath id {datapath_id:#x} is in use by {older.peer}, which replies")
            older.close(f"{session.peer} came with the same datapath id, and this session did not reply to a probe")
        self._claims[datapath_id] = session
        self._strangers.discard(session)
        session.pace = self._paces.setdefault(switch_id, session.pace)
        return switch_id

    async def generation(self) -> int | None:
        """Wait until this controller leads; return the generation of its roles."""
        return await self._leadership.generation() if self._leadership is not None else self._settings.generation_id

    def may_send(self) -> bool:
        """Return whether this controller leads at this moment."""
        return self._leadership is None or self._leadership.may_act()

    def ready(self, session: SwitchSession, installed: SwitchRules) -> None:
        """Report that a switch is up."""
        switch_id = session.switch_id or ""
        self._ready[switch_id] = session
        _LOG.info("switch_up %s rules=%d groups=%d", session, len(installed.rules), len(installed.groups))
        self._events.switch_up(switch_id, dict(session.ports), installed)
        if self._discovery is not None:
            self._discovery.switch_up(switch_id, session.ports, session.transport)

    def ended(self, session: SwitchSession, reason: str) -> None:
        """Log why a session ended; report it where the switch was up."""
        self._connections.discard(session)
        self._strangers.discard(session)
        if session.timed_out:
            self.limited[Limit.SWITCH_HANDSHAKE] += 1
        if session.datapath_id is not None and self._claims.get(session.datapath_id) is session:
            del self._claims[session.datapath_id]
        level = logging.INFO if self._closing else logging.WARNING
        _LOG.log(level, 'session_closed %s reason="%s"', session, reason)
        if session.phase is not SessionPhase.READY or session.switch_id is None:
            self.refusals.append(f"{session}: {reason}")
            return
        del self._ready[session.switch_id]
        self._events.switch_down(session.switch_id, reason)
        if self._discovery is not None:
            self._discovery.switch_down(session.switch_id)

    def suspected(self, session: SwitchSession, suspect: bool) -> None:
        """Report that a switch is silent, or sends again."""
        _LOG.info("switch_%s %s", "suspect" if suspect else "recovered", session)
        report = self._events.switch_suspect if suspect else self._events.switch_recovered
        report(session.switch_id or "")

    def port_changed(self, session: SwitchSession, port: Port) -> None:
        """Report a port's state."""
        if self._discovery is not None:
            self._discovery.port_changed(session.switch_id or "", port.number, port.up)
        if not self._events.port_status(session.switch_id or "", port.number, port.up):
            session.close("too many of its events wait: it changes its ports faster than the controller handles them")

    def flow_removed(self, session: SwitchSession) -> None:
        """Report a removed entry."""
        self._events.flow_removed(session.switch_id or "")

    def packet_in(self, session: SwitchSession, message: bytes) -> None:
        """Hear what a switch sends to the controller."""
        if self._discovery is not None:
            self._discovery.packet_in(session.switch_id or "", message)

    def complained(self, session: SwitchSession, text: str) -> None:
        """Report an error that belongs to no request."""
        _LOG.warning('stray_error %s text="%s"', session, text)
        self._events.rule_error(session.switch_id or "?", text)
