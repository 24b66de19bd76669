"""Define switch rules as plain values; the southbound encodes them as OpenFlow messages.

The cookie of a rule holds its origin: kind, job number and generation (`Cookie`).
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
ETH_PFC = 0x8808
ETH_LLDP = 0x88CC
IP_UDP = 17
ROCE_PORT = 4791
PROBE_PORT = 4796
"""Where agents of the ping mesh listen (`heddle.probing.datagram`): NICs keep packets to ROCE_PORT for themselves."""
CONTROLLER_PORT = 0xFFFF_FFFD
"""The reserved port that leads to the controller (OpenFlow 1.3, section 4.5)."""


class Masked(NamedTuple):
    """A value and the mask of its significant bits."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The fields that a packet must have; None matches anything. The caller sets prerequisites (eth_type, ip_proto).

    Addresses are masked 32-bit integers; a full mask is exact. Values are canonical: no bit set outside the mask.
    """

    in_port: int | None = None
    eth_type: int | None = None
    ip_proto: int | None = None
    ipv4_src: Masked | None = None
    ipv4_dst: Masked | None = None
    udp_src: Masked | None = None
    udp_dst: int | None = None
    arp_tpa: Masked | None = None


class OpaqueMatch(NamedTuple):
    """A match read from a switch that `Match` cannot express: its OXM bytes, which identify the rule."""

    oxm: bytes


class Output(NamedTuple):
    """Output to a port."""

    port: int


class ToGroup(NamedTuple):
    """Output to a group."""

    group_id: int


class GotoTable(NamedTuple):
    """Continue in a later table."""

    table: int


class OpaqueAction(NamedTuple):
    """Instructions read from a switch that the other actions cannot express, as bytes."""

    instructions: bytes


Action = Output | ToGroup | GotoTable | OpaqueAction


class CookieKind(IntEnum):
    """The purpose of a rule."""

    PFC_DROP = 0x10
    LLDP = 0x11
    LOCAL = 0x20
    ROUTE = 0x21
    ARP = 0x30
    CLASSIFY = 0x40
    PIN = 0x51
    OVERRIDE = 0x61
    STEER = 0x70
    STATIC = 0x80
    MISS = 0xF0


class Cookie(NamedTuple):
    """64 bits: magic (8) | kind (8) | job number (24) | generation (24); job number 0 is the underlay."""

    kind: CookieKind
    job_number: int = 0
    generation: int = 0

    def pack(self) -> int:
        """Return the cookie as a 64-bit integer."""
        job, generation = self.job_number & 0xFFFFFF, self.generation & 0xFFFFFF
        return COOKIE_MAGIC << 56 | self.kind << 48 | job << 24 | generation

    @staticmethod
    def unpack(cookie: int) -> "Cookie | None":
        """Decode a cookie; None where this controller did not create it."""
        kind = cookie >> 48 & 0xFF
        if cookie >> 56 != COOKIE_MAGIC or kind not in CookieKind._value2member_map_:
            return None
        return Cookie(CookieKind(kind), cookie >> 24 & 0xFFFFFF, cookie & 0xFFFFFF)


COOKIE_MAGIC = 0x48


RuleKey = tuple[int, int, Match | OpaqueMatch]
"""The fields that identify a flow entry in OpenFlow: table, priority, match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRule:
    """One flow entry of a switch; no action means drop."""

    table: int
    priority: int
    match: Match | OpaqueMatch
    actions: tuple[Action, ...] = ()
    cookie: int = 0

    @property
    def key(self) -> RuleKey:
        """Return the fields that identify a flow entry in OpenFlow: table, priority, match."""
        return self.table, self.priority, self.match


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """A fast-failover group: the first port that is up carries the packet; `ports` is the order of preference."""

    group_id: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRules:
    """The installed or wanted rules of one switch."""

    rules: tuple[FlowRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()


class ChangeOp(IntEnum):
    """The operation on a rule or group; RULE_ADD replaces an entry with the same key."""

    GROUP_ADD = 1
    GROUP_MODIFY = 2
    RULE_ADD = 3
    RULE_DELETE = 4
    GROUP_DELETE = 5


class Change(NamedTuple):
    """One message to one switch."""

    op: ChangeOp
    item: FlowRule | GroupRule


class Step(NamedTuple):
    """Changes by switch that may be applied in any order; the next step waits for the barriers of all switches."""

    changes: dict[str, tuple[Change, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A flow whose path its source port does not select; `links` are its directed links from source to destination.

    `udp_source_port` None pins every flow from source to destination address.
    """

    src_ip: int
    dst_ip: int
    udp_source_port: int | None
    links: tuple[str, ...]
    job_number: int
    generation: int
