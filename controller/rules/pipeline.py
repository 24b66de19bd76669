"""Define the OpenFlow tables as data: purpose, kinds of entry, and next tables.

Every compiled rule fits an entry of its table (`fits`), and docs/pipeline.md is generated from this module
(`python -m heddle.controller.rules.pipeline > docs/pipeline.md`).

The layout follows two rules. First, destinations below a switch are matched before any packet goes up, and a packet
from above never goes up again: a guard at the start of every upward table drops (and counts) it, so that no path has
a valley and no cyclic buffer dependency can arise. Second, exceptions are in tables of their own, before the rules that
they override.
"""

from enum import IntEnum
from typing import NamedTuple

from heddle.controller.model.rule import Action, CookieKind, FlowRule, GotoTable, Match, Output, ToGroup


class Table(IntEnum):
    """The tables' numbers."""

    CLASSIFY = 0
    PINS = 1
    OVERRIDES = 2
    STEERING = 3
    OTHER_IPV4 = 4
    ARP = 5
    SPREAD_OVERRIDES = 6
    SPREAD = 7


PFC_PRIORITY = 65535
LLDP_PRIORITY = 60000
LOCAL_PRIORITY = 40000
FROM_ABOVE_PRIORITY = 35000
ROCE_PRIORITY = 30000
IPV4_PRIORITY = 20000
ARP_PRIORITY = 10000
GUARD_PRIORITY = 5000
PIN_PRIORITY = 1000
PIN_PAIR_PRIORITY = 900
OVERRIDE_PRIORITY = 200
RESPLIT_PRIORITY = 200
DOWN_PRIORITY = 100
STEER_PRIORITY = 100
SPREAD_PRIORITY = 100
MISS_PRIORITY = 0
LONGEST_PREFIX = 32


def prefix_priority(base: int, length: int) -> int:
    """Return the priority for longest-prefix matching; rules that match port bits as well use one more."""
    return base + 2 * length


class Entry(NamedTuple):
    """A kind of flow entry: its priorities, the fields it may match, its actions, its cookie kind and its purpose."""

    low: int
    high: int
    fields: frozenset[str]
    actions: frozenset[str]
    kind: CookieKind
    meaning: str


class TableSpec(NamedTuple):
    """One table: number, name, purpose, kinds of entry and possible next tables."""

    table: Table
    name: str
    purpose: str
    matches: tuple[Entry, ...]
    next: tuple[Table, ...]


def _entry(low: int, high: int, fields: str, actions: str, kind: CookieKind, meaning: str) -> Entry:
    return Entry(low, high, frozenset(fields.split()), frozenset(actions.split()), kind, meaning)


def _prefixes(base: int, fields: str, actions: str, kind: CookieKind, meaning: str) -> Entry:
    return _entry(base, prefix_priority(base, LONGEST_PREFIX) + 1, fields, actions, kind, meaning)


_DROP_MISS = _entry(MISS_PRIORITY, MISS_PRIORITY, "", "drop", CookieKind.MISS, "no match: dropped, and counted")
_GO_ON = _entry(MISS_PRIORITY, MISS_PRIORITY, "", "goto", CookieKind.CLASSIFY, "no match: continue")
_GUARD = _entry(
    GUARD_PRIORITY, GUARD_PRIORITY, "in_port", "drop", CookieKind.MISS, "from above and not below: no valley"
)
_UP = "output group"
_PORT_BITS = "eth_type ip_proto udp_src"

PIPELINE: tuple[TableSpec, ...] = (
    TableSpec(
        Table.CLASSIFY,
        "classify",
        "Classify packets; a leaf delivers to its own NICs here.",
        (
            _entry(
                PFC_PRIORITY, PFC_PRIORITY, "eth_type", "drop", CookieKind.PFC_DROP, "a pause frame ends at its link"
            ),
            _entry(LLDP_PRIORITY, LLDP_PRIORITY, "eth_type", "output", CookieKind.LLDP, "LLDP goes to the controller"),
            _entry(
                LOCAL_PRIORITY,
                LOCAL_PRIORITY,
                "eth_type ipv4_dst",
                "output drop",
                CookieKind.LOCAL,
                "IPv4 to a NIC here; dropped where it is in quarantine",
            ),
            _entry(
                LOCAL_PRIORITY,
                LOCAL_PRIORITY,
                "eth_type arp_tpa",
                "output drop",
                CookieKind.ARP,
                "ARP for a NIC here; likewise",
            ),
            _GUARD._replace(low=FROM_ABOVE_PRIORITY, high=FROM_ABOVE_PRIORITY, meaning="from above, for no NIC here"),
            _entry(
                ROCE_PRIORITY,
                ROCE_PRIORITY,
                "eth_type ip_proto udp_dst",
                "goto",
                CookieKind.CLASSIFY,
                "RoCEv2, UDP port 4791; probes of the ping mesh, port 4796",
            ),
            _entry(IPV4_PRIORITY, IPV4_PRIORITY, "eth_type", "goto", CookieKind.CLASSIFY, "any other IPv4"),
            _entry(ARP_PRIORITY, ARP_PRIORITY, "eth_type", "goto", CookieKind.CLASSIFY, "ARP"),
            _DROP_MISS,
        ),
        (Table.PINS, Table.OTHER_IPV4, Table.ARP),
    ),
    TableSpec(
        Table.PINS,
        "pins",
        "RoCE flows whose port cannot be chosen; then destinations below.",
        (
            _entry(
                PIN_PRIORITY,
                PIN_PRIORITY,
                "eth_type ip_proto ipv4_src ipv4_dst udp_src",
                "group",
                CookieKind.PIN,
                "one flow by addresses and source port",
            ),
            _entry(
                PIN_PAIR_PRIORITY,
                PIN_PAIR_PRIORITY,
                "eth_type ipv4_src ipv4_dst",
                "group",
                CookieKind.PIN,
                "every flow of a pair of addresses",
            ),
            _prefixes(
                DOWN_PRIORITY,
                "eth_type ip_proto ipv4_dst udp_src",
                "output group",
                CookieKind.ROUTE,
                "a destination below; parallel cables by port bits",
            ),
            _prefixes(
                DOWN_PRIORITY,
                "eth_type ipv4_dst",
                "goto",
                CookieKind.CLASSIFY,
                "not below, inside a prefix that is: continue",
            ),
            _GO_ON,
            _DROP_MISS._replace(meaning="no such destination (a switch with nothing above): dropped, and counted"),
        ),
        (Table.OVERRIDES,),
    ),
    TableSpec(
        Table.OVERRIDES,
        "overrides",
        "RoCE going up to destinations that some of the choices do not reach.",
        (
            _GUARD,
            _prefixes(
                OVERRIDE_PRIORITY,
                "eth_type ip_proto ipv4_dst udp_src",
                _UP,
                CookieKind.OVERRIDE,
                "the blocks of a choice that does not lead there, split over those that do",
            ),
            _prefixes(OVERRIDE_PRIORITY, "eth_type ipv4_dst", "goto", CookieKind.OVERRIDE, "no exception: continue"),
            _GO_ON,
        ),
        (Table.STEERING,),
    ),
    TableSpec(
        Table.STEERING,
        "steering",
        "RoCE going up: the source port's bits select the cable.",
        (
            _entry(
                RESPLIT_PRIORITY,
                RESPLIT_PRIORITY,
                _PORT_BITS,
                _UP,
                CookieKind.OVERRIDE,
                "the blocks of a choice without a path, split over the others",
            ),
            _entry(
                STEER_PRIORITY,
                STEER_PRIORITY,
                _PORT_BITS,
                _UP,
                CookieKind.STEER,
                "a block of source ports to its choice",
            ),
            _DROP_MISS,
        ),
        (),
    ),
    TableSpec(
        Table.OTHER_IPV4,
        "other-ipv4",
        "IPv4 by destination; on a switch without choices, RoCE too.",
        (
            _prefixes(DOWN_PRIORITY, "eth_type ipv4_dst", "output group", CookieKind.ROUTE, "a destination below"),
            _prefixes(DOWN_PRIORITY, "eth_type ipv4_dst", "goto", CookieKind.CLASSIFY, "not below: continue"),
            _GO_ON,
            _DROP_MISS,
        ),
        (Table.SPREAD_OVERRIDES,),
    ),
    TableSpec(
        Table.ARP,
        "arp",
        "ARP by the requested address.",
        (
            _prefixes(DOWN_PRIORITY, "eth_type arp_tpa", "output group", CookieKind.ARP, "an address below"),
            _prefixes(DOWN_PRIORITY, "eth_type arp_tpa", "goto", CookieKind.CLASSIFY, "not below: continue"),
            _GO_ON,
            _DROP_MISS,
        ),
        (Table.SPREAD_OVERRIDES,),
    ),
    TableSpec(
        Table.SPREAD_OVERRIDES,
        "spread-overrides",
        "Other traffic going up to destinations that some of the choices do not reach.",
        (
            _GUARD,
            _prefixes(
                OVERRIDE_PRIORITY,
                "eth_type ipv4_dst arp_tpa",
                _UP,
                CookieKind.OVERRIDE,
                "one of the choices that lead there",
            ),
            _prefixes(
                OVERRIDE_PRIORITY,
                "eth_type ipv4_dst arp_tpa",
                "goto",
                CookieKind.OVERRIDE,
                "no exception: continue",
            ),
            _GO_ON,
        ),
        (Table.SPREAD,),
    ),
    TableSpec(
        Table.SPREAD,
        "spread",
        "Other traffic going up: the destination's low bits select the cable, so that a flow keeps its path.",
        (
            _entry(
                SPREAD_PRIORITY,
                SPREAD_PRIORITY,
                "eth_type ipv4_dst arp_tpa",
                _UP,
                CookieKind.STATIC,
                "low bits of the address to a choice",
            ),
            _DROP_MISS,
        ),
        (),
    ),
)


def fields_of(match: Match) -> frozenset[str]:
    """Return the names of the fields of a match."""
    return frozenset(name for name in Match.__slots__ if getattr(match, name) is not None)


def fits(rule: FlowRule) -> bool:
    """Return whether a rule fits an entry of its table."""
    if not isinstance(rule.match, Match) or rule.table >= len(PIPELINE):
        return False
    spec, fields = PIPELINE[rule.table], fields_of(rule.match)
    return any(_is_entry(rule, fields, entry, spec.next) for entry in spec.matches)


def _is_entry(rule: FlowRule, fields: frozenset[str], entry: Entry, onward: tuple[Table, ...]) -> bool:
    if not (
        entry.low <= rule.priority <= entry.high and fields <= entry.fields and rule.cookie >> 48 & 0xFF == entry.kind
    ):
        return False
    if not rule.actions:
        return "drop" in entry.actions
    return all(_may(action, entry, onward) for action in rule.actions)


def _may(action: Action, entry: Entry, onward: tuple[Table, ...]) -> bool:
    match action:
        case GotoTable(table):
            return "goto" in entry.actions and table in onward
        case Output():
            return "output" in entry.actions
        case ToGroup():
            return "group" in entry.actions
        case _:
            return False


def markdown() -> str:
    """Return the pipeline as a page of documentation."""
    lines = [
        "# The switches' pipeline",
        "",
        "Generated by `python -m heddle.controller.rules.pipeline`; a test compares it with the code. A prefix has the",
        "priority base + 2 x prefix length, one more where port bits are matched too: the longest prefix wins.",
        "",
    ]
    for spec in PIPELINE:
        onward = ", ".join(f"{table.value} {PIPELINE[table].name}" for table in spec.next) or "none"
        lines += [f"## Table {spec.table.value}: {spec.name}", "", spec.purpose, "", f"Next tables: {onward}.", ""]
        lines += ["| priority | may match | action | cookie | meaning |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(entry) for entry in spec.matches] + [""]
    return "\n".join(lines)


def _row(entry: Entry) -> str:
    priority = str(entry.low) if entry.low == entry.high else f"{entry.low} to {entry.high}"
    fields = ", ".join(name for name in Match.__slots__ if name in entry.fields) or "anything"
    kind = f"{entry.kind.name} 0x{entry.kind.value:02x}"
    return f"| {priority} | {fields} | {' or '.join(sorted(entry.actions))} | {kind} | {entry.meaning} |"


if __name__ == "__main__":
    print(markdown(), end="")
