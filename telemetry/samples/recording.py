"""A recorded stream of the bus: a file of messages with the times at which they came.

    file   = magic frame*                                          all numbers little-endian
    magic  = "HEDDLE-TELEMETRY-1" and a line feed
    frame  = u32 size of what follows the checksum | u32 CRC-32 of it | u64 Unix ns | u16 topic's size | topic | payload

A recording whose writer died ends inside a frame: it is read up to that tear. Sizes are bounded before they are read.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from telemetry.detection.ports import Port, PortTable
from telemetry.samples.sample import MAX_PAYLOAD_BYTES
from telemetry.samples.topic import MAX_TOPIC_BYTES, Source

MAGIC = b"HEDDLE-TELEMETRY-1\n"
_OUTER = struct.Struct("<II")
_INNER = struct.Struct("<QH")
_LARGEST = _INNER.size + MAX_TOPIC_BYTES + MAX_PAYLOAD_BYTES + 1


class Recorded(NamedTuple):
    """One message as it came."""

    unix_ns: int
    topic: str
    payload: bytes


class RecordingError(ValueError):
    """A file that does not begin as a recording does."""


class Torn(NamedTuple):
    """Where a recording stopped being readable: the first byte of the frame that is not whole."""

    at_byte: int


def frame(message: Recorded) -> bytes:
    """Write one message; raises ValueError for a topic longer than any of ours."""
    topic = message.topic.encode()
    if len(topic) > MAX_TOPIC_BYTES or len(message.payload) > MAX_PAYLOAD_BYTES + 1:
        raise ValueError("the message is larger than any that is read")
    inner = _INNER.pack(message.unix_ns, len(topic)) + topic + message.payload
    return _OUTER.pack(len(inner), zlib.crc32(inner)) + inner


def read(file: BinaryIO) -> Iterator[Recorded | Torn]:
    """Read a recording message by message; a Torn comes last where its end is not whole. Raises RecordingError."""
    if file.read(len(MAGIC)) != MAGIC:
        raise RecordingError("it does not begin as a recording of `heddle telemetry record` does")
    at = len(MAGIC)
    while head := file.read(_OUTER.size):
        message = _frame_of(file, head)
        if message is None:
            yield Torn(at)
            return
        yield message[0]
        at += _OUTER.size + message[1]


def _frame_of(file: BinaryIO, head: bytes) -> tuple[Recorded, int] | None:
    if len(head) < _OUTER.size:
        return None
    size, checksum = _OUTER.unpack(head)
    if not _INNER.size <= size <= _LARGEST:
        return None
    inner = file.read(size)
    if len(inner) < size or zlib.crc32(inner) != checksum:
        return None
    unix_ns, length = _INNER.unpack_from(inner)
    topic = inner[_INNER.size : _INNER.size + length]
    try:
        return Recorded(unix_ns, topic.decode(), inner[_INNER.size + length :]), size
    except UnicodeDecodeError:
        return None


def ports_in(found: Iterable[tuple[Source, str, str]], rate_bps: int) -> PortTable:
    """Return a table of ports that were met in a recording, for a replay without the fabric file.

    `found` holds source, owner and port name of each; a name that two owners claim goes to the first.
    """
    ports: dict[str, Port] = {}
    for source, owner, name in found:
        ports.setdefault(name, Port(name, source, owner, rate_bps))
    return PortTable(ports.values())
