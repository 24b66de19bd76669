"""The data process: run the compiled packet loop, and check the control process's requests between two calls of it.

`python -m heddle.dataplane.control.process.data_process FD`, started by the supervisor; FD is its end of their socket.
It never waits for the control process. It ends by the STOP word, by SIGTERM or SIGINT, or with its parent.
"""

import ctypes
import gc
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any

import numpy as np

from heddle.dataplane.control.process import messages, segment
from heddle.dataplane.control.process.messages import Failed, Offer, Ready, Start
from heddle.dataplane.control.process.privileges import drop_capabilities
from heddle.dataplane.control.process.programs import program_named
from heddle.dataplane.control.process.segment import Segment
from heddle.dataplane.control.process.shared import Shared, Word, shared_of
from heddle.dataplane.elements.memory.exchange import OUT_WRITTEN
from heddle.dataplane.engine.burst import new_rows
from heddle.dataplane.engine.clock import CLOCK_BYTES
from heddle.dataplane.engine.graph import GraphArrays, arrays_of
from heddle.dataplane.engine.rings import WRITTEN
from heddle.dataplane.engine.sleep import sleepers
from heddle.dataplane.io.fault import PortError
from heddle.dataplane.io.frames.layout import KIND, TAP
from heddle.dataplane.io.opening import Backend, OpenPorts, open_ports
from heddle.dataplane.io.settings import PortSettings, RingSizes

CALL_NS, PAIRED_CALL_NS = 10_000_000, 1_000_000
"""Maximum duration of a call of the run loop, after which control words, signals and the partner's records are read."""
SLEEP_MS = 10
"""Maximum time that a call waits for packets, without --busy-poll."""
SAMPLE_S = 1.0
"""Interval at which the kernel's counters of missed frames are read."""
_PR_SET_PDEATHSIG = 1  # prctl(2)


class DataProcess:
    """The state of the process: ports, shared memory and tables."""

    def __init__(self, end: socket.socket, start: Start, files: list[int]) -> None:
        """Map shared memory and open the ports; raises PortError, also for a core that this host does not have.

        Args:
            end: of the socket to the control process.
            start: the configuration.
            files: the control segment, the state segment, the eventfd that ends a sleep, and the eventfd that notifies
                the slow path, and the segment that tables are changed in.
        """
        self._end, self._options, self._paired = end, start.options, start.paired
        self._program = program_named(start.program)
        self._segments = [segment.attach(file) for file in (*files[:2], files[4])]
        self._wake, self._punt_event = files[2:4]
        self._shared: Shared = shared_of(self._segments[0])
        self._state = self._program.state_of(self._segments[1].arrays)
        self._program.begin(self._state, time.monotonic_ns())
        self._graph: GraphArrays = arrays_of(self._program.graph_of(start.local))
        self._tables_segment: Segment | None = None
        self._stopping = False
        self._notices: list[str] = []
        if start.options.cpu is not None:
            _pin(start.options.cpu)
        self._ports: OpenPorts = open_ports(
            [PortSettings(interface=one.name, mtu_bytes=one.mtu_bytes) for one in start.local.interfaces],
            notify=self._notices.append,
            backend=Backend(start.options.backend),
            sizes=RingSizes(receive=start.local.receive_frames),
        )
        drop_capabilities()

    def stop(self, signum: int, frame: FrameType | None) -> None:
        """Stop after the present call of the run loop."""
        self._stopping = True

    def serve(self) -> None:
        """Forward until stopped, then transmit what is queued. The kernel closes the ports when the process exits."""
        tables = self._take_tables()
        if tables is not None:
            gc.disable()
            self._loop(tables)
        self._ports.drain(self._shared.counters)

    def _loop(self, tables: Any) -> None:
        shared, ports, graph, state = self._shared, self._ports.ports, self._graph, self._state
        words, counters = shared.words, shared.counters
        run, exchange = self._program.run, self._program.exchange
        packets, clock = new_rows(), np.zeros(CLOCK_BYTES, np.uint8)
        wakers = sleepers([self._wake, *_files_of(ports)])
        sleep_ms = 0 if self._options.busy_poll else SLEEP_MS
        call_ns = PAIRED_CALL_NS if self._paired else CALL_NS
        punted = shared.punts.words[WRITTEN : WRITTEN + 8].view(np.int64)
        copied = shared.exchange.words[OUT_WRITTEN : OUT_WRITTEN + 8].view(np.int64)
        seen, taken, ready, sampled = int(punted[0] + copied[0]), 1, False, time.monotonic()
        while not self._stopping and not words[Word.STOP]:
            words[Word.BUSY_NS] += run(
                ports, graph, tables, state, counters, shared.punts, shared.injects, packets, clock, wakers, call_ns,
                sleep_ms,
            )  # fmt: skip
            if self._paired:
                exchange(tables, state, shared.exchange, time.monotonic_ns())
            words[Word.CALLS] += 1
            if punted[0] + copied[0] != seen:  # both only grow
                seen = int(punted[0] + copied[0])
                os.eventfd_write(self._punt_event, 1)
            if not ready:
                messages.send(self._end, Ready(backend=self._backend(), notices=tuple(self._notices)))
                ready = True
            with suppress(BlockingIOError):
                os.read(self._wake, 8)
            if words[Word.OFFERED] != taken:
                newer = self._take_tables()
                if newer is None:
                    return
                tables, taken = newer, taken + 1
            if time.monotonic() - sampled > SAMPLE_S:
                self._ports.sample(counters)
                sampled = time.monotonic()

    def _take_tables(self) -> Any:
        """Return the next generation of tables offered; None if the control process has ended."""
        message, files = messages.receive(self._end)
        if not isinstance(message, Offer):
            return None
        made, old = segment.attach(files[0]), self._tables_segment
        self._tables_segment = made
        tables = self._program.tables_of(made.arrays, self._segments[2].arrays)
        self._shared.words[Word.IN_USE] = message.generation
        if old is not None:
            old.close()
        return tables

    def _backend(self) -> str:
        return (Backend.AF_PACKET if self._ports.ports.pool[KIND] == TAP else Backend.AF_XDP).value


def _pin(cpu: int) -> None:
    """Run this process on one core; raises PortError."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        cores = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        raise PortError(f"cpu: this host has no core {cpu} for this process; it may use {cores}") from None


def _files_of(ports: Any) -> list[int]:
    """Return the descriptors of the sockets that end a sleep."""
    return [int(fd) for fd in (ports.taps["rx_fd"] if ports.pool[KIND] == TAP else ports.queues["fd"])]


def _die_with_parent() -> None:
    """Have the kernel send SIGTERM to this process when its parent ends (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def main() -> int:
    """Run the data process; return the exit status if it cannot start."""
    parent = os.getppid()
    _die_with_parent()
    end = socket.socket(fileno=int(sys.argv[1]))
    start, files = messages.receive(end)
    if not isinstance(start, Start) or os.getppid() != parent:
        return 1
    try:
        process = DataProcess(end, start, files)
    except PortError as fault:
        messages.send(end, Failed(reason=str(fault)))
        return 1
    for wanted in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wanted, process.stop)
    process.serve()
    # Closing each port waits for the kernel, and interpreter shutdown adds to that: 0.1 s in all. At an exit the kernel
    # closes them within a few milliseconds.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
