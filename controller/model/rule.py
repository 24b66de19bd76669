"""Switch rules as values of our own; bytes are made of them at the last moment, in southbound.

A rule says why it is there: its cookie carries a kind, the job's number and the generation (`Cookie`).
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
ETH_PFC = 0x8808
IP_UDP = 17
ROCE_PORT = 4791


class Masked(NamedTuple):
    """A value and the bits of it that count."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What a packet must be; None matches anything. Prerequisites (eth_type, ip_proto) are set by whoever makes it.

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
    """A match found on a switch that is none of ours: its OXM bytes, kept to name the rule by."""

    oxm: bytes


class Output(NamedTuple):
    """Send out of a port."""

    port: int


class ToGroup(NamedTuple):
    """Let a group choose the port."""

    group_id: int


class GotoTable(NamedTuple):
    """Go on in a later table."""

    table: int


class OpaqueAction(NamedTuple):
    """Instructions found on a switch that are none of ours, as bytes."""

    instructions: bytes


Action = Output | ToGroup | GotoTable | OpaqueAction


class CookieKind(IntEnum):
    """What a rule is for."""

    PFC_DROP = 0x10
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
        """Return the cookie as OpenFlow carries it."""
        job, generation = self.job_number & 0xFFFFFF, self.generation & 0xFFFFFF
        return COOKIE_MAGIC << 56 | self.kind << 48 | job << 24 | generation

    @staticmethod
    def unpack(cookie: int) -> "Cookie | None":
        """Read a cookie back; None where it is not one of ours."""
        kind = cookie >> 48 & 0xFF
        if cookie >> 56 != COOKIE_MAGIC or kind not in CookieKind._value2member_map_:
            return None
        return Cookie(CookieKind(kind), cookie >> 24 & 0xFFFFFF, cookie & 0xFFFFFF)


COOKIE_MAGIC = 0x48


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRule:
    """One flow entry of a switch. No action at all drops (and counts)."""

    table: int
    priority: int
    match: Match | OpaqueMatch
    actions: tuple[Action, ...] = ()
    cookie: int = 0

    @property
    def key(self) -> "tuple[int, int, Match | OpaqueMatch]":
        """Return what OpenFlow identifies the entry by."""
        return self.table, self.priority, self.match


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """A fast-failover group: the first port that is up carries the packet; `ports` is the order of preference."""

    group_id: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRules:
    """All that one switch holds, or should hold."""

    rules: tuple[FlowRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()


class ChangeOp(IntEnum):
    """What to do with a rule or group; RULE_ADD replaces an entry with the same key."""

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
    """Changes that may reach all their switches at the same time; the next step waits for every barrier."""

    changes: dict[str, tuple[Change, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A flow whose port is what it is: `hops` are the cables it takes, (cable id, upwards?) from source to destination.

    `udp_source_port` None pins every flow from source to destination address.
    """

    src_ip: int
    dst_ip: int
    udp_source_port: int | None
    links: tuple[str, ...]
    job_number: int
    generation: int
