"""Fake switches joined by cables: a frame that the controller sends out of one port arrives at the other end's switch.

Only LLDP goes this way: what is sent to the controller by the rule for it. Plugs can be exchanged while all runs.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from heddle.controller.model.fabric import Fabric, PortRef
from heddle.testing.switches.openflow_switch import PACKET_OUT, message
from heddle.testing.switches.shared_switch import SLAVE, ControllerSession, SharedSwitch
from tests.support.clusters.shared_switches import SharedSwitches
from tests.support.processes.running_switches import Switches, TimedSwitch

PACKET_IN = 10
Pairs = Iterable[tuple[PortRef, PortRef]]
Sends = Callable[[int, bytes], None]


def sent_out(packet_out: bytes) -> tuple[int, bytes]:
    """Return the port and the frame of a packet-out with one action."""
    (length,) = struct.unpack_from("!H", packet_out, 16)
    (port,) = struct.unpack_from("!I", packet_out, 28)
    return port, packet_out[24 + length :]


def packet_in(port: int, frame: bytes) -> bytes:
    match = struct.pack("!HHII4x", 1, 12, 0x80000004, port)
    return message(PACKET_IN, struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, 0, 0) + match + b"\0\0" + frame)


class Cables:
    """Which port each port meets."""

    def __init__(self, fabric: Fabric) -> None:
        self.met: dict[PortRef, PortRef] = {}
        for cable in fabric.cables:
            self.met[cable.lower], self.met[cable.upper] = cable.upper, cable.lower

    def exchange(self, pairs: Pairs, set_port: Callable[[PortRef, bool], None]) -> None:
        """Exchange the plugs of pairs of ports, of which one may be spare; cables lose carrier for a moment."""
        moved: set[PortRef] = set()
        for a, b in pairs:
            far = {port: self.met.pop(port) for port in (a, b) if port in self.met}
            for end in {*far, *far.values()}:
                set_port(end, False)
            for port, other in ((b, far.get(a)), (a, far.get(b))):
                if other is not None:
                    self.met[port], self.met[other] = other, port
                    moved |= {port, other}
        for end in moved:
            set_port(end, True)


class CabledSwitch(TimedSwitch):
    """A fake switch that hands over what it is to send out of a port."""

    sends: Sends

    def _replies(self, kind: int, whole: bytes) -> list[tuple[int, bytes]]:
        if kind == PACKET_OUT:
            self.sends(*sent_out(whole))
        return super()._replies(kind, whole)

    def hears(self, port: int, frame: bytes) -> None:
        """Send a frame that has arrived at a port to the controller."""
        if self.ports[port] and self._serving is not None and not self._writer.is_closing():
            self.send(packet_in(port, frame))


class CabledSwitches(Switches):
    """The switches of a fabric with its cables, and so many spare ports without carrier behind the last one of each."""

    def __init__(self, fabric: Fabric, spare: int = 0) -> None:
        super().__init__(fabric)
        self.cables = Cables(fabric)
        self._of_cables: dict[str, CabledSwitch] = {}
        for name, known in self.by_id.items():
            made = CabledSwitch(known.datapath_id, len(known.ports) + spare)
            made.ports |= dict.fromkeys(range(len(known.ports) + 1, len(made.ports) + 1), False)
            made.sends = partial(self._arrives, name)
            self.by_id[name] = self._of_cables[name] = made

    def _arrives(self, name: str, port: int, frame: bytes) -> None:
        if (far := self.cables.met.get(PortRef(name, port))) is not None:
            self._of_cables[far.switch].hears(far.number, frame)

    def exchange(self, *pairs: tuple[PortRef, PortRef]) -> None:
        self.run(lambda: self.cables.exchange(pairs, lambda port, up: self._set_port(port, up=up)))


class CabledSession(ControllerSession):
    """The session of a cabled switch with one of several controllers."""

    def _replies(self, kind: int, whole: bytes) -> list[tuple[int, bytes]]:
        if kind == PACKET_OUT and isinstance(self.shared, CabledShared):
            self.shared.sends(*sent_out(whole))
        return super()._replies(kind, whole)


class CabledShared(SharedSwitch):
    """A switch with a session to each of several controllers; a slave gets no packets (OpenFlow 1.3, 6.3.4)."""

    session = CabledSession
    sends: Sends

    def hears(self, port: int, frame: bytes) -> None:
        for session in self.sessions:
            if session.role != SLAVE:
                session.send(packet_in(port, frame))


class CabledSharedSwitches(SharedSwitches):
    """The switches of a fabric with its cables, connected to several controllers."""

    def __init__(self, fabric: Fabric, addresses: Sequence[str]) -> None:
        self.cables = Cables(fabric)
        self.by_id: dict[str, CabledShared] = {}
        super().__init__(fabric, addresses)

    def made(self, name: str, datapath_id: int) -> SharedSwitch:
        found = self.by_id[name] = CabledShared(datapath_id, self.ports)
        found.sends = partial(self._arrives, name)
        return found

    def _arrives(self, name: str, port: int, frame: bytes) -> None:
        if (far := self.cables.met.get(PortRef(name, port))) is not None:
            self.by_id[far.switch].hears(far.number, frame)

    def exchange(self, *pairs: tuple[PortRef, PortRef]) -> None:
        def set_port(port: PortRef, up: bool) -> None:
            for session in self.by_id[port.switch].sessions:
                session.set_port(port.number, up=up)

        self.read(lambda: self.cables.exchange(pairs, set_port))
