"""TCP states by sequence numbers: only segments with the next expected number open, reset or close a connection.

Somebody off the path knows addresses and ports, but no sequence numbers. RFC 5961, 3.2, has the endpoint accept a RST
only at the next expected number; gateways and balancers do the same, because a connection that they wrongly take for
closed ends early and is opened again by the next SYN. A segment that is not exact passes unchanged, and changes
nothing: the endpoint judges it, and replies to it by a challenge ACK.

Each side has a word `expected`: its next sequence number, and its last acknowledgement. The next number is the end of
the segments that followed each other without a gap, or what the other side acknowledged, whichever is later. Only
equality counts: a segment that merely overlaps the expected number moves nothing, so each forged segment has the chance
of a guess of 32 bits, however long it is. `beyond` has the segments behind a gap (lost or reordered before they came
here, or that a partner forwarded): a start and an end. If the other side acknowledges exactly one of the two,
everything up to the end has arrived.

- RST: at the next number. Before the handshake is complete, that of the side that was called counts by its
  acknowledgement of the SYN as well (RFC 9293, 3.10.7.3).
- FIN: the same. One behind a gap counts once the other side acknowledges exactly it, unless data has had its
  number (`AHEAD_...`).
- SYN: changes nothing once the handshake is complete, unless it is of the opener and a SYN of the other side
  acknowledges exactly it: then both have forgotten the old connection, and begin a new one.

Nothing is known of a side of a connection that was adopted, or received from a partner of an earlier version. Its
numbers are secret then (`connections.connect`, `sides.set_sides`), until the other side's acknowledgement confirms one.
"""

from typing import Any

import numpy as np

from heddle.dataplane.elements.memory.tcp_flags import (
    AHEAD_OPENER,
    AHEAD_REPLIER,
    CLOSED,
    CLOSING,
    ESTABLISHED,
    FIN_OPENER,
    FIN_REPLIER,
    KNOWN_OPENER,
    KNOWN_REPLIER,
    NUMBER_FLAGS,
    REPLY,
    SEEN_REPLY,
)
from heddle.dataplane.engine.burst import NOT_A_FRAGMENT
from heddle.dataplane.jit import Bytes, Row, element, inline
from heddle.dataplane.packet.memory import WORD, load16, load64
from heddle.dataplane.packet.transport import ACK, FIN, RST, SYN

NUMBERS_AT, HEAD_AT = 4, 12
"""Offsets in a TCP header: sequence and acknowledgement number; data offset and flags (RFC 9293, 3.1)."""
AHEAD = AHEAD_OPENER | AHEAD_REPLIER
MAX_WINDOW = 1 << 30
"""Bytes in flight at most (RFC 7323, 2.3)."""
DECISIVE = FIN | SYN | RST | ACK
"""Of these flags, a segment within a connection has ACK alone."""
FOLLOWED = SEEN_REPLY | KNOWN_OPENER | KNOWN_REPLIER
"""The flags of a connection, besides ESTABLISHED, whose next numbers are known."""
_32 = np.uint64(32)


@inline
def is_after(one: int, other: int) -> bool:
    """Whether a sequence number is behind another one, modulo 2^32 (RFC 9293, 3.4)."""
    return 0 < (one - other & WORD) < 1 << 31


@inline
def next_of(connection: Row) -> Any:
    """Return the next expected sequence number of a side."""
    return connection.expected >> 32 & WORD


@inline
def _expected(connection: Row, other: Row) -> Any:
    """Return the next expected number of a side: what the other side has acknowledged, if that is farther.

    It can acknowledge what came behind a gap, no more: an acknowledgement may be forged as well.
    """
    following, acked = next_of(connection), other.expected & WORD
    if is_after(acked, following) and not is_after(acked, connection.beyond & WORD):
        return acked
    return following


@inline
def take(memory: Bytes, packet: Row, connection: Row, flags: int) -> bool:
    """Advance a side by a segment in order or one sent again, without SYN and FIN; return False for any other.

    The conditions are one number, so that packets in order meet one branch. Data that ends within any window before the
    next number has been there: of it the acknowledgement alone counts, once the next numbers of both sides are known.
    """
    numbers, head = load64(memory, packet.l4 + NUMBERS_AT), load16(memory, packet.l4 + HEAD_AT)
    other = packet.fragment | head & DECISIVE ^ ACK | flags & (ESTABLISHED | AHEAD) ^ ESTABLISHED
    payload = packet.l4_bytes - (head >> 12 << 2)
    if other | (numbers ^ connection.expected) >> 32 == 0:
        connection.expected = np.int64(np.uint64(numbers) + (np.uint64(payload) << _32))
        return True
    following = connection.expected >> 32
    behind = following - (numbers >> 32) - payload & WORD
    if other | flags & FOLLOWED ^ FOLLOWED != 0 or behind >= MAX_WINDOW:
        return False
    connection.expected = following << 32 | numbers & WORD
    return True


@inline
def _end_of(memory: Bytes, packet: Row, sequence: int) -> Any:
    """Return the number behind a segment's payload; of a fragment, whose payload goes on elsewhere, its first."""
    if packet.fragment != NOT_A_FRAGMENT:
        return sequence
    return sequence + packet.l4_bytes - (load16(memory, packet.l4 + HEAD_AT) >> 12 << 2) & WORD


@inline
def begin_side(memory: Bytes, packet: Row, opener: Row, replier: Row) -> None:
    """Record the number of the SYN that opens a connection."""
    sequence = load64(memory, packet.l4 + NUMBERS_AT) >> 32 & WORD
    start = sequence + 1 & WORD
    following = _end_of(memory, packet, start)
    opener.expected = following << 32 | opener.expected & WORD
    opener.beyond = start << 32 | following
    opener.flags |= KNOWN_OPENER
    replier.flags |= KNOWN_OPENER


@inline
def judged(memory: Bytes, packet: Row, connection: Row, other: Row) -> Any:
    """Return the flags of a side after a segment of it that `take` does not take; its numbers are updated."""
    flags, head = connection.flags, load16(memory, packet.l4 + HEAD_AT)
    numbers = load64(memory, packet.l4 + NUMBERS_AT)
    sequence, ack = numbers >> 32 & WORD, numbers & WORD
    if head & RST:
        found = _reset(connection, other, head, sequence, ack)
    elif head & SYN:
        start = sequence + 1 & WORD
        found = _synchronised(connection, other, head, start, _end_of(memory, packet, start), ack)
    else:
        if head & ACK:
            connection.expected = connection.expected >> 32 << 32 | ack
        end, is_whole = _end_of(memory, packet, sequence), packet.fragment == NOT_A_FRAGMENT
        if head & FIN:
            found = _finished(connection, other, sequence, end, is_whole)
        else:
            found = _passed(connection, other, sequence, end) if is_whole else flags
        if head & ACK:
            found = _acknowledged(connection, other, found)
    if flags & REPLY:
        found |= SEEN_REPLY
    elif flags & SEEN_REPLY and head & (ACK | SYN | RST) == ACK:
        found |= ESTABLISHED
    return found


@inline
def is_without_effect(memory: Bytes, packet: Row, before: int, found: int) -> bool:
    """Whether a SYN, FIN or RST has changed nothing of an established connection: it must not keep it either."""
    head = load16(memory, packet.l4 + HEAD_AT)
    return (found ^ before) & ~NUMBER_FLAGS == 0 and before & ESTABLISHED != 0 and head & (SYN | FIN | RST) != 0


@inline
def _reset(connection: Row, other: Row, head: int, sequence: int, ack: int) -> Any:
    """Return the flags after a RST."""
    flags = connection.flags
    is_refusal = flags & (ESTABLISHED | REPLY) == REPLY and head & ACK != 0 and ack == next_of(other)
    if is_refusal or _is_next(connection, other, sequence):
        return flags | CLOSING | CLOSED
    return flags


@inline
def _synchronised(connection: Row, other: Row, head: int, start: int, end: int, ack: int) -> Any:
    """Return the flags after a SYN whose first number behind it is `start`."""
    flags = connection.flags
    if flags & ESTABLISHED == 0 and head & ACK:
        connection.expected = connection.expected >> 32 << 32 | ack
    if flags & (AHEAD_REPLIER if flags & REPLY else AHEAD_OPENER) == 0:
        connection.beyond = start << 32 | end
    opens_again = head & ACK != 0 and ack == other.beyond & WORD and ack != next_of(other)
    if opens_again and flags & (REPLY | AHEAD_OPENER) == REPLY:
        connection.expected = connection.expected >> 32 << 32 | ack
        other.expected = ack << 32 | other.expected & WORD
        return flags & ~(CLOSING | CLOSED | ESTABLISHED | FIN_OPENER | FIN_REPLIER | KNOWN_REPLIER) | KNOWN_OPENER
    return flags


@inline
def _is_settled(connection: Row, other: Row) -> bool:
    """Whether a side's next number is known, and not farther from what the other side acknowledged than any window.

    Until the handshake is complete it is not: the opener may try again with another number.
    """
    flags = connection.flags
    if flags & ESTABLISHED == 0 or flags & (KNOWN_REPLIER if flags & REPLY else KNOWN_OPENER) == 0:
        return False
    return (next_of(connection) - (other.expected & WORD) + MAX_WINDOW & WORD) < 2 * MAX_WINDOW


@inline
def _is_next(connection: Row, other: Row, sequence: int) -> bool:
    """Whether a number is the next expected one of a side, as far as anything is known of it."""
    following, acked = _expected(connection, other), other.expected & WORD
    if sequence == following:
        return True
    return sequence == acked and (is_after(acked, following) or not _is_settled(connection, other))


@inline
def _moved(connection: Row, flags: int, following: int) -> Any:
    """Make a number the next one of a side; return its flags."""
    connection.expected = following << 32 | connection.expected & WORD
    return flags | (KNOWN_REPLIER if flags & REPLY else KNOWN_OPENER)


@element
def _passed(connection: Row, other: Row, sequence: int, end: int) -> Any:
    """Return the flags after a segment with data or without."""
    flags, following, acked = connection.flags, _expected(connection, other), other.expected & WORD
    is_settled = _is_settled(connection, other)
    if sequence == following:
        return _moved(connection, flags, end)
    if is_settled and not is_after(end, following):
        return flags
    if sequence == acked:
        return _moved(connection, flags, end)
    start, stop = connection.beyond >> 32 & WORD, connection.beyond & WORD
    ahead = AHEAD_REPLIER if flags & REPLY else AHEAD_OPENER
    if flags & ahead:
        if not is_after(end, stop):
            return flags  # before a FIN that waits for its acknowledgement
        flags &= ~ahead
        start, stop = sequence, end
    elif sequence == stop:
        stop = end
    else:
        start, stop = sequence, end
    if acked in (start, stop) and (not is_settled or is_after(stop, following)):
        return _moved(connection, flags, stop)
    if is_after(acked, start):
        start = stop  # an acknowledgement of exactly the start was not seen: the present end is the next to wait for
    connection.beyond = start << 32 | stop
    return flags


@inline
def _finished(connection: Row, other: Row, sequence: int, data_end: int, is_whole: bool) -> Any:
    """Return the flags after a FIN that follows the data of its segment."""
    flags, following, acked = connection.flags, _expected(connection, other), other.expected & WORD
    fin, ahead = (FIN_REPLIER, AHEAD_REPLIER) if flags & REPLY else (FIN_OPENER, AHEAD_OPENER)
    if flags & fin:
        return flags
    end = data_end + 1 & WORD
    is_new = not _is_settled(connection, other) or is_after(end, following)
    is_next = _is_next(connection, other, sequence) or (is_whole and data_end == following)
    is_acknowledged = acked == end and is_whole
    is_known = flags & (KNOWN_REPLIER if flags & REPLY else KNOWN_OPENER) != 0
    if is_new and (is_next or (is_acknowledged and is_known)):
        return _closed(_moved(connection, flags, end) & ~ahead, fin)
    if is_new and is_whole and not is_acknowledged:
        connection.beyond = next_of(connection) << 32 | end
        return flags | ahead
    return flags


@inline
def _acknowledged(connection: Row, other: Row, found: int) -> Any:
    """Return the flags after an acknowledgement by a side: of the first segments of the other one, or of its FIN."""
    fin, ahead, known = FIN_REPLIER, AHEAD_REPLIER, KNOWN_REPLIER
    if found & REPLY:
        fin, ahead, known = FIN_OPENER, AHEAD_OPENER, KNOWN_OPENER
    ack, following = connection.expected & WORD, next_of(other)
    start, end = other.beyond >> 32 & WORD, other.beyond & WORD
    if found & ahead == 0:
        if found & known or ack not in (start, end):
            return found
        other.expected = end << 32 | other.expected & WORD
        return found | known
    # Of a FIN, `start` is the next number when it came: data that has had the FIN's number has moved that beyond it.
    if ack == end and (following == start or is_after(end, following)):
        other.expected = end << 32 | other.expected & WORD
        return _closed(found & ~ahead | known, fin)
    return found & ~ahead if ack == end or is_after(ack, end) else found


@inline
def _closed(flags: int, fin: int) -> Any:
    """Return the flags with a FIN of one side: CLOSED once both sides sent one."""
    flags |= CLOSING | fin
    return flags | CLOSED if flags & FIN_OPENER and flags & FIN_REPLIER else flags
