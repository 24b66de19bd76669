"""Priority flow control as a NIC honours it (IEEE 802.1Q, clause 36): the frame, and who is paused until when.

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    |        destination 01:80:C2:00:00:01, source, ethertype 0x8808 |
    +-------------------------------+-------------------------------+
    |         opcode 0x0101         |     class enable vector       |
    +-------------------------------+-------------------------------+
    |   time of priority 0          |   time of priority 1        … |  eight, then zeros up to 60 bytes
    +-------------------------------+-------------------------------+

A time is in quanta of 512 bit times of the link, which is 25.6 us at 20 Mbit/s; no time at all lets the priority go on
(XON). A new frame replaces what an earlier one said. No socket, no clock: time is an argument.
"""

import struct
from collections.abc import Mapping, Sequence

MAC_CONTROL = 0x8808
PFC_OPCODE = 0x0101
PRIORITIES = 8
QUANTUM_BITS = 512
MOST_QUANTA = 0xFFFF
FRAME_BYTES = 60
DESTINATION = bytes.fromhex("0180c2000001")
_BODY = struct.Struct(">HHH8H")
_BODY_AT = 12


def pause_frame(source_mac: bytes, quanta: Mapping[int, int]) -> bytes:
    """Return a frame that pauses each priority named for so many quanta, or lets it go on for 0."""
    vector = sum(1 << priority for priority in quanta)
    times = (quanta.get(priority, 0) for priority in range(PRIORITIES))
    body = _BODY.pack(MAC_CONTROL, PFC_OPCODE, vector, *times)
    return (DESTINATION + source_mac + body).ljust(FRAME_BYTES, b"\0")


def parse_pause(frame: bytes | bytearray | memoryview, length: int) -> tuple[int | None, ...] | None:
    """Return each priority's quanta, None for those not named; None for anything but a whole frame of this kind."""
    if length < _BODY_AT + _BODY.size:
        return None
    ethertype, opcode, vector, *times = _BODY.unpack_from(frame, _BODY_AT)
    if ethertype != MAC_CONTROL or opcode != PFC_OPCODE:
        return None
    return tuple(times[priority] if vector >> priority & 1 else None for priority in range(PRIORITIES))


class PauseClock:
    """Which priorities of one port are paused, and for how long they were.

    `until_ns[priority]` is when the last pause ends or ended; `frames` and `transitions` count what was heard and how
    often a priority that was free became paused.
    """

    __slots__ = ("_line_rate_bps", "_paused_ns", "_since_ns", "frames", "transitions", "until_ns")

    def __init__(self, line_rate_bps: int) -> None:
        """Begin unpaused on a link of this rate."""
        self._line_rate_bps = line_rate_bps
        self.until_ns = [0] * PRIORITIES
        self.frames, self.transitions = [0] * PRIORITIES, [0] * PRIORITIES
        self._paused_ns = [0] * PRIORITIES
        self._since_ns: list[int | None] = [None] * PRIORITIES

    def on_pause(self, quanta: Sequence[int | None], now_ns: int) -> None:
        """Take a frame as `parse_pause` reads it."""
        for priority, time in enumerate(quanta):
            if time is not None:
                self.frames[priority] += 1
                self._set(priority, now_ns + time * QUANTUM_BITS * 10**9 // self._line_rate_bps, now_ns)

    def paused_ns(self, priority: int, now_ns: int) -> int:
        """Return how long a priority has been paused up to now, all pauses together."""
        since = self._since_ns[priority]
        current = 0 if since is None else min(now_ns, self.until_ns[priority]) - since
        return self._paused_ns[priority] + current

    def _set(self, priority: int, until_ns: int, now_ns: int) -> None:
        was_paused = now_ns < self.until_ns[priority]
        if not was_paused:
            self._paused_ns[priority] = self.paused_ns(priority, now_ns)
            self._since_ns[priority] = now_ns if until_ns > now_ns else None
            self.transitions[priority] += until_ns > now_ns
        elif until_ns <= now_ns:
            self._paused_ns[priority] = self.paused_ns(priority, now_ns)
            self._since_ns[priority] = None
        if was_paused or until_ns > now_ns:
            self.until_ns[priority] = until_ns
