"""The switches' side of pauses, tick by tick: what to send, which gates to move, what to write off, what to tell.

Everything that touches the kernel is handed in (`Kernel`), and so is the moment: what is left is tested without root.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mininet_topos.queues.description import LabPorts
from mininet_topos.queues.pause import NO_SIGNALS, Backpressure, Longs, ReceivedPauses
from mininet_topos.queues.pause_frame import MAX_QUANTA, quanta_ns
from mininet_topos.queues.settings import PRIORITIES, QueueSettings
from mininet_topos.queues.stale_bytes import StaleBytes
from telemetry.counter_page import PORT_FIELDS, QUEUE_FIELDS, Counters

MAX_QUIET_NS = 10**9
NO_BYTES: Longs = np.zeros(0, np.int64)


class Kernel(Protocol):
    """What moves real frames."""

    def send_pause(self, slot: int, quanta: Mapping[int, int]) -> None:
        """Send a frame with these quanta by priority out of a port."""

    def set_paused(self, slot: int, priority: int, closed: bool) -> None:
        """Hold a priority of a port back, or let it go on."""

    def ports_down(self) -> npt.NDArray[np.bool_]:
        """Return for each port whether its link is down."""


class Switches:
    """All switches of a lab. `queues` is the kernel's table of counters, [ports, priorities]."""

    def __init__(self, ports: LabPorts, settings: QueueSettings, queues: Any, kernel: Kernel) -> None:
        """Take the table; nothing is paused at first."""
        self._queues, self._kernel = queues, kernel
        self._gated, self._used = settings.pausable, np.array(settings.used)
        # Each tick looks at these alone: a queue is two cache lines that other processors write.
        self._watched = [queues[:, priority] for priority in self._gated]
        self._rates = [port.rate_bps for port in ports.ports]
        limits = [settings.at(rate) for rate in self._rates]
        # A pause that is still needed is sent again when half of it is over. A place is k * ports + slot.
        self._xoff = self._per_place([limit.xoff_bytes for limit in limits])
        self._byte_ns = self._per_place([8 * 10**9 // rate for rate in self._rates])
        self._backpressure = Backpressure(
            self._xoff,
            self._per_place([limit.xon_bytes for limit in limits]),
            self._per_place([quanta_ns(MAX_QUANTA, rate) // 2 for rate in self._rates]),
        )
        shape = (len(ports.ports), PRIORITIES)
        self._received = ReceivedPauses(len(ports.ports) * PRIORITIES)
        self.frames_sent: Longs = np.zeros(shape, np.int64)
        self.frames_received: Longs = np.zeros(shape, np.int64)
        self.written_off_bytes = 0
        self._residue = StaleBytes(np.unique([port.switch for port in ports.ports], return_inverse=True)[1])

    def on_pause_frame(self, slot: int, quanta: Mapping[int, int], now_ns: int) -> None:
        """Honour a frame that a port received."""
        for priority, number in quanta.items():
            self.frames_received[slot, priority] += 1
            if priority in self._gated:
                duration_ns = quanta_ns(number, self._rates[slot])
                closes = self._received.take(slot * PRIORITIES + priority, duration_ns, now_ns)
                if closes is not None:
                    self._kernel.set_paused(slot, priority, closes)

    def tick(self, now_ns: int) -> int:
        """Send the pauses that are due, and open the gates whose time is over.

        Return for how long nothing can happen that a received frame does not announce: an ingress port fills no faster
        than its link runs. Half of that time, in case frames came in a bunch; 0 while anything is paused.
        """
        inside = self._inside_gated() if self._gated else NO_BYTES
        signals = self._backpressure.signals(inside, now_ns) if self._gated else NO_SIGNALS
        for places, quanta in ((signals.pause, MAX_QUANTA), (signals.refresh, MAX_QUANTA), (signals.resume, 0)):
            for place in places:
                slot, priority = self._at(place)
                self._kernel.send_pause(slot, {priority: quanta})
                self.frames_sent[slot, priority] += 1
        for place in self._received.expired(now_ns):
            self._kernel.set_paused(place // PRIORITIES, place % PRIORITIES, False)
        if self._backpressure.pausing.any() or self._received.any_paused:
            return 0
        return int(((self._xoff - inside) * self._byte_ns).min(initial=MAX_QUIET_NS)) // 2

    def resume_all(self, now_ns: int) -> None:
        """Open every gate, and tell every neighbour that is paused to go on."""
        for place in np.nonzero(self._received.paused)[0]:
            self._received.take(int(place), 0, now_ns)
            self._kernel.set_paused(int(place) // PRIORITIES, int(place) % PRIORITIES, False)
        for place in np.nonzero(self._backpressure.pausing)[0]:
            slot, priority = self._at(int(place))
            self._kernel.send_pause(slot, {priority: 0})

    def look(self) -> None:
        """Take a look for what may have to be written off; several to a window."""
        block = self._block()
        self._residue.look(np.maximum(_signed_depth(block), 0), _inside(block))

    def settle(self) -> None:
        """End a window: write off what is not there."""
        block, used = self._block(), self._used
        paused = self._received.paused.reshape(-1, PRIORITIES)[:, used]
        moved = block["enqueued_bytes"] + block["dequeued_bytes"]
        lost, arrived = self._residue.settle(_signed_depth(block), moved, paused, self._kernel.ports_down())
        if lost.any() or arrived.any():
            self._queues["written_off_bytes"][:, used] += lost
            self._queues["arrived_written_off_bytes"][:, used] += arrived
            self.written_off_bytes += int(lost.sum())

    def clear_maxima(self) -> None:
        """Begin anew with the largest depths."""
        self._queues["max_depth_bytes"] = self._queues["max_ingress_bytes"] = 0

    def depth_bytes(self) -> int:
        """Return the bytes in all egress queues together."""
        return int(np.maximum(_signed_depth(self._block()), 0).sum())

    def ingress_bytes(self) -> int:
        """Return the same bytes as the ingress ports count them."""
        return int(_inside(self._block()).sum())

    def page(self, now_ns: int) -> tuple[Counters, Counters]:
        """Return all counters in the shapes of a counter page."""
        block, used = self._block(), self._used
        values = {
            "packets": block["sent_packets"],
            "bytes": block["dequeued_bytes"],
            "ecn_marked_packets": block["marked_packets"],
            "dropped_packets": block["dropped_packets"],
            "depth_bytes": np.maximum(_signed_depth(block), 0),
            "max_depth_bytes": block["max_depth_bytes"],
        }
        pauses = {
            "pfc_rx_frames": self.frames_received,
            "pfc_tx_frames": self.frames_sent,
            "paused_ns": self._received.paused_ns(now_ns).reshape(-1, PRIORITIES),
        }
        queues = np.zeros((*self.frames_sent.shape, len(QUEUE_FIELDS)), np.uint64)
        for field, column in values.items():
            queues[:, used, QUEUE_FIELDS.index(field)] = column
        for field, column in pauses.items():
            queues[:, :, QUEUE_FIELDS.index(field)] = column
        sums = {
            "tx_bytes": values["bytes"],
            "rx_bytes": block["received_bytes"],
            "tx_packets": values["packets"],
            "rx_packets": block["received_packets"],
            "drops": values["dropped_packets"],
        }
        return np.stack([sums[field].sum(axis=1) for field in PORT_FIELDS], axis=-1).astype(np.uint64), queues

    def _block(self) -> Any:
        """Return a copy of the counters of the priorities in use, [ports, used]."""
        return self._queues[:, self._used]

    def _inside_gated(self) -> Longs:
        return np.concatenate([_inside(queues) for queues in self._watched])

    def _at(self, place: int) -> tuple[int, int]:
        """Return the slot and priority of a place."""
        ports = len(self._rates)
        return place % ports, self._gated[place // ports]

    def _per_place(self, values: list[int]) -> Longs:
        return np.tile(np.array(values, np.int64), len(self._gated))


def _signed_depth(queues: Any) -> Longs:
    depth: Longs = queues["enqueued_bytes"] - queues["dequeued_bytes"] - queues["written_off_bytes"]
    return depth


def _inside(queues: Any) -> Longs:
    rest = queues["arrived_bytes"] - queues["departed_bytes"] - queues["arrived_written_off_bytes"]
    return np.maximum(rest, 0)
