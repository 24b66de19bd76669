"""Capture files in, capture files out (draft-ietf-opsawg-pcap): ports for tests and for looking at what a gateway did.

    file:   magic 32 | major 16 | minor 16 | reserved 64 | longest 32 | link type 32
    packet: seconds 32 | micro- or nanoseconds 32 | captured 32 | length 32 | frame

Both byte orders and both units of time are read; microseconds in this machine's order are written.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dataplane.io.fault import PortError
from dataplane.io.frames.in_memory import MemoryPorts

MAGIC, MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
VERSION = (2, 4)
ETHERNET = 1
LONGEST = 1 << 16
"""Of a frame in a file, bytes."""
_HEAD, _PACKET = "IHHiIII", "IIII"
_HEAD_BYTES, _PACKET_BYTES = 24, 16


@dataclass(frozen=True, slots=True)
class Captured:
    """A frame and when it was seen, in nanoseconds since 1970."""

    time_ns: int
    frame: bytes


def read_pcap(path: Path) -> Iterator[Captured]:
    """Return the frames of a file, one by one; raises PortError where it is no capture of whole Ethernet frames."""
    with _opened(path) as file:
        order, unit_ns = _read_head(path, file)
        number = 0
        while head := file.read(_PACKET_BYTES):
            number += 1
            if len(head) < _PACKET_BYTES:
                raise PortError(f"{path}: ends inside the header of frame {number}")
            seconds, part, captured, length = struct.unpack(order + _PACKET, head)
            if captured != length or captured > LONGEST:
                raise PortError(f"{path}: frame {number} has {captured} of {length} bytes; capture whole frames (-s 0)")
            frame = file.read(captured)
            if len(frame) < captured:
                raise PortError(f"{path}: ends inside frame {number}")
            yield Captured(seconds * 1_000_000_000 + part * unit_ns, frame)


def write_pcap(path: Path, frames: Iterable[Captured]) -> None:
    """Write frames to a file; raises PortError where it cannot be written."""
    try:
        with path.open("wb") as file:
            file.write(struct.pack("=" + _HEAD, MAGIC, *VERSION, 0, 0, LONGEST, ETHERNET))
            for one in frames:
                seconds, part_ns = divmod(one.time_ns, 1_000_000_000)
                size = len(one.frame)
                file.write(struct.pack("=" + _PACKET, seconds, part_ns // 1000, size, size) + one.frame)
    except OSError as fault:
        raise PortError(f"{path}: {fault.strerror}") from None


class PcapPorts(MemoryPorts):
    """Memory ports that frames of files arrive at, and that keep what leaves until it is written to files."""

    def __init__(self, count: int, *, buffers: int = 4096, chunk_bytes: int = 2048, ring: int = 1024) -> None:
        """Make `count` ports without files."""
        super().__init__(count, buffers=buffers, chunk_bytes=chunk_bytes, ring=ring)
        self._sources: list[Iterator[Captured]] = [iter(()) for _ in range(count)]
        self._waiting: list[Captured | None] = [None] * count
        self._left: list[list[Captured]] = [[] for _ in range(count)]

    def read_from(self, port: int, path: Path) -> None:
        """Let the frames of a file arrive at a port, in order, as fast as they are taken (`feed`)."""
        self._sources[port] = read_pcap(path)

    def feed(self, port: int) -> int:
        """Let frames arrive until the ring is full or the file at its end; return how many."""
        count = 0
        while (one := self._waiting[port] or next(self._sources[port], None)) is not None:
            if not self.put(port, one.frame):
                self._waiting[port] = one
                return count
            self._waiting[port] = None
            count += 1
        return count

    def keep(self, port: int, now_ns: int) -> int:
        """Take what has left by a port, as of now; return how many frames."""
        frames = [Captured(now_ns, frame) for frame in self.take(port)]
        self._left[port] += frames
        return len(frames)

    def write_to(self, port: int, path: Path) -> None:
        """Write what was kept of a port to a file, and forget it."""
        write_pcap(path, self._left[port])
        self._left[port] = []


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as fault:
        raise PortError(f"{path}: {fault.strerror}") from None


def _read_head(path: Path, file: BinaryIO) -> tuple[str, int]:
    """Return the byte order and how many nanoseconds a unit of time has."""
    head = file.read(_HEAD_BYTES)
    for order in ("<", ">"):
        if len(head) == _HEAD_BYTES:
            magic, *_, link_type = struct.unpack(order + _HEAD, head)
            if magic in (MAGIC, MAGIC_NS):
                if link_type & 0xFFFF != ETHERNET:
                    raise PortError(f"{path}: link type {link_type & 0xFFFF}; Ethernet (1) can be read")
                return order, 1 if magic == MAGIC_NS else 1000
    raise PortError(f"{path}: no capture in pcap's format; convert pcapng with `tshark -F pcap`")
