"""Read and write recorded streams: files of bus messages with their arrival times.

    file   = magic frame*                                          all numbers little-endian
    magic  = "HEDDLE-TELEMETRY-1" and a line feed
    frame  = u32 size of what follows the checksum | u32 CRC-32 of it | u64 Unix ns | u16 topic's size | topic | payload

A recording whose writer died ends inside a frame and is read up to there. Sizes are checked before they are used.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.sample import MAX_PAYLOAD_BYTES
from heddle.telemetry.samples.topic import MAX_TOPIC_BYTES, Source

MAGIC = b"HEDDLE-TELEMETRY-1\n"
_OUTER = struct.Struct("<II")
_INNER = struct.Struct("<QH")
_MAX_INNER_BYTES = _INNER.size + MAX_TOPIC_BYTES + MAX_PAYLOAD_BYTES + 1


class Recorded(NamedTuple):
    """One message and its arrival time."""

    unix_ns: int
    topic: str
    payload: bytes


class RecordingError(ValueError):
    """The file does not begin with the magic of a recording."""


class Torn(NamedTuple):
    """The end of the readable part: the offset of the first incomplete or damaged frame."""

    at_byte: int


def frame(message: Recorded) -> bytes:
    """Encode one message; raises ValueError if topic or payload exceed the limits."""
    topic = message.topic.encode()
    if len(topic) > MAX_TOPIC_BYTES or len(message.payload) > MAX_PAYLOAD_BYTES + 1:
        raise ValueError("the message exceeds the size limits")
    inner = _INNER.pack(message.unix_ns, len(topic)) + topic + message.payload
    return _OUTER.pack(len(inner), zlib.crc32(inner)) + inner


def read(file: BinaryIO) -> Iterator[Recorded | Torn]:
    """Yield the messages of a recording, and a final Torn if its end is incomplete; raises RecordingError."""
    if file.read(len(MAGIC)) != MAGIC:
        raise RecordingError("not a recording of `heddle telemetry record`")
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
    if not _INNER.size <= size <= _MAX_INNER_BYTES:
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
    """Return a table of the ports of a recording, for a replay without the fabric file.

    `found` yields source, owner and port name of each port; the first owner of a name wins.
    """
    ports: dict[str, Port] = {}
    for source, owner, name in found:
        ports.setdefault(name, Port(name, source, owner, rate_bps))
    return PortTable(ports.values())
