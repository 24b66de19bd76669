"""Emulate PFC in all switches of a lab: send pause frames, obey received ones under a watchdog, provide counters.

`tick` is called repeatedly, and returns after what time at the latest. Bytes that are counted as queued although their
frames were lost are written off: those of a link that is down at once, others after a while (`stale_bytes`). A port's
`slot` is its index in the arrays.

Kernel access (`Kernel`) and time are arguments, so the tests of this module need no root.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from heddle.mininet_topos.queues.description import LabPorts
from heddle.mininet_topos.queues.discards import Discards
from heddle.mininet_topos.queues.pause import NO_SIGNALS, Backpressure, Longs, ReceivedPauses
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.queues.stale_bytes import StaleBytes
from heddle.mininet_topos.queues.watchdog import Watchdog
from heddle.mininet_topos.wire.pause_frame import MAX_QUANTA, PRIORITIES, quanta_ns
from heddle.telemetry.counter_page import PORT_FIELDS, QUEUE_FIELDS, Counters

WATCHDOG_STEP_NS = 10_000_000
"""The period of the watchdog: well under its times, and longer than a frame that has left its queue is on the link."""
MAX_QUIET_NS = 10**9
"""Maximum of the time until the next tick."""
NO_BYTES: Longs = np.zeros(0, np.int64)


class Kernel(Protocol):
    """Access to real frames and links."""

    def send_pause(self, slot: int, quanta: Mapping[int, int]) -> None:
        """Send a pause frame with these quanta by priority out of a port."""

    def set_paused(self, slot: int, priority: int, paused: bool) -> None:
        """Pause or resume the transmission of one priority of a port."""

    def discard(self, slot: int, priority: int) -> None:
        """Discard the frames that wait in a queue and, from now on, those that arrive."""

    def accept(self, slot: int, priority: int) -> None:
        """Accept frames of a queue again."""

    def held_bytes(self, slot: int, priority: int) -> Mapping[int, int]:
        """Return the bytes of a queue that have not left it, by the slot of the ingress port that counts them."""

    def ports_down(self) -> npt.NDArray[np.bool_]:
        """Return for each port whether its link is down."""


class Switches:
    """All switches of a lab. `queues` is the kernel's table of counters, [ports, priorities]."""

    def __init__(self, ports: LabPorts, settings: QueueSettings, queues: Any, kernel: Kernel) -> None:
        """Use the kernel's table; no priority is paused at first."""
        self._queues, self._kernel = queues, kernel
        self._pausable, self._used = settings.pausable, np.array(settings.used)
        # Each tick reads only these: a queue is two cache lines that other processors write.
        self._watched = [queues[:, priority] for priority in self._pausable]
        self._rates = [port.rate_bps for port in ports.ports]
        limits = [settings.at(rate) for rate in self._rates]
        # A pause that still holds is refreshed at half of its time. A place is k * ports + slot.
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
        self._stale = StaleBytes(np.unique([port.switch for port in ports.ports], return_inverse=True)[1])
        self._watchdog = self._new_watchdog(ports, settings)
        self._watchdog_due_ns = 0
        self._unsettled: list[int] = []
        self._discards = Discards(queues)

    def _new_watchdog(self, ports: LabPorts, settings: QueueSettings) -> Watchdog | None:
        if not settings.watchdog or not self._pausable:
            return None
        nic_ms, fabric_ms = settings.watchdog_detection_ms, settings.watchdog_fabric_detection_ms
        detection = [1_000_000 * (nic_ms if port.peer is None else fabric_ms) for port in ports.ports]
        return Watchdog(self._per_place(detection), 1_000_000 * settings.watchdog_restoration_ms)

    def on_pause_frame(self, slot: int, quanta: Mapping[int, int], now_ns: int) -> None:
        """Apply a pause frame that a port received."""
        for priority, number in quanta.items():
            self.frames_received[slot, priority] += 1
            if priority in self._pausable:
                duration_ns = quanta_ns(number, self._rates[slot])
                paused = self._received.take(slot * PRIORITIES + priority, duration_ns, now_ns)
                if paused is not None and not self._is_stormed(slot, priority):
                    self._kernel.set_paused(slot, priority, paused)

    def tick(self, now_ns: int) -> int:
        """Send the pause frames that are due, and resume the priorities whose pause has expired.

        Return the time in ns within which no port can reach XOFF, since it fills no faster than its link's rate. It is
        halved as a margin for bursts, and 0 while any priority is paused. Received frames need a tick of their own.
        """
        ingress = self._pausable_ingress_bytes() if self._pausable else NO_BYTES
        signals = self._backpressure.signals(ingress, now_ns) if self._pausable else NO_SIGNALS
        for places, quanta in ((signals.pause, MAX_QUANTA), (signals.refresh, MAX_QUANTA), (signals.resume, 0)):
            for place in places:
                slot, priority = self._at(place)
                self._kernel.send_pause(slot, {priority: quanta})
                self.frames_sent[slot, priority] += 1
        for place in self._received.expired(now_ns):
            slot, priority = divmod(place, PRIORITIES)
            if not self._is_stormed(slot, priority):
                self._kernel.set_paused(slot, priority, False)
        self._step_watchdog(now_ns)
        if self._backpressure.pausing.any() or self._received.any_paused:
            return 0
        return int(((self._xoff - ingress) * self._byte_ns).min(initial=MAX_QUIET_NS)) // 2

    def resume_all(self, now_ns: int) -> None:
        """Resume every paused priority, and send XON to every paused neighbour."""
        for place in np.nonzero(self._received.paused)[0]:
            self._received.take(int(place), 0, now_ns)
            self._kernel.set_paused(int(place) // PRIORITIES, int(place) % PRIORITIES, False)
        for place in np.nonzero(self._backpressure.pausing)[0]:
            slot, priority = self._at(int(place))
            self._kernel.send_pause(slot, {priority: 0})

    def _step_watchdog(self, now_ns: int) -> None:
        """Discard the queues that a neighbour pauses without end, and restore them when that has ended."""
        watchdog = self._watchdog
        if watchdog is None or now_ns < self._watchdog_due_ns:
            return
        if not self._received.any_paused and not watchdog.stormed.any():
            return
        self._watchdog_due_ns = now_ns + WATCHDOG_STEP_NS
        since = self._received.since_ns.reshape(-1, PRIORITIES)[:, self._pausable].T.ravel()
        verdicts = watchdog.step(since, np.concatenate([queues["sent_packets"] for queues in self._watched]), now_ns)
        for place in (*self._unsettled, *verdicts.restore):
            self._settle(*self._at(place))
        for place in verdicts.restore:
            self._kernel.accept(*self._at(place))
            self._discards.end(*self._at(place))
        for place in verdicts.trip:
            self._discards.begin(*self._at(place))
            self._kernel.discard(*self._at(place))
        self._unsettled = verdicts.trip

    def _settle(self, slot: int, priority: int) -> None:
        self._discards.settle(slot, priority, self._kernel.held_bytes(slot, priority))

    def _is_stormed(self, slot: int, priority: int) -> bool:
        if self._watchdog is None:
            return False
        return bool(self._watchdog.stormed[self._pausable.index(priority) * len(self._rates) + slot])

    @property
    def longest_stuck_ns(self) -> int:
        """Return the longest time for which a lossless queue was paused and sent nothing."""
        return 0 if self._watchdog is None else int(self._watchdog.longest_stuck_ns.max())

    def sample_stale_bytes(self) -> None:
        """Empty the queues of ports that are down, and sample all queues for stale bytes; samples form a window."""
        block = self._block()
        down = self._kernel.ports_down()
        if down.any():
            self._write_off(np.where(down[:, None], _signed_depth(block), 0))
            block = self._block()
        self._stale.sample(np.maximum(_signed_depth(block), 0), _ingress_bytes(block))

    def write_off_stale_bytes(self) -> None:
        """End the window and write off the stale bytes that it has shown."""
        block, used = self._block(), self._used
        paused = self._received.paused.reshape(-1, PRIORITIES)[:, used]
        moved = block["enqueued_bytes"] + block["dequeued_bytes"]
        lost, arrived = self._stale.end_window(_signed_depth(block), moved, paused)
        self._queues["arrived_written_off_bytes"][:, used] += arrived
        self._write_off(lost)

    def _write_off(self, lost: Longs) -> None:
        """Write bytes [ports, used] off from egress queues, and off from the ingress ports that count them."""
        self.written_off_bytes += int(lost.sum())
        for slot, column in np.argwhere(lost).tolist():
            priority = int(self._used[column])
            self._discards.forget(slot, priority, self._kernel.held_bytes(slot, priority), int(lost[slot, column]))

    def depth_bytes(self) -> int:
        """Return the sum of all egress depths."""
        return int(np.maximum(_signed_depth(self._block()), 0).sum())

    def ingress_bytes(self) -> int:
        """Return the sum of all ingress occupancies: the same bytes, counted at their ingress ports."""
        return int(_ingress_bytes(self._block()).sum())

    def counter_page(self, now_ns: int) -> tuple[Counters, Counters]:
        """Return all counters as the two arrays of a counter page: per port, and per port and priority."""
        block, used = self._block(), self._used
        values = {
            "packets": block["sent_packets"],
            "bytes": block["dequeued_bytes"],
            "ecn_marked_packets": block["marked_packets"],
            "dropped_packets": block["dropped_packets"] + self._discards.packets[:, used],
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
        for field, column in (pauses | self._watchdog_counters()).items():
            queues[:, :, QUEUE_FIELDS.index(field)] = column
        sums = {
            "tx_bytes": values["bytes"],
            "rx_bytes": block["received_bytes"],
            "tx_packets": values["packets"],
            "rx_packets": block["received_packets"],
            "drops": values["dropped_packets"],
        }
        return np.stack([sums[field].sum(axis=1) for field in PORT_FIELDS], axis=-1).astype(np.uint64), queues

    def _watchdog_counters(self) -> dict[str, Longs]:
        """Return the counters of the watchdog, [ports, priorities] each."""
        if self._watchdog is None:
            return {}
        trips, restores = np.zeros_like(self.frames_sent), np.zeros_like(self.frames_sent)
        trips[:, self._pausable] = self._watchdog.trips.reshape(len(self._pausable), -1).T
        restores[:, self._pausable] = self._watchdog.restores.reshape(len(self._pausable), -1).T
        return {
            "watchdog_trips": trips,
            "watchdog_restores": restores,
            "watchdog_dropped_packets": self._discards.watchdog_packets(),
        }

    def _block(self) -> Any:
        """Return a copy of the counters of the priorities in use, [ports, used]."""
        return self._queues[:, self._used]

    def _pausable_ingress_bytes(self) -> Longs:
        return np.concatenate([_ingress_bytes(queues) for queues in self._watched])

    def _at(self, place: int) -> tuple[int, int]:
        """Return the slot and priority of a place."""
        ports = len(self._rates)
        return place % ports, self._pausable[place // ports]

    def _per_place(self, values: list[int]) -> Longs:
        return np.tile(np.array(values, np.int64), len(self._pausable))


def _signed_depth(queues: Any) -> Longs:
    depth: Longs = queues["enqueued_bytes"] - queues["dequeued_bytes"] - queues["written_off_bytes"]
    return depth


def _ingress_bytes(queues: Any) -> Longs:
    rest = queues["arrived_bytes"] - queues["departed_bytes"] - queues["arrived_written_off_bytes"]
    return np.maximum(rest, 0)
