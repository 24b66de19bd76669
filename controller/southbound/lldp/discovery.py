"""Send LLDP frames out of all ports between switches, and report what each port hears; the shell of `rounds`.

Only a frame of this process counts, of the last periods, that comes in at a port without a NIC: what is forged,
replayed or sent by a host is counted, and changes nothing. Silence changes nothing either: a port keeps what it has
heard until it hears something else or goes down.

Limits: FRAMES_PER_S frames go out, of these RESTING_PER_S of ports that rest: in a large fabric such a port waits
longer. Of each port PER_PORT_S are verified, of each switch PER_SWITCH_S; a switch that has meters sends no more than
METER_PER_S. MAX_PORTS of a switch take part.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Protocol

from heddle.controller.model.cabling import Peer
from heddle.controller.model.event import Heard
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.southbound.codec.packets import limit_packet_ins, packet_in, packet_out
from heddle.controller.southbound.lldp.allowance import Allowance
from heddle.controller.southbound.lldp.frame import Origin, claimed, frame, is_genuine
from heddle.controller.southbound.lldp.rounds import Rounds

TICK_S = 0.25
MIN_PAUSE_S = 0.02
"""The time between two turns, where ports change meanwhile."""
FRAMES_PER_S, FRAMES_BURST = 2_000, 500
RESTING_PER_S, RESTING_BURST = 500, 125
PER_PORT_S, PER_PORT_BURST = 5, 10
PER_SWITCH_S, PER_SWITCH_BURST = 500, 1_000
METER_PER_S, METER_BURST = 2_000, 2_000
MAX_PORTS = 1_024
GATHER_S = 0.1
"""What is heard within this time is reported as one event."""
EPOCH_S = 1.0
MAX_AGE_EPOCHS = 2
"""A frame counts in its period and so many later ones: a switch may hold it back for a moment."""


class Hearing(StrEnum):
    """What became of a frame that a switch has sent to the controller, or of one of ours."""

    SENT = "sent"
    HEARD = "heard"
    OVER_BUDGET = "over_budget"
    NO_PORT = "no_port"
    OF_HOST = "of_host"
    FOREIGN = "foreign"
    FORGED = "forged"
    REPLAYED = "replayed"


class Sender(Protocol):
    """The session of a switch, as far as frames need it."""

    def write(self, data: bytes) -> None:
        """Send bytes to the switch."""


class _Switch:
    """What one switch may have verified."""

    __slots__ = ("all", "of_port", "sender")

    def __init__(self, sender: Sender, now_s: float) -> None:
        self.sender = sender
        self.all = Allowance(PER_SWITCH_S, PER_SWITCH_BURST, now_s)
        self.of_port: dict[int, Allowance] = {}


class Discovery:
    """The frames of one controller process; `counts` says what became of each."""

    def __init__(self, fabric: Fabric, key: bytes, post: Callable[[Heard], bool], now_s: Callable[[], float]) -> None:
        """`key` signs the frames: a new one for each process, so that frames of another one are not genuine."""
        self.counts: Counter[str] = Counter()
        self._key, self._post, self._now_s = key, post, now_s
        self._began_s = now_s()
        self._datapath_ids = {switch.id: switch.datapath_id for switch in fabric.switches}
        self._names = {switch.datapath_id: switch.id for switch in fabric.switches}
        self._of_hosts = frozenset(fabric.nic_by_port)
        self._switches: dict[str, _Switch] = {}
        self._rounds = Rounds()
        self._frames = Allowance(FRAMES_PER_S, FRAMES_BURST, self._began_s)
        self._resting = Allowance(RESTING_PER_S, RESTING_BURST, self._began_s)
        self._known: dict[PortRef, Peer] = {}
        self._news: dict[PortRef, Peer | None] = {}
        self._changed = asyncio.Event()

    def switch_up(self, switch: str, ports: Mapping[int, bool], sender: Sender) -> None:
        """Begin to send out of the ports of a switch that are up, and to hear them."""
        now_s = self._now_s()
        self._switches[switch] = _Switch(sender, now_s)
        sender.write(limit_packet_ins(METER_PER_S, METER_BURST))
        for port, up in ports.items():
            self.port_changed(switch, port, up)

    def switch_down(self, switch: str) -> None:
        """Send no more to a switch whose session has ended; what its ports heard stays."""
        known = self._switches.pop(switch, None)
        for port in known.of_port if known is not None else ():
            self._rounds.end(PortRef(switch, port))

    def port_changed(self, switch: str, port: int, up: bool) -> None:
        """Send at once out of a port that has come up; forget what one has heard that went down."""
        known, place = self._switches.get(switch), PortRef(switch, port)
        if known is None or place in self._of_hosts:
            return
        if not up:
            self._rounds.end(place)
            if self._known.pop(place, None) is not None:
                self._note(place, None)
        elif port in known.of_port or len(known.of_port) < MAX_PORTS:
            now_s = self._now_s()
            known.of_port.setdefault(port, Allowance(PER_PORT_S, PER_PORT_BURST, now_s))
            self._rounds.begin(place, now_s)
            self._changed.set()

    def packet_in(self, switch: str, message: bytes) -> None:
        """Handle a packet that a switch has sent to the controller."""
        self.counts[self._heard(switch, message)] += 1

    def _heard(self, switch: str, message: bytes) -> Hearing:
        known, packet, now_s = self._switches.get(switch), packet_in(message), self._now_s()
        if (switch, packet.port) in self._of_hosts:
            return Hearing.OF_HOST
        place = PortRef(switch, packet.port)
        if known is None or place not in self._rounds:
            return Hearing.NO_PORT
        of_port = known.of_port[packet.port]
        if not (of_port.take(now_s) and known.all.take(now_s)):
            return Hearing.OVER_BUDGET
        origin = claimed(packet.data)
        if origin is None or origin.datapath_id not in self._names:
            return Hearing.FOREIGN
        if not is_genuine(self._key, packet.data, origin):
            return Hearing.FORGED
        if not 0 <= self._epoch(now_s) - origin.epoch <= MAX_AGE_EPOCHS:
            return Hearing.REPLAYED
        peer = Peer(self._names[origin.datapath_id], origin.port)
        if self._known.get(place) != peer:
            self._known[place] = peer
            self._note(place, peer)
        return Hearing.HEARD

    def _epoch(self, now_s: float) -> int:
        return int((now_s - self._began_s) / EPOCH_S)

    def _note(self, place: PortRef, peer: Peer | None) -> None:
        if not self._news:
            asyncio.get_running_loop().call_later(GATHER_S, self._report)
        self._news[place] = peer

    def _report(self) -> None:
        """Post what has been heard since the last report; where the inbox is full, later."""
        if self._post(Heard(changes=dict(self._news))):
            self._news.clear()
        else:
            asyncio.get_running_loop().call_later(GATHER_S, self._report)

    async def run(self, may_send: Callable[[], bool]) -> None:
        """Send frames until cancelled, while `may_send`."""
        while True:
            self._changed.clear()
            if may_send():
                self._send_due()
            await asyncio.sleep(MIN_PAUSE_S)
            try:
                async with asyncio.timeout(TICK_S):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _send_due(self) -> None:
        now_s = self._now_s()
        epoch = self._epoch(now_s)
        out: dict[str, list[bytes]] = {}
        for place in self._due(now_s):
            data = frame(self._key, Origin(self._datapath_ids[place.switch], place.number, epoch))
            out.setdefault(place.switch, []).append(packet_out(place.number, data))
        for switch, messages in out.items():
            self._switches[switch].sender.write(b"".join(messages))
            self.counts[Hearing.SENT] += len(messages)

    def _due(self, now_s: float) -> Iterator[PortRef]:
        """Yield the ports whose turn has come, those that have changed first, as far as the limits allow."""
        for resting in (False, True):
            while not resting or self._resting.take(now_s):
                if not self._frames.take(now_s):
                    return
                place = self._rounds.next_due(now_s, resting=resting)
                if place is None:
                    break
                yield place
