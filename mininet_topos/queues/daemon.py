"""The process that runs a lab's queues: loads and attaches the queue model, sends and honours pauses, tells counters.

Runs as `python -m mininet_topos.queues.daemon` in the root namespace, one per lab. Takes JSON lines on standard input
and answers each:

    {"op": "configure", "page": path, **description.to_wire(...)}    once; everything is attached when it answers
    {"op": "write"}     write the counter page now
    {"op": "reset"}     forget the largest depths
    {"op": "report"}    how it has fared, see `_report`

It ends when its input does: every gate is opened, every neighbour told to go on. All else ends with the interfaces.
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

from controller.model.error import PrerequisiteError
from mininet_topos.host.json_lines import LineReader, write_line
from mininet_topos.queues.attach import QueueModelPrograms
from mininet_topos.queues.description import LabPorts, from_wire
from mininet_topos.queues.pause_frame import ETH_MAC_CONTROL, pause_frame, read_pause_frame
from mininet_topos.queues.settings import QueueSettings
from mininet_topos.queues.switches import Switches
from mininet_topos.queues.tx_pause import FrameSender, Gates
from telemetry.counter_page import CounterPageWriter

WINDOW_NS, LOOK_NS = 500_000_000, 20_000_000
SIOCGIFFLAGS, IFF_RUNNING = 0x8913, 0x40
FRAME_ROOM = 256
QUIET_TICKS = 5
"""How many ticks are left out at most while no port can reach its threshold; bounds the age of the counter page too."""


class RootNamespace:
    """The `Kernel` of `switches`: frames, gates and links in the root namespace."""

    def __init__(self, ports: LabPorts, settings: QueueSettings) -> None:
        """Prepare frames and messages, and receive pause frames from now on."""
        self._interfaces = [port.interface for port in ports.ports]
        self._macs = [_mac(name) for name in self._interfaces]
        self._frames: dict[tuple[int, int, int], bytes] = {}
        self._gates = Gates([(name, socket.if_nametoindex(name)) for name in self._interfaces], settings.pausable)
        self._sender = FrameSender()
        self._requests = [struct.pack("16sH14x", name.encode(), 0) for name in self._interfaces]
        self._ioctl = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._slot_of = {name: slot for slot, name in enumerate(self._interfaces)}
        self._receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_MAC_CONTROL))
        self._receiver.setblocking(False)

    @property
    def fd(self) -> int:
        """Return the descriptor that is readable when a pause frame has come."""
        return self._receiver.fileno()

    def send_pause(self, slot: int, quanta: Mapping[int, int]) -> None:
        """Send a pause frame out of a port; where its link is down there is nobody to pause."""
        ((priority, number),) = quanta.items()
        frame = self._frames.get((slot, priority, number))
        if frame is None:
            frame = self._frames[slot, priority, number] = pause_frame(self._macs[slot], quanta)
        self._sender.send(self._interfaces[slot], frame)

    def set_paused(self, slot: int, priority: int, closed: bool) -> None:
        """Close or open the gate of a port's priority."""
        change = self._gates.close_gate if closed else self._gates.open_gate
        change(self._interfaces[slot], priority)

    def ports_down(self) -> npt.NDArray[np.bool_]:
        """Return for each port whether its link has no carrier (or its interface is gone)."""
        return np.array([self._is_down(request) for request in self._requests], np.bool_)

    def received(self) -> list[tuple[int, dict[int, int]]]:
        """Return the pause frames that came in since the last call: slot, and quanta by priority."""
        found = []
        with suppress(BlockingIOError):
            while True:
                frame, address = self._receiver.recvfrom(FRAME_ROOM)
                slot, quanta = self._slot_of.get(address[0]), read_pause_frame(frame)
                if slot is not None and quanta is not None:  # else another lab's, or another kind of control frame
                    found.append((slot, quanta))
        return found

    def pause_errors(self) -> int:
        """Return how many changes of gates the kernel has refused since the last call."""
        return self._gates.refusals()

    def _is_down(self, request: bytes) -> bool:
        try:
            answer = fcntl.ioctl(self._ioctl, SIOCGIFFLAGS, request)
        except OSError:
            return True
        return not struct.unpack_from("H", answer, 16)[0] & IFF_RUNNING


class QueueDaemon:
    """The loop."""

    def __init__(self, message: Mapping[str, Any]) -> None:
        """Load, attach and make the counter page; raises PrerequisiteError."""
        ports, self._settings = from_wire(message)
        programs = QueueModelPrograms(ports, self._settings)
        programs.attach(ports)
        self._queues = programs.queues
        self._kernel = RootNamespace(ports, self._settings)
        self._switches = Switches(ports, self._settings, programs.queues, self._kernel)
        names = [port.name for port in ports.ports]
        self._page = CounterPageWriter(Path(message["page"]), names, int.from_bytes(os.urandom(8), "little"))
        self._ticks = self._longest_tick_ns = 0
        self._last_tick_ns = time.monotonic_ns()
        self._page_due_ns = self._look_due_ns = self._window_due_ns = 0

    def serve(self, reader: LineReader) -> None:
        """Run until the input ends."""
        poll = select.poll()
        poll.register(reader.fd, select.POLLIN)
        poll.register(self._kernel.fd, select.POLLIN)
        tick_ms, quiet_ms = self._settings.tick_ms, 0
        while not reader.closed:
            ready = {fd for fd, _ in poll.poll(max(tick_ms, min(quiet_ms, QUIET_TICKS * tick_ms)))}
            quiet_ms = self._work() // 1_000_000
            if reader.fd in ready:
                for command in reader.read():
                    write_line(sys.stdout.buffer, self._obey(command))
        self._switches.resume_all(time.monotonic_ns())

    def _work(self) -> int:
        """Do what is due; return for how many nanoseconds nothing else will be."""
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
        if now >= self._look_due_ns:
            self._look_due_ns = now + LOOK_NS
            self._switches.look()
            if now >= self._window_due_ns:
                self._window_due_ns = now + WINDOW_NS
                self._switches.settle()
        return quiet_ns

    def _write(self, now_ns: int) -> None:
        self._page.write(*self._switches.page(now_ns), time.time_ns())

    def _obey(self, command: Mapping[str, Any]) -> dict[str, Any]:
        operation = command["op"]
        if operation == "write":
            self._write(time.monotonic_ns())
        elif operation == "reset":
            self._switches.clear_maxima()
            self._longest_tick_ns = 0
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
            "headroom_drops": int(self._queues["headroom_drops"].sum()),
        }


def _mac(interface: str) -> bytes:
    return bytes.fromhex(Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", ""))


def main() -> None:
    """Wait for the configuration, then serve."""
    reader = LineReader(sys.stdin.fileno())
    commands: list[dict[str, Any]] = []
    while not commands and not reader.closed:
        commands = reader.read()
    if reader.closed:
        return
    try:
        daemon = QueueDaemon(commands[0])
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
