"""The queue daemon of a lab: attach the queue model, send and obey PFC pauses, publish the counters.

Runs as `python -m heddle.mininet_topos.queues.daemon` in the root namespace, one per lab. Reads JSON lines on standard
input and replies to each:

    {"op": "configure", "page": path, **description.to_wire(...)}    once; all programs are attached when it replies
    {"op": "write"}     write the counter page now
    {"op": "report"}    statistics of the daemon itself, see `_report`

At the end of its input it resumes every paused priority and neighbour, and exits. The kernel frees programs and maps
with the interfaces.
"""

import fcntl
import gc
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heddle.controller.model.error import PrerequisiteError
from heddle.mininet_topos.host.json_lines import LineReader, read_configuration, write_line
from heddle.mininet_topos.queues.attach import QueueModelPrograms
from heddle.mininet_topos.queues.description import LabPorts, from_wire
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.queues.switches import Switches
from heddle.mininet_topos.queues.tx_pause import ControlFrameSender, TransmitPauses
from heddle.mininet_topos.wire.pause_frame import ETH_MAC_CONTROL, pause_frame, read_pause_frame
from heddle.telemetry.counter_page import CounterPageWriter

WINDOW_NS, SAMPLE_NS = 500_000_000, 20_000_000
"""Queues of links that are down are emptied, and stale bytes sampled, every `SAMPLE_NS`; these are written off at the
end of a window; see `stale_bytes`."""
SIOCGIFFLAGS, IFF_RUNNING = 0x8913, 0x40
RECEIVE_BYTES = 256
QUIET_TICKS = 5
"""The number of ticks that may be skipped while no port can reach its threshold; bounds the counter page's age too."""


class RootNamespace:
    """The `Kernel` of `switches`: pause frames, transmit pauses, discards and link states in the root namespace."""

    def __init__(self, ports: LabPorts, settings: QueueSettings, programs: QueueModelPrograms) -> None:
        """Prepare frames and netlink messages, and start to receive pause frames."""
        self._programs = programs
        self._interfaces = [port.interface for port in ports.ports]
        self._macs = [_mac(name) for name in self._interfaces]
        self._frames: dict[tuple[int, int, int], bytes] = {}
        indices = [(name, socket.if_nametoindex(name)) for name in self._interfaces]
        self._transmit = TransmitPauses(indices, settings.pausable)
        self._sender = ControlFrameSender()
        self._requests = [struct.pack("16sH14x", name.encode(), 0) for name in self._interfaces]
        self._ioctl = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._slot_of = {name: slot for slot, name in enumerate(self._interfaces)}
        self._receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_MAC_CONTROL))
        self._receiver.setblocking(False)

    @property
    def fd(self) -> int:
        """Return the descriptor that is readable when a pause frame has arrived."""
        return self._receiver.fileno()

    def send_pause(self, slot: int, quanta: Mapping[int, int]) -> None:
        """Send a pause frame out of a port; a port whose link is down sends none."""
        ((priority, number),) = quanta.items()
        frame = self._frames.get((slot, priority, number))
        if frame is None:
            frame = self._frames[slot, priority, number] = pause_frame(self._macs[slot], quanta)
        self._sender.send(self._interfaces[slot], frame)

    def set_paused(self, slot: int, priority: int, paused: bool) -> None:
        """Pause or resume the transmission of one priority of a port."""
        change = self._transmit.pause if paused else self._transmit.resume
        change(self._interfaces[slot], priority)

    def discard(self, slot: int, priority: int) -> None:
        """Discard the frames that wait in a queue and, from now on, those that arrive."""
        self._programs.set_discarding(slot, priority, True)
        self._transmit.clear(self._interfaces[slot], priority)

    def accept(self, slot: int, priority: int) -> None:
        """Accept frames of a queue again."""
        self._programs.set_discarding(slot, priority, False)

    def held_bytes(self, slot: int, priority: int) -> Mapping[int, int]:
        """Return the bytes of a queue that have not left it, by the slot of the ingress port that counts them."""
        return self._programs.held_bytes(slot, priority)

    def ports_down(self) -> npt.NDArray[np.bool_]:
        """Return for each port whether its link has no carrier or its interface does not exist."""
        return np.array([self._is_down(request) for request in self._requests], np.bool_)

    def received(self) -> list[tuple[int, dict[int, int]]]:
        """Return the pause frames received since the last call: slot, and quanta by priority."""
        found = []
        with suppress(BlockingIOError):
            while True:
                frame, address = self._receiver.recvfrom(RECEIVE_BYTES)
                slot, quanta = self._slot_of.get(address[0]), read_pause_frame(frame)
                if slot is not None and quanta is not None:  # None: another lab's port, or another control frame
                    found.append((slot, quanta))
        return found

    def pause_errors(self) -> int:
        """Return the number of transmit pauses and resumptions that the kernel has refused since the last call."""
        return self._transmit.errors()

    def _is_down(self, request: bytes) -> bool:
        try:
            flags = fcntl.ioctl(self._ioctl, SIOCGIFFLAGS, request)
        except OSError:
            return True
        return not struct.unpack_from("H", flags, 16)[0] & IFF_RUNNING


class QueueDaemon:
    """The daemon's main loop over control commands, received pause frames and the periodic tick."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        """Load and attach the programs and create the counter page; raises PrerequisiteError."""
        ports, self._settings = from_wire(message)
        programs = QueueModelPrograms(ports, self._settings)
        programs.attach(ports)
        self._queues = programs.queues
        self._kernel = RootNamespace(ports, self._settings, programs)
        self._switches = Switches(ports, self._settings, programs.queues, self._kernel)
        names = [port.name for port in ports.ports]
        self._page = CounterPageWriter(Path(message["page"]), names, int.from_bytes(os.urandom(8), "little"))
        self._ticks = self._longest_tick_ns = 0
        self._last_tick_ns = time.monotonic_ns()
        self._page_due_ns = self._sample_due_ns = self._window_due_ns = 0

    def serve(self, reader: LineReader) -> None:
        """Run until the end of the input."""
        poll = select.poll()
        poll.register(reader.fd, select.POLLIN)
        poll.register(self._kernel.fd, select.POLLIN)
        tick_ms, quiet_ms = self._settings.tick_ms, 0
        while not reader.closed:
            ready = {fd for fd, _ in poll.poll(max(tick_ms, min(quiet_ms, QUIET_TICKS * tick_ms)))}
            quiet_ms = self._tick() // 1_000_000
            if reader.fd in ready:
                for command in reader.read():
                    write_line(sys.stdout.buffer, self._execute(command))
        self._switches.resume_all(time.monotonic_ns())

    def _tick(self) -> int:
        """Handle received frames and all due work; return for how many nanoseconds no further work is due."""
        now = time.monotonic_ns()
        for slot, quanta in self._kernel.received():
            self._switches.on_pause_frame(slot, quanta, now)
        quiet_ns = self._switches.tick(now)
        self._ticks += 1
        self._longest_tick_ns = max(self._longest_tick_ns, now - self._last_tick_ns)
        self._last_tick_ns = now
        if now >= self._page_due_ns:
            self._page_due_ns = now + self._settings.page_period_ms * 1_000_000
            self._write(now)
        if now >= self._sample_due_ns:
            self._sample_due_ns = now + SAMPLE_NS
            self._switches.sample_stale_bytes()
            if now >= self._window_due_ns:
                self._window_due_ns = now + WINDOW_NS
                self._switches.write_off_stale_bytes()
        return quiet_ns

    def _write(self, now_ns: int) -> None:
        self._page.write(*self._switches.counter_page(now_ns), time.time_ns())

    def _execute(self, command: Mapping[str, Any]) -> dict[str, Any]:
        operation = command["op"]
        if operation == "write":
            self._write(time.monotonic_ns())
        elif operation == "report":
            return {"ok": True, **self._report()}
        else:
            return {"ok": False, "error": f"unknown operation {operation!r}"}
        return {"ok": True}

    def _report(self) -> dict[str, int]:
        return {
            "ticks": self._ticks,
            "longest_tick_ns": self._longest_tick_ns,
            "cpu_ns": time.process_time_ns(),
            "written_off_bytes": self._switches.written_off_bytes,
            "depth_bytes": self._switches.depth_bytes(),
            "ingress_bytes": self._switches.ingress_bytes(),
            "max_ingress_bytes": int(self._queues["max_ingress_bytes"].max()),
            "pause_errors": self._kernel.pause_errors(),
            "longest_stuck_ns": self._switches.longest_stuck_ns,
            "headroom_drops": int(self._queues["headroom_drops"].sum()),
        }


def _mac(interface: str) -> bytes:
    return bytes.fromhex(Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", ""))


def main() -> None:
    """Wait for the configuration, then serve."""
    reader = LineReader(sys.stdin.fileno())
    configuration = read_configuration(reader)
    if configuration is None:
        return
    try:
        daemon = QueueDaemon(configuration)
    except (PrerequisiteError, OSError) as fault:
        write_line(sys.stdout.buffer, {"ok": False, "error": str(fault)})
        return
    gc.collect()
    gc.freeze()
    write_line(sys.stdout.buffer, {"ok": True})
    daemon.serve(reader)


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the lab has ended
        main()
