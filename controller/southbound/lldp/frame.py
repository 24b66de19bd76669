"""Build and recognise LLDP frames of our own (IEEE 802.1AB); every other frame is none of ours, and is not parsed.

A frame has 80 bytes, and all but three fields are fixed. So it is recognised by building it again from these fields:

     0        6        12     14                 25          34     38                                   78   80
     +--------+--------+------+------------------+-----------+------+------------------------------------+----+
     | dst    | src    | 88cc | chassis id       | port id   | TTL  | organisation: datapath id u64,     | end|
     |        |        |      | (local): dpid u64| (local)u32|      | port u32, epoch u64, MAC 16 bytes  |    |
     +--------+--------+------+------------------+-----------+------+------------------------------------+----+

The MAC is HMAC-SHA-256 of datapath id, port and epoch, cut to 16 bytes (RFC 2104, section 5).
"""

import hmac
from struct import Struct
from typing import NamedTuple

FRAME_BYTES = 80
KEY_BYTES = 32
_MAC_BYTES = 16
_TTL_S = 120
_NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
_LOCAL_MAC = 0x02
"""The first byte of a locally administered address."""
_OUI = bytes.fromhex("024844")
"""An organisation's number that is locally administered, so that no other organisation has it."""
_SUBTYPE = 1
_LOCALLY_ASSIGNED = 7
_CHASSIS, _PORT, _TTL, _ORGANISATION = 1, 2, 3, 127
_ORIGIN = Struct("!QIQ")
_ORIGIN_AT = 42
_HEAD = Struct("!6sB5s2sHBQHBIHH")


class Origin(NamedTuple):
    """Where a frame was sent: a switch's datapath id and port, and in which period."""

    datapath_id: int
    port: int
    epoch: int


def _tlv(kind: int, length: int) -> int:
    """Return the header of an LLDP element: its type in 7 bits, its length in 9."""
    return kind << 9 | length


def frame(key: bytes, origin: Origin) -> bytes:
    """Return the frame that leaves a port in a period."""
    signed = _ORIGIN.pack(*origin)
    organisation = _OUI + bytes((_SUBTYPE,)) + signed + hmac.digest(key, signed, "sha256")[:_MAC_BYTES]
    head = _HEAD.pack(
        _NEAREST_BRIDGE, _LOCAL_MAC, signed[3:8], b"\x88\xcc",
        _tlv(_CHASSIS, 9), _LOCALLY_ASSIGNED, origin.datapath_id,
        _tlv(_PORT, 5), _LOCALLY_ASSIGNED, origin.port,
        _tlv(_TTL, 2), _TTL_S,
    )  # fmt: skip
    return head + _tlv(_ORGANISATION, len(organisation)).to_bytes(2, "big") + organisation + bytes(2)


def claimed(data: bytes) -> Origin | None:
    """Return the origin that a received frame claims; None where it has not the form of ours. Proves nothing."""
    if len(data) < FRAME_BYTES:
        return None
    return Origin(*_ORIGIN.unpack_from(data, _ORIGIN_AT))


def is_genuine(key: bytes, data: bytes, origin: Origin) -> bool:
    """Return whether a received frame is the one that was built for an origin; bytes after its end do not count."""
    return hmac.compare_digest(frame(key, origin), data[:FRAME_BYTES])
