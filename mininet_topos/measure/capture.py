"""Counts the RoCE packets of every stream on every link: a process of its own in the root namespace.

Runs as `python -m mininet_topos.measure.capture`. Takes JSON lines on standard input, answers each:

    {"op": "configure", "incoming": {interface: link id}, "outgoing": {interface: link id}}
    {"op": "reset"}    forget all counts
    {"op": "report"}   {"data": [[link id, src ip, dst ip, port, packets] ...], "acks": [...], "ring_drops": n}

Congestion notifications take the way back and are counted with the acknowledgements. Nothing is counted while flows
run, unless the ring fills: the processors are theirs, and the rows can wait until a report is asked for.
"""

import select
import socket
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np

from mininet_topos.host.json_lines import LineReader, write_line
from mininet_topos.measure.receive_ring import (
    DIRECTION_AT,
    INTERFACE_AT,
    MAC_AT,
    PACKET_OUTGOING,
    ReceiveRing,
    Rows,
    roce_filter,
)
from mininet_topos.nic.roce import BTH_AT, CNP, RC_ACKNOWLEDGE

RING_FRAMES = 1 << 17
LOOK_S = 0.2
DRAIN_DIVISOR = 4
"""The ring is emptied at a quarter: the rest is room for a second of a hundred thousand frames and more."""
_COLUMNS = (
    *range(INTERFACE_AT, INTERFACE_AT + 4), DIRECTION_AT, *range(MAC_AT + 26, MAC_AT + 36), MAC_AT + BTH_AT,
)  # fmt: skip
"""Interface 4, direction 1, source and destination address 8, source port 2, opcode 1."""

Key = tuple[str, int, int, int]


class LinkCounter:
    """Adds up rows of the ring per link and stream."""

    def __init__(self, incoming: dict[str, str], outgoing: dict[str, str]) -> None:
        """Map the interfaces and open the ring."""
        self._incoming = {socket.if_nametoindex(name): link for name, link in incoming.items()}
        self._outgoing = {socket.if_nametoindex(name): link for name, link in outgoing.items()}
        self._ring = ReceiveRing(roce_filter(list(self._outgoing)), RING_FRAMES)
        self.reset()

    def reset(self) -> None:
        """Forget everything up to now."""
        self._ring.take()
        self._ring.drops()
        self.data: Counter[Key] = Counter()
        self.acks: Counter[Key] = Counter()
        self._drops = 0

    def drain_if_filling(self) -> None:
        """Count what has arrived if the ring is no longer nearly empty."""
        if self._ring.holds(RING_FRAMES // DRAIN_DIVISOR):
            self.collect()

    def collect(self) -> None:
        """Count what has arrived."""
        rows = self._ring.take()
        if len(rows):
            for key, packets in zip(*_distinct(rows), strict=True):
                self._add(bytes(key), int(packets))

    def report(self) -> dict[str, Any]:
        """Return all counts so far."""
        self.collect()
        self._drops += self._ring.drops()
        found = {name: [[*key, n] for key, n in counts.items()] for name, counts in vars(self).items() if name in KINDS}
        return {"ok": True, **found, "ring_drops": self._drops}

    def _add(self, key: bytes, packets: int) -> None:
        links = self._outgoing if key[4] == PACKET_OUTGOING else self._incoming
        link = links.get(int.from_bytes(key[0:4], "little"))
        if link is not None:  # else another lab's
            numbers = (int.from_bytes(key[at:end], "big") for at, end in ((5, 9), (9, 13), (13, 15)))
            counts = self.acks if key[15] in (RC_ACKNOWLEDGE, CNP) else self.data
            counts[(link, *numbers)] += packets  # type: ignore[index]


KINDS = ("data", "acks")


def _distinct(rows: Rows) -> tuple[Any, Any]:
    """Return the distinct values of the counted columns, and how many rows have each."""
    columns = np.ascontiguousarray(rows[:, _COLUMNS])
    return np.unique(columns.view(f"V{len(_COLUMNS)}")[:, 0], return_counts=True)


def main() -> None:
    """Wait for the configuration, then count until the control pipe ends."""
    reader = LineReader(sys.stdin.fileno())
    counter: LinkCounter | None = None
    while not reader.closed:
        readable = select.select([reader.fd], [], [], LOOK_S)[0]
        if counter is not None:
            counter.drain_if_filling()
        for command in reader.read() if readable else ():
            if command["op"] == "configure":
                counter = LinkCounter(command["incoming"], command["outgoing"])
            elif command["op"] == "reset" and counter is not None:
                counter.reset()
            report = counter is not None and command["op"] == "report"
            write_line(sys.stdout.buffer, counter.report() if report and counter is not None else {"ok": True})


if __name__ == "__main__":
    with suppress(BrokenPipeError):  # the lab has ended
        main()
