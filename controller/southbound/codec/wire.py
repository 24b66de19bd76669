"""Define the OpenFlow 1.3 constants and fixed requests in use (ONF TS-006).

Every message begins with the same eight bytes:

     0      1      2             4                           8
     +------+------+-------------+---------------------------+
     | ver  | type |   length    |            xid            |
     +------+------+-------------+---------------------------+
"""

from enum import IntEnum
from struct import Struct

VERSION = 4
HEADER = Struct("!BBHI")
HEADER_BYTES = HEADER.size
MAX_XID = 0x7FFF_FFFF
NO_BUFFER = 0xFFFF_FFFF
PORT_MAX = 0xFFFF_FF00
"""Numbers from here on are reserved ports (CONTROLLER, LOCAL …) without a cable."""
ANY = 0xFFFF_FFFF
ALL_TABLES = 0xFF
WHOLE_PACKET = 0xFFFF


class MessageType(IntEnum):
    """Message types, section 7.1."""

    HELLO = 0
    ERROR = 1
    ECHO_REQUEST = 2
    ECHO_REPLY = 3
    EXPERIMENTER = 4
    FEATURES_REQUEST = 5
    FEATURES_REPLY = 6
    GET_CONFIG_REQUEST = 7
    GET_CONFIG_REPLY = 8
    SET_CONFIG = 9
    PACKET_IN = 10
    FLOW_REMOVED = 11
    PORT_STATUS = 12
    PACKET_OUT = 13
    FLOW_MOD = 14
    GROUP_MOD = 15
    PORT_MOD = 16
    TABLE_MOD = 17
    MULTIPART_REQUEST = 18
    MULTIPART_REPLY = 19
    BARRIER_REQUEST = 20
    BARRIER_REPLY = 21
    QUEUE_GET_CONFIG_REQUEST = 22
    QUEUE_GET_CONFIG_REPLY = 23
    ROLE_REQUEST = 24
    ROLE_REPLY = 25
    GET_ASYNC_REQUEST = 26
    GET_ASYNC_REPLY = 27
    SET_ASYNC = 28
    METER_MOD = 29


class MultipartType(IntEnum):
    """Bodies of multipart messages that are checked, section 7.3.5."""

    DESCRIPTION = 0
    FLOW = 1
    AGGREGATE = 2
    TABLE = 3
    PORT_STATS = 4
    QUEUE = 5
    GROUP = 6
    GROUP_DESC = 7
    GROUP_FEATURES = 8
    METER = 9
    METER_CONFIG = 10
    METER_FEATURES = 11
    TABLE_FEATURES = 12
    PORT_DESC = 13


class ControllerRole(IntEnum):
    """Controller roles, section 7.3.9."""

    NOCHANGE = 0
    EQUAL = 1
    MASTER = 2
    SLAVE = 3


def message(kind: MessageType, body: bytes = b"", xid: int = 0) -> bytes:
    """Put the header before a body."""
    return HEADER.pack(VERSION, kind, HEADER_BYTES + len(body), xid) + body


def with_xid(whole: bytes, xid: int) -> bytes:
    """Return the same message under another transaction id."""
    return whole[:4] + xid.to_bytes(4, "big") + whole[8:]


def type_name(kind: int) -> str:
    """Return the name of a message type, or `type N` where it is unknown."""
    return MessageType(kind).name if kind in MessageType._value2member_map_ else f"type {kind}"


def role_request(role: ControllerRole, generation_id: int) -> bytes:
    """Build a role request; the switch then refuses roles to controllers with a lower `generation_id`."""
    return message(MessageType.ROLE_REQUEST, _ROLE.pack(role, generation_id & 0xFFFF_FFFF_FFFF_FFFF))


def multipart_request(kind: MultipartType, body: bytes = b"") -> bytes:
    """Build a multipart request."""
    return message(MessageType.MULTIPART_REQUEST, _MULTIPART.pack(kind, 0) + body)


_ROLE = Struct("!I4xQ")
_MULTIPART = Struct("!HH4x")

# Section 7.5.1: element type 1 is a bitmap of versions, bit n = wire version n.
HELLO = message(MessageType.HELLO, Struct("!HHI").pack(1, 8, 1 << VERSION))
FEATURES_REQUEST = message(MessageType.FEATURES_REQUEST)
BARRIER_REQUEST = message(MessageType.BARRIER_REQUEST)
ECHO_REQUEST = message(MessageType.ECHO_REQUEST)
SET_CONFIG = message(MessageType.SET_CONFIG, Struct("!HH").pack(0, WHOLE_PACKET))
# Packet-ins by output actions only, all port status and flow-removed messages; as a slave, port status only.
SET_ASYNC = message(MessageType.SET_ASYNC, Struct("!6I").pack(0b010, 0, 0b111, 0b111, 0b1111, 0))
PORT_DESC_REQUEST = multipart_request(MultipartType.PORT_DESC)
GROUP_DESC_REQUEST = multipart_request(MultipartType.GROUP_DESC)
# table (all), pad, out_port, out_group, pad, cookie, cookie_mask, match of length 4 and its padding
FLOW_REQUEST = multipart_request(MultipartType.FLOW, Struct("!B3xII4xQQHH4x").pack(ALL_TABLES, ANY, ANY, 0, 0, 1, 4))
INCOMPATIBLE = message(MessageType.ERROR, Struct("!HH").pack(0, 0) + b"OpenFlow 1.3 only")
