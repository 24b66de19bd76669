"""Fake switches joined by cables: a frame that the controller sends out of one port arrives at the other end's switch.

Only LLDP goes this way: what is sent to the controller by the rule for it. Plugs can be exchanged while all runs.
"""

import struct
from collections.abc import Callable
from functools import partial

from heddle.controller.model.fabric import Fabric, PortRef
from tests.fakes.openflow.openflow_switch import PACKET_OUT, message
from tests.support.processes.running_switches import Switches, TimedSwitch

PACKET_IN = 10


class CabledSwitch(TimedSwitch):
    """A fake switch that hands over what it is to send out of a port."""

    sends: Callable[[int, bytes], None]

    def _replies(self, kind: int, whole: bytes) -> list[tuple[int, bytes]]:
        if kind == PACKET_OUT:
            (length,) = struct.unpack_from("!H", whole, 16)
            (port,) = struct.unpack_from("!I", whole, 28)
            self.sends(port, whole[24 + length :])
        return super()._replies(kind, whole)

    def hears(self, port: int, frame: bytes) -> None:
        """Send a frame that has arrived at a port to the controller."""
        match = struct.pack("!HHII4x", 1, 12, 0x80000004, port)
        body = struct.pack("!IHBBQ", 0xFFFFFFFF, len(frame), 1, 0, 0) + match + b"\0\0" + frame
        if self._serving is not None and not self._writer.is_closing():
            self.send(message(PACKET_IN, body))


class CabledSwitches(Switches):
    """The switches of a fabric with its cables, and so many spare ports without carrier behind the last one of each."""

    def __init__(self, fabric: Fabric, spare: int = 0) -> None:
        super().__init__(fabric)
        self.met: dict[PortRef, PortRef] = {}
        for cable in fabric.cables:
            self.met[cable.lower], self.met[cable.upper] = cable.upper, cable.lower
        for name, known in self.by_id.items():
            self.by_id[name] = made = CabledSwitch(known.datapath_id, len(known.ports) + spare)
            made.ports |= dict.fromkeys(range(len(known.ports) + 1, len(made.ports) + 1), False)
            made.sends = partial(self._arrives, name)

    def _arrives(self, name: str, port: int, frame: bytes) -> None:
        far = self.met.get(PortRef(name, port))
        switch = self.by_id[far.switch] if far is not None else None
        if far is not None and isinstance(switch, CabledSwitch) and switch.ports[far.number]:
            switch.hears(far.number, frame)

    def exchange(self, *pairs: tuple[PortRef, PortRef]) -> None:
        """Exchange the plugs of pairs of ports, of which one may be spare; cables lose carrier for a moment."""

        def act() -> None:
            for a, b in pairs:
                far = {port: self.met.pop(port) for port in (a, b) if port in self.met}
                for end in {*far, *far.values()}:
                    self._set_port(end, up=False)
                for port, other in ((b, far.get(a)), (a, far.get(b))):
                    if other is not None:
                        self.met[port], self.met[other] = other, port
            for end in {end for pair in pairs for port in pair if port in self.met for end in (port, self.met[port])}:
                self._set_port(end, up=True)

        self.run(act)
