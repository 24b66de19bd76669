"""A memory-mapped receive ring (TPACKET_V2) over all interfaces of this network namespace, read as numpy arrays.

A row is laid out as in packet(7): a header of 32 bytes whose first word is the status; a sockaddr_ll with interface
index and direction; the frame from byte `MAC_AT` on.
"""

import mmap
import socket
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from heddle.mininet_topos.wire.roce import ROCE_PORT
from heddle.mininet_topos.wire.sockets import ETH_P_ALL, SOL_PACKET, Instruction, attach_filter, socket_drops
from heddle.mininet_topos.wire.srv6 import ETHERTYPE, IPV4_IN_IPV6, NEXT_HEADER_AT

PACKET_RX_RING, PACKET_VERSION, TPACKET_V2 = 5, 10, 1
ROW_BYTES = 128
BLOCK_BYTES = 1 << 20
MAC_AT = 66
SCAN_ROWS = 256
SNAP_BYTES = ROW_BYTES - MAC_AT - 2
TP_STATUS_KERNEL, TP_STATUS_USER = 0, 1
INTERFACE_AT, DIRECTION_AT = 36, 42
PACKET_OUTGOING = 4
_DIRECTION, _INTERFACE = 0xFFFFF004, 0xFFFFF008  # SKF_AD_OFF + SKF_AD_PKTTYPE, + SKF_AD_IFINDEX

Rows = npt.NDArray[np.uint8]


def roce_filter(outgoing_interfaces: list[int], outer_bytes: int = 0) -> tuple[Instruction, ...]:
    """Return a filter that accepts RoCEv2 frames received on any interface, and those sent on the given interfaces.

    With `outer_bytes` it accepts those alone that have an outer IPv6 header of so many bytes.
    """
    refuse, take = (0x06, 0, 0, 0), (0x06, 0, 0, SNAP_BYTES + outer_bytes)
    plain: tuple[Instruction, ...] = (
        (0x28, 0, 0, 12), (0x15, 1, 0, 0x0800), refuse,
        (0x30, 0, 0, 23), (0x15, 1, 0, 17), refuse,
        (0xB1, 0, 0, 14), (0x48, 0, 0, 16), (0x15, 1, 0, ROCE_PORT), refuse,
    )  # fmt: skip
    inside: tuple[Instruction, ...] = (
        (0x28, 0, 0, 12), (0x15, 1, 0, ETHERTYPE), refuse,
        (0x30, 0, 0, NEXT_HEADER_AT), (0x15, 1, 0, IPV4_IN_IPV6), refuse,
        (0x28, 0, 0, outer_bytes + 36), (0x15, 1, 0, ROCE_PORT), refuse,
    )  # fmt: skip
    program: list[Instruction] = [
        *(inside if outer_bytes else plain),
        (0x20, 0, 0, _DIRECTION), (0x15, 1, 0, PACKET_OUTGOING), take,
        (0x20, 0, 0, _INTERFACE),
    ]  # fmt: skip
    for index in outgoing_interfaces:
        program += [(0x15, 0, 1, index), take]
    return (*program, refuse)


class ReceiveRing:
    """The ring; `take` copies the rows that have arrived and returns their slots to the kernel."""

    def __init__(self, program: tuple[Instruction, ...], frames: int, row_bytes: int = ROW_BYTES) -> None:
        """Map a ring of `frames` rows (rounded up to whole blocks) for frames that the filter `program` accepts."""
        self._row_bytes = row_bytes
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        attach_filter(self.socket, program)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        blocks = -(-frames * row_bytes // BLOCK_BYTES)
        self._count = blocks * BLOCK_BYTES // row_bytes
        ring = struct.pack("=IIII", BLOCK_BYTES, blocks, row_bytes, self._count)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, ring)
        self._memory = mmap.mmap(self.socket.fileno(), blocks * BLOCK_BYTES)
        self._rows: Rows = np.frombuffer(self._memory, np.uint8).reshape(self._count, row_bytes)
        self._status: npt.NDArray[Any] = self._rows.view("<u4")[:, 0]
        self._head = 0

    def take(self) -> Rows:
        """Return a copy of the rows that are ready, in order of arrival."""
        parts = []
        while count := self._ready():
            rows = slice(self._head, self._head + count)
            parts.append(self._rows[rows].copy())
            self._status[rows] = TP_STATUS_KERNEL
            self._head = (self._head + count) % self._count
        return np.concatenate(parts) if parts else np.empty((0, self._row_bytes), np.uint8)

    def drops(self) -> int:
        """Return the number of frames dropped since the last call because the ring was full."""
        return socket_drops(self.socket)

    def holds(self, rows: int) -> bool:
        """Return whether at least `rows` rows are ready; reads the status of one row. At most the ring's size."""
        return bool(self._status[(self._head + rows - 1) % self._count] & TP_STATUS_USER)

    def _ready(self) -> int:
        """Return the number of rows that are ready, from the head to the first that is not, or to the end of the ring.

        Reads the status words in steps: each is in a cache line of its own, and those of a whole ring are megabytes.
        """
        found, to_end = 0, self._count - self._head
        while found < to_end:
            ready = self._status[self._head + found : self._head + min(found + SCAN_ROWS, to_end)] & TP_STATUS_USER
            if not ready.all():
                return found + int(np.argmin(ready))
            found += len(ready)
        return found
