"""Count the RoCE packets of every stream on every link, in a process of its own in the root namespace.

Runs as `python -m heddle.mininet_topos.measure.capture`. Reads JSON lines on standard input and replies to each:

    {"op": "configure", "incoming": {interface: link id}, "outgoing": {interface: link id},
     "namespaces": {interface: pid},  # whose network namespace has the interface; without: the capture's own
     "outer_bytes": 0}                # 40 where packets have an outer IPv6 header
    {"op": "reset"}    set all counts to zero
    {"op": "report"}   {"data": [[link id, src ip, dst ip, port, packets] ...], "acks": [...], "ring_drops": n}

Congestion notifications (CNPs) take the reverse path and are counted with the acknowledgements. While flows run, rows
stay in the ring uncounted unless it fills, to leave the processors to the flows; a report counts them.
"""

import select
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np

from heddle.mininet_topos.host.json_lines import LineReader, write_line
from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.measure.receive_ring import (
    DIRECTION_AT,
    INTERFACE_AT,
    MAC_AT,
    PACKET_OUTGOING,
    ROW_BYTES,
    ReceiveRing,
    Rows,
    roce_filter,
)
from heddle.mininet_topos.wire.roce import BTH_AT, CNP, RC_ACKNOWLEDGE

RING_FRAMES = 1 << 17
ROUTER_FRAMES = 1 << 14
"""A router has a ring of its own: with 80 of them a fabric takes 160 MB, with an outer header 320 MB."""
POLL_S = 0.2
DRAIN_DIVISOR = 4
"""The ring is drained when it is a quarter full; the rest holds more than a second of 100,000 frames per second."""
TUNNELLED_ROW_BYTES = 2 * ROW_BYTES
"""Rows of frames with an outer header: the kernel takes multiples of 16, and these fill its blocks without a rest."""

Key = tuple[str, int, int, int]


class LinkCounter:
    """Packet counts per link and stream, from the rows of the receive ring."""

    def __init__(
        self, incoming: dict[str, str], outgoing: dict[str, str], frames: int = RING_FRAMES, outer_bytes: int = 0
    ) -> None:
        """Map interfaces (name to link id, per direction) and open a ring for so many frames.

        With `outer_bytes` frames with an outer header of so many bytes count, and no others.
        """
        self._incoming = {socket.if_nametoindex(name): link for name, link in incoming.items()}
        self._outgoing = {socket.if_nametoindex(name): link for name, link in outgoing.items()}
        program, row_bytes = (
            roce_filter(list(self._outgoing), outer_bytes),
            TUNNELLED_ROW_BYTES if outer_bytes else ROW_BYTES,
        )
        self._ring, self._frames = ReceiveRing(program, frames, row_bytes), frames
        self._columns = _columns(outer_bytes)
        self.reset()

    def reset(self) -> None:
        """Set all counts to zero and discard what the ring holds."""
        self._ring.take()
        self._ring.drops()
        self.data: Counter[Key] = Counter()
        self.acks: Counter[Key] = Counter()
        self._drops = 0

    def drain_if_filling(self) -> None:
        """Count the rows in the ring if it is at least a quarter full."""
        if self._ring.holds(self._frames // DRAIN_DIVISOR):
            self.collect()

    def collect(self) -> None:
        """Count the rows in the ring."""
        rows = self._ring.take()
        if len(rows):
            for key, packets in zip(*_distinct(rows, self._columns), strict=True):
                self._add(bytes(key), int(packets))

    def report(self) -> dict[str, Any]:
        """Return all counts since the last reset."""
        self.collect()
        self._drops += self._ring.drops()
        found = {name: [[*key, n] for key, n in counts.items()] for name, counts in vars(self).items() if name in KINDS}
        return {"ok": True, **found, "ring_drops": self._drops}

    def _add(self, key: bytes, packets: int) -> None:
        links = self._outgoing if key[4] == PACKET_OUTGOING else self._incoming
        link = links.get(int.from_bytes(key[0:4], "little"))
        if link is not None:  # None: an interface of another lab
            numbers = (int.from_bytes(key[at:end], "big") for at, end in ((5, 9), (9, 13), (13, 15)))
            counts = self.acks if key[15] in (RC_ACKNOWLEDGE, CNP) else self.data
            counts[(link, *numbers)] += packets  # type: ignore[index]


class Counters:
    """The link counters of several network namespaces as one."""

    def __init__(self, counters: Sequence[LinkCounter]) -> None:
        """Take the counters."""
        self._counters = counters

    def reset(self) -> None:
        """Set all counts to zero."""
        for counter in self._counters:
            counter.reset()

    def drain_if_filling(self) -> None:
        """Count the rows in rings that fill."""
        for counter in self._counters:
            counter.drain_if_filling()

    def report(self) -> dict[str, Any]:
        """Return all counts since the last reset."""
        reports = [counter.report() for counter in self._counters]
        rows = {kind: [row for report in reports for row in report[kind]] for kind in KINDS}
        return {"ok": True, **rows, "ring_drops": sum(report["ring_drops"] for report in reports)}


def counters_of(
    incoming: dict[str, str], outgoing: dict[str, str], namespaces: dict[str, int], outer_bytes: int = 0
) -> Counters:
    """Open a ring in each namespace for the interfaces that it has."""
    counters = []
    for pid in dict.fromkeys(namespaces.get(name) for name in incoming):
        here, out = (_in_namespace(links, namespaces, pid) for links in (incoming, outgoing))
        with nullcontext() if pid is None else network_namespace(pid):
            counters.append(LinkCounter(here, out, RING_FRAMES if pid is None else ROUTER_FRAMES, outer_bytes))
    return Counters(counters)


def _in_namespace(links: dict[str, str], namespaces: dict[str, int], pid: int | None) -> dict[str, str]:
    return {name: link for name, link in links.items() if namespaces.get(name) == pid}


KINDS = ("data", "acks")


def _columns(outer_bytes: int) -> tuple[int, ...]:
    """Return where a row has interface (4), direction (1), addresses (8), source port (2) and opcode (1)."""
    frame_at = MAC_AT + outer_bytes
    interface, addresses = range(INTERFACE_AT, INTERFACE_AT + 4), range(frame_at + 26, frame_at + 36)
    return (*interface, DIRECTION_AT, *addresses, frame_at + BTH_AT)


def _distinct(rows: Rows, at: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the distinct values of the counted columns, and the number of rows with each."""
    columns = np.ascontiguousarray(rows[:, at])
    return np.unique(columns.view(f"V{len(at)}")[:, 0], return_counts=True)


def main() -> None:
    """Wait for the configuration, then count until the control pipe is closed."""
    reader = LineReader(sys.stdin.fileno())
    counter: Counters | None = None
    while not reader.closed:
        readable = select.select([reader.fd], [], [], POLL_S)[0]
        if counter is not None:
            counter.drain_if_filling()
        for command in reader.read() if readable else ():
            if command["op"] == "configure":
                counter = counters_of(*(command[key] for key in ("incoming", "outgoing", "namespaces", "outer_bytes")))
            elif command["op"] == "reset" and counter is not None:
                counter.reset()
            report = counter is not None and command["op"] == "report"
            write_line(sys.stdout.buffer, counter.report() if report and counter is not None else {"ok": True})


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the lab has ended
        main()
