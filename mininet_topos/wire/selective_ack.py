"""The payload of an ACK whose queue pair sprays its packets over many paths.

     0                   1                   2                   3
    +---------------------------------------------------------------+
    |                                                               |
    +         bitmap of 128 packets from the first missing on       +  the highest bit: PSN of the BTH + 128
    |                                                               |
    +                                                               +
    |                                                               |
    +                                                               +  the lowest bit: PSN of the BTH + 1, never set
    |                                                               |
    +-------------------------------+-------------------------------+
    |  UDP source port, its path    |P|M|         reserved          |
    +-------------------------------+-------------------------------+
    |   reserved    |        PSN of the packet that it answers      |
    +---------------+-----------------------------------------------+

The PSN of the BTH is that up to which all packets have arrived, as in every ACK. P: it answers a probe, a SEND without
data, whose PSN is the probe's number; the bitmap holds all the same. M: the packet that it answers was marked.
"""

import struct
from typing import NamedTuple

_LAYOUT = struct.Struct(">16sHHI")
_PROBE, _MARKED = 0x8000, 0x4000
BYTES = _LAYOUT.size


class SelectiveAck(NamedTuple):
    """What an ACK says beside its PSN."""

    arrived: int
    """Bit n: the packet n after the first missing one has arrived."""
    udp_source_port: int
    psn: int
    is_probe: bool
    is_marked: bool

    def pack(self) -> bytes:
        """Return the payload."""
        flags = self.is_probe * _PROBE | self.is_marked * _MARKED
        return _LAYOUT.pack(self.arrived.to_bytes(16, "big"), self.udp_source_port, flags, self.psn)


def read_selective_ack(payload: bytes) -> SelectiveAck | None:
    """Parse the payload; None if it has another length."""
    if len(payload) != BYTES:
        return None
    arrived, port, flags, psn = _LAYOUT.unpack(payload)
    is_probe, is_marked = flags & _PROBE != 0, flags & _MARKED != 0
    return SelectiveAck(int.from_bytes(arrived, "big"), port, psn & 0xFFFFFF, is_probe, is_marked)
