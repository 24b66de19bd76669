"""The switches' side of pauses, tick by tick: what to send, which gates to move, what to write off, what to tell.

Everything that touches the kernel is handed in (`Kernel`), and so is the moment: what is left is tested without root.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mininet_topos.queues.description import LabPorts
from mininet_topos.queues.pause import Backpressure, Longs, ReceivedPauses
from mininet_topos.queues.pause_frame import MOST_QUANTA, quanta_ns
from mininet_topos.queues.residue import Residue
from mininet_topos.queues.settings import PRIORITIES, QueueSettings
from telemetry.counter_page import PORT_FIELDS, QUEUE_FIELDS, Counters


class Kernel(Protocol):
    """What moves real frames."""

    def send_pause(self, slot: int, quanta: Mapping[int, int]) -> None:
        """Send a frame with these quanta by priority out of a port."""

    def set_gate(self, slot: int, priority: int, closed: bool) -> None:
        """Hold a priority of a port back, or let it go on."""

    def ports_down(self) -> npt.NDArray[np.bool_]:
        """Return for each port whether its link is down."""


class Switches:
    """All switches of a lab. `queues` is the kernel's table of counters, [ports, priorities]."""

    def __init__(self, ports: LabPorts, settings: QueueSettings, queues: Any, kernel: Kernel) -> None:
        """Take the table; nothing is paused at first."""
        self._queues, self._kernel, self._gated = queues, kernel, np.array(settings.gated, np.int64)
        self._rates = [port.rate_bps for port in ports.ports]
        limits = [settings.at(rate) for rate in self._rates]
        # A pause that is still needed is sent again when half of it is over; a place is slot * gated priorities + k.
        self._backpressure = Backpressure(
            self._per_place([limit.xoff_bytes for limit in limits]),
            self._per_place([limit.xon_bytes for limit in limits]),
            self._per_place([quanta_ns(MOST_QUANTA, rate) // 2 for rate in self._rates]),
        )
        shape = (len(ports.ports), PRIORITIES)
        self._received = ReceivedPauses(len(ports.ports) * PRIORITIES)
        self.frames_sent: Longs = np.zeros(shape, np.int64)
        self.frames_received: Longs = np.zeros(shape, np.int64)
        self.written_off_bytes = 0
        self._residue = Residue(np.unique([port.switch for port in ports.ports], return_inverse=True)[1])

    def take_pause(self, slot: int, quanta: Mapping[int, int], now_ns: int) -> None:
        """Honour a frame that a port received."""
        for priority, number in quanta.items():
            self.frames_received[slot, priority] += 1
            if priority in self._gated:
                duration_ns = quanta_ns(number, self._rates[slot])
                closes = self._received.take(slot * PRIORITIES + priority, duration_ns, now_ns)
                if closes is not None:
                    self._kernel.set_gate(slot, priority, closes)

    def tick(self, now_ns: int) -> None:
        """Send the pauses that are due, and open the gates whose time is over."""
        inside = self.inside()[:, self._gated].ravel()
        signals = self._backpressure.signals(inside, now_ns)
        for places, quanta in ((signals.pause, MOST_QUANTA), (signals.refresh, MOST_QUANTA), (signals.resume, 0)):
            for place in places:
                slot, priority = place // len(self._gated), int(self._gated[place % len(self._gated)])
                self._kernel.send_pause(slot, {priority: quanta})
                self.frames_sent[slot, priority] += 1
        for place in self._received.expired(now_ns):
            self._kernel.set_gate(place // PRIORITIES, place % PRIORITIES, False)

    def let_all_go_on(self, now_ns: int) -> None:
        """Open every gate, and tell every neighbour that is paused to go on."""
        for place in np.nonzero(self._received.paused)[0]:
            self._received.take(int(place), 0, now_ns)
            self._kernel.set_gate(int(place) // PRIORITIES, int(place) % PRIORITIES, False)
        for place in np.nonzero(self._backpressure.pausing)[0]:
            slot, priority = int(place) // len(self._gated), int(self._gated[int(place) % len(self._gated)])
            self._kernel.send_pause(slot, {priority: 0})

    def look(self) -> None:
        """Take a look for what may have to be written off; several to a window."""
        self._residue.look(self.depth(), self.inside())

    def settle(self) -> None:
        """End a window: write off what is not there."""
        queues = self._queues
        paused = self._received.paused.reshape(-1, PRIORITIES)
        moved = queues["enqueued_bytes"] + queues["dequeued_bytes"]
        lost, arrived = self._residue.settle(self._signed_depth(), moved, paused, self._kernel.ports_down())
        if lost.any() or arrived.any():
            queues["written_off_bytes"] += lost
            queues["arrived_written_off_bytes"] += arrived
            self.written_off_bytes += int(lost.sum())

    def forget_maxima(self) -> None:
        """Begin anew with the largest depths."""
        self._queues["max_depth_bytes"] = self._queues["max_inside_bytes"] = 0

    def depth(self) -> Longs:
        """Return the bytes in every egress queue."""
        return np.maximum(self._signed_depth(), 0)

    def inside(self) -> Longs:
        """Return the bytes inside of the switch that came in by each port."""
        queues = self._queues
        rest = queues["arrived_bytes"] - queues["departed_bytes"] - queues["arrived_written_off_bytes"]
        return np.maximum(rest, 0)

    def page(self, now_ns: int) -> tuple[Counters, Counters]:
        """Return all counters in the shapes of a counter page."""
        queues = self._queues
        values = {
            "packets": queues["sent_packets"],
            "bytes": queues["dequeued_bytes"],
            "ecn_marked_packets": queues["marked_packets"],
            "dropped_packets": queues["dropped_packets"],
            "pfc_rx_frames": self.frames_received,
            "pfc_tx_frames": self.frames_sent,
            "paused_ns": self._received.paused_ns(now_ns).reshape(-1, PRIORITIES),
            "depth_bytes": self.depth(),
            "max_depth_bytes": queues["max_depth_bytes"],
        }
        sums = {
            "tx_bytes": values["bytes"],
            "rx_bytes": queues["received_bytes"],
            "tx_packets": values["packets"],
            "rx_packets": queues["received_packets"],
            "drops": values["dropped_packets"],
        }
        ports = np.stack([sums[field].sum(axis=1) for field in PORT_FIELDS], axis=-1)
        return ports.astype(np.uint64), np.stack([values[field] for field in QUEUE_FIELDS], axis=-1).astype(np.uint64)

    def _signed_depth(self) -> Longs:
        queues = self._queues
        depth: Longs = queues["enqueued_bytes"] - queues["dequeued_bytes"] - queues["written_off_bytes"]
        return depth

    def _per_place(self, values: list[int]) -> Longs:
        return np.repeat(np.array(values, np.int64), len(self._gated))
