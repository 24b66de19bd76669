"""Decode messages from switches into values; every message has passed `check` first.

`readback` decodes the flow entries and groups that a switch holds.
"""

from struct import Struct
from typing import NamedTuple

from heddle.controller.model.rule import Match, OpaqueMatch
from heddle.controller.southbound.codec import readback
from heddle.controller.southbound.codec.wire import VERSION

_TWO_U16 = Struct("!HH").unpack_from
_FEATURES = Struct("!QIBB2xI").unpack_from
_ROLE = Struct("!I4xQ").unpack_from
_PORT = Struct("!I4x6s2x16sII").unpack_from
_PORT_BYTES = 64
_FLOW_REMOVED = Struct("!QHBBIIHHQQHH").unpack_from
_CONFIG_PORT_DOWN = 1
_STATE_LINK_DOWN = 1
_REASON_DELETE = 1


class Features(NamedTuple):
    """A switch's features reply; `auxiliary_id` 0 is its main connection."""

    datapath_id: int
    tables: int
    auxiliary_id: int
    capabilities: int


class ErrorReply(NamedTuple):
    """An OFPT_ERROR; `data` begins with the message that caused it."""

    type: int
    code: int
    data: bytes

    def __str__(self) -> str:
        kind = _ERROR_TYPES.get(self.type, f"error type {self.type}")
        return f"{kind}/{_ERROR_CODES.get((self.type, self.code), f'code {self.code}')}"


class Port(NamedTuple):
    """A switch port; up unless its configuration or its link is down."""

    number: int
    mac: int
    name: str
    up: bool


class RoleReply(NamedTuple):
    """The role that a switch grants, and the newest generation it has seen."""

    role: int
    generation_id: int


class FlowRemoved(NamedTuple):
    """A flow entry that a switch has removed; `reason` 0 idle, 1 hard timeout, 2 delete, 3 group delete."""

    table: int
    priority: int
    match: Match | OpaqueMatch
    cookie: int
    reason: int
    packets: int
    octets: int


def hello_offers_our_version(message: bytes) -> bool:
    """Return whether a Hello offers OpenFlow 1.3: in its bitmap, else by its version field (section 6.3.1)."""
    at = 8
    while at < len(message):
        kind, length = _TWO_U16(message, at)
        if kind == 1:
            return bool(int.from_bytes(message[at + 4 : at + 8], "big") >> VERSION & 1)
        at += (length + 7) & ~7
    return message[0] >= VERSION


def error(message: bytes) -> ErrorReply:
    """Decode an error."""
    kind, code = _TWO_U16(message, 8)
    return ErrorReply(kind, code, message[12:])


def features(message: bytes) -> Features:
    """Read a features reply."""
    datapath_id, _, tables, auxiliary_id, capabilities = _FEATURES(message, 8)
    return Features(datapath_id, tables, auxiliary_id, capabilities)


def role(message: bytes) -> RoleReply:
    """Read a role reply."""
    return RoleReply(*_ROLE(message, 8))


def _port(message: bytes, at: int) -> Port:
    number, mac, name, config, state = _PORT(message, at)
    up = not (config & _CONFIG_PORT_DOWN or state & _STATE_LINK_DOWN)
    return Port(number, int.from_bytes(mac, "big"), name.split(b"\0", 1)[0].decode("ascii", "replace"), up)


def ports(part: bytes) -> list[Port]:
    """Read one part of a port description."""
    return [_port(part, at) for at in range(16, len(part), _PORT_BYTES)]


def port_status(message: bytes) -> Port:
    """Read a port status; a deleted port is down."""
    port = _port(message, 16)
    return port._replace(up=False) if message[8] == _REASON_DELETE else port


def flow_removed(message: bytes) -> FlowRemoved:
    """Read a flow removal."""
    cookie, priority, reason, table, _, _, _, _, packets, octets, _, length = _FLOW_REMOVED(message, 8)
    match = readback.match_of(message[52 : 48 + length])
    return FlowRemoved(table, priority, match, cookie, reason, packets, octets)


_ERROR_TYPES = {
    0: "HELLO_FAILED", 1: "BAD_REQUEST", 2: "BAD_ACTION", 3: "BAD_INSTRUCTION", 4: "BAD_MATCH",
    5: "FLOW_MOD_FAILED", 6: "GROUP_MOD_FAILED", 7: "PORT_MOD_FAILED", 8: "TABLE_MOD_FAILED", 9: "QUEUE_OP_FAILED",
    10: "SWITCH_CONFIG_FAILED", 11: "ROLE_REQUEST_FAILED", 12: "METER_MOD_FAILED", 13: "TABLE_FEATURES_FAILED",
}  # fmt: skip

ROLE_STALE = (11, 0)
_ERROR_CODES = {
    (0, 0): "INCOMPATIBLE", (0, 1): "EPERM",
    (1, 0): "BAD_VERSION", (1, 1): "BAD_TYPE", (1, 2): "BAD_MULTIPART", (1, 5): "EPERM", (1, 6): "BAD_LEN",
    (1, 9): "BAD_TABLE_ID", (1, 10): "IS_SLAVE",
    (2, 0): "BAD_TYPE", (2, 1): "BAD_LEN", (2, 4): "BAD_OUT_PORT", (2, 5): "BAD_ARGUMENT", (2, 7): "TOO_MANY",
    (2, 9): "BAD_OUT_GROUP",
    (3, 0): "UNKNOWN_INST", (3, 1): "UNSUP_INST", (3, 2): "BAD_TABLE_ID", (3, 7): "BAD_LEN",
    (4, 0): "BAD_TYPE", (4, 1): "BAD_LEN", (4, 6): "BAD_FIELD", (4, 7): "BAD_VALUE", (4, 8): "BAD_MASK",
    (4, 9): "BAD_PREREQ", (4, 10): "DUP_FIELD",
    (5, 0): "UNKNOWN", (5, 1): "TABLE_FULL", (5, 2): "BAD_TABLE_ID", (5, 3): "OVERLAP", (5, 6): "BAD_COMMAND",
    (6, 0): "GROUP_EXISTS", (6, 1): "INVALID_GROUP", (6, 3): "OUT_OF_GROUPS", (6, 4): "OUT_OF_BUCKETS",
    (6, 6): "WATCH_UNSUPPORTED", (6, 8): "UNKNOWN_GROUP", (6, 12): "BAD_BUCKET", (6, 13): "BAD_WATCH",
    (11, 0): "STALE", (11, 1): "UNSUP", (11, 2): "BAD_ROLE",
}  # fmt: skip
