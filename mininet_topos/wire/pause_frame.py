"""Build and parse priority flow control frames (IEEE 802.1Q, clause 36; formerly 802.1Qbb).

     0      6      12     14     16            18                    34      60
    +------+------+------+------+-------------+---------------------+-------+
    | 01:80:C2:00:00:01  | 8808 | 0101 opcode | class-enable vector | 8 times 16 bits, in quanta | zeros |
    +------+------+------+------+-------------+---------------------+-------+

The destination address is reserved: a bridge never forwards it. Times are in quanta of 512 bit times of the link; 0
ends a pause.
"""

import struct
from collections.abc import Mapping

PAUSE_ADDRESS = bytes.fromhex("0180c2000001")
ETH_MAC_CONTROL = 0x8808
OPCODE_PFC = 0x0101
FRAME_BYTES = 60
QUANTUM_BITS = 512
MAX_QUANTA = 0xFFFF
PRIORITIES = 8
_FRAME = struct.Struct(">6s6sHHH8H")


def pause_frame(source_mac: bytes, quanta: Mapping[int, int]) -> bytes:
    """Return a frame that pauses each priority of `quanta` for that many quanta; 0 resumes it."""
    enabled = sum(1 << priority for priority in quanta)
    times = [quanta.get(priority, 0) for priority in range(PRIORITIES)]
    frame = _FRAME.pack(PAUSE_ADDRESS, source_mac, ETH_MAC_CONTROL, OPCODE_PFC, enabled, *times)
    return frame.ljust(FRAME_BYTES, b"\0")


def read_pause_frame(frame: bytes | memoryview) -> dict[int, int] | None:
    """Return the quanta of each priority that a frame enables; None if it is not a priority flow control frame."""
    if len(frame) < _FRAME.size:
        return None
    destination, _, ethertype, opcode, enabled, *times = _FRAME.unpack_from(frame)
    if destination != PAUSE_ADDRESS or ethertype != ETH_MAC_CONTROL or opcode != OPCODE_PFC:
        return None
    return {priority: times[priority] for priority in range(PRIORITIES) if enabled >> priority & 1}


def quanta_ns(quanta: int, rate_bps: int) -> int:
    """Return the duration of a number of quanta on a link of this rate."""
    return quanta * QUANTUM_BITS * 10**9 // rate_bps
