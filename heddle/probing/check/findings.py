"""The findings of a check: what is wrong with a leaf or the tiers above it, whether that refuses it, and the remedy."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

MAX_NAMED = 4


class Rule(NamedTuple):
    """Whether a leaf with this finding can be steered, and what to do about it."""

    refuses: bool
    remedy: str


_ICMP = (
    "let switches reply to expired packets: on Linux icmp_ratemask without type 11 (6168 & ~2048 = 4120) and "
    "icmp_msgs_per_sec above the rate of probes; on SONiC a CoPP trap for TTL errors; no filter for ICMP type 11"
)


class FindingKind(Enum):
    """What can be found. The values are the words of --json."""

    ADDRESSES_ONLY = "hash_without_ports"
    UNSTEADY = "repeats_disagree"
    QPN = "queue_pair_number_hashed"
    DSCP = "dscp_hashed"
    SILENT = "silent"
    LOOPBACK = "replies_from_loopback"
    ROUTE_BACK = "replies_from_another_port"
    ASTRAY = "unexpected_router"
    MERGED = "cables_not_distinguished"
    UNNAMED = "no_addresses"
    POLARISED = "polarised"
    UNSEEN = "never_used"

    @property
    def rule(self) -> Rule:
        """Return whether it refuses a leaf, and the remedy."""
        return _RULES[self]


_RULES = {
    FindingKind.ADDRESSES_ONLY: Rule(
        True,
        "hash layer-4 ports: on Linux fib_multipath_hash_policy=1; on SONiC L4_SRC_PORT and L4_DST_PORT in "
        "SWITCH_HASH (`heddle export sonic` writes it)",
    ),
    FindingKind.UNSTEADY: Rule(
        True, "turn off packet spraying, flowlets and dynamic load balancing; or check again while no route changes"
    ),
    FindingKind.QPN: Rule(True, "take the queue pair number (RDMA BTH fields) out of the switches' hash"),
    FindingKind.DSCP: Rule(True, "take DSCP out of the switches' hash: probes do not travel in the class of the data"),
    FindingKind.SILENT: Rule(True, _ICMP),
    FindingKind.LOOPBACK: Rule(
        True,
        "let errors name the port by which a packet came in: on Linux icmp_errors_use_inbound_ifaddr=1 and an address "
        "on every port; on SONiC numbered interfaces instead of BGP unnumbered",
    ),
    FindingKind.ROUTE_BACK: Rule(
        True, "let errors name the port by which a packet came in: on Linux icmp_errors_use_inbound_ifaddr=1"
    ),
    FindingKind.ASTRAY: Rule(
        True,
        "compare the fabric file and its port_addresses with the cabling; list loopbacks by --addresses; "
        "a tunnel or MPLS may hide hops from the TTL",
    ),
    FindingKind.MERGED: Rule(
        True, "let errors name the port by which a packet came in (RFC 5837 where the switch has it)"
    ),
    FindingKind.UNNAMED: Rule(
        True, "list the addresses of the switches' ports under port_addresses in the fabric file"
    ),
    FindingKind.POLARISED: Rule(
        False, "give every tier a hash seed or offset of its own (SONiC: ecmp_hash_seed, ecmp_hash_offset)"
    ),
    FindingKind.UNSEEN: Rule(
        False,
        "check that the route has this next hop (link, BGP); else the hash has too few bits: use CRC or an offset",
    ),
}


class Finding(NamedTuple):
    """One finding of a leaf."""

    kind: FindingKind
    text: str

    @property
    def refuses(self) -> bool:
        """Return whether the leaf cannot be steered because of it."""
        return self.kind.rule.refuses


def listed(names: Iterable[str]) -> str:
    """Return the first names of a list, sorted, and how many more there are."""
    found = sorted(names)
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return ", ".join(found[:MAX_NAMED]) + more
