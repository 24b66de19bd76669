"""Encode packet-outs and the limit of packet-ins, and decode packet-ins, which have passed `check`.

None of these messages is awaited: an error for one carries UNAWAITED_XID.
"""

from struct import Struct
from typing import NamedTuple

from heddle.controller.southbound.codec.check import OXM_BASIC
from heddle.controller.southbound.codec.wire import MAX_XID, NO_BUFFER, MessageType, message

UNAWAITED_XID = MAX_XID + 1
"""Requests have xids up to MAX_XID."""
_FROM_CONTROLLER = 0xFFFF_FFFD
_CONTROLLER_METER = 0xFFFF_FFFE
"""The meter of all that a switch sends to its controller (section 7.3.4.5)."""
# buffer, in_port, length of the actions; then an output action: type, length, port, max_len
_PACKET_OUT = Struct("!IIH6xHHIH6x")
_METER_MOD = Struct("!HHI")
_DROP_BAND = Struct("!HHII4x")
_ADD, _DELETE = 0, 2
_PACKETS_PER_S, _BURST = 0b0010, 0b0100
_DROP, _DROP_BYTES = 1, 16
_U16 = Struct("!H").unpack_from
_U32 = Struct("!I").unpack_from
_OXM = Struct("!HBB").unpack_from
_MATCH_AT, _OXMS_AT, _IN_PORT = 24, 28, 0


class PacketIn(NamedTuple):
    """A packet that a switch sends to the controller, and the port that it came in; 0 where it is not given."""

    port: int
    data: bytes


def packet_out(port: int, data: bytes) -> bytes:
    """Build the message that sends a packet out of a port."""
    head = _PACKET_OUT.pack(NO_BUFFER, _FROM_CONTROLLER, 16, 0, 16, port, 0)
    return message(MessageType.PACKET_OUT, head + data, UNAWAITED_XID)


def packet_in(whole: bytes) -> PacketIn:
    """Decode a packet-in."""
    length: int = _U16(whole, _MATCH_AT + 2)[0]
    at, end, port = _OXMS_AT, _MATCH_AT + length, 0
    while at < end:
        oxm_class, field, width = _OXM(whole, at)
        if oxm_class == OXM_BASIC and field >> 1 == _IN_PORT and width == 4:
            port = _U32(whole, at + 4)[0]
            break
        at += 4 + width
    return PacketIn(port, whole[_MATCH_AT + (length + 7 & ~7) + 2 :])


def limit_packet_ins(packets_per_s: int, burst: int) -> bytes:
    """Build the messages that make a switch drop what it would send to the controller beyond a rate.

    The meter is deleted first, which is no error where there is none: it may be of an earlier session.
    """
    delete = _METER_MOD.pack(_DELETE, 0, _CONTROLLER_METER)
    add = _METER_MOD.pack(_ADD, _PACKETS_PER_S | _BURST, _CONTROLLER_METER)
    add += _DROP_BAND.pack(_DROP, _DROP_BYTES, packets_per_s, burst)
    return b"".join(message(MessageType.METER_MOD, body, UNAWAITED_XID) for body in (delete, add))
