"""The gateway's tables: what a generation holds, which traffic fills itself, and how rows are found.

`Tables` is made from a configuration by `compile`, written once, read by the data process, and replaced as a whole:
a new generation is a new set of arrays. `State` belongs to the data process alone and outlives generations; so it is
keyed by VNI, never by a row of a generation's tables.

Hash tables are `int64[slots, words + 1]`: the words of a key, then the row; a slot whose row is EMPTY ends a search.
Slots are a power of two, at most half of them in use; search starts at the hash of the words (`engine.hashing`).
"""

from typing import NamedTuple

import numpy as np

from dataplane.jit import Bytes, Grid, Ints, Rows

EMPTY = -1
OUTSIDE = 0
"""In place of a VNI in keys: the external side."""


def _row(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


VPC = _row(
    "vni",
    "gateway_mac",  # what the VPC's gateways answer with
    "lengths_v4",  # bit n: there are IPv4 routes of length n
    "lengths_v6_low",  # bit n: IPv6 routes of length n, n < 64
    "lengths_v6_high",  # bit n - 64, n < 128; routes of length 128 there may always be
    "rules_in",  # first row and number of rows in `rules`
    "rules_in_count",
    "rules_out",
    "rules_out_count",
    "nat_source",  # IPv4 address of the NAT gateway, 0 for none
    "nat_first",  # ports that may be given away
    "nat_last",
    "border",  # rows of `rules` that the border firewall goes through, for what the VPC opens
    "border_count",
    "realm",
    "nat_shared",  # 1 where the NAT address is another VPC's as well
)
NEXT_HOP = _row(
    "kind",
    "port",  # out of which
    "mtu_bytes",  # of the IP packet that the VPC sees
    "target_mac",  # of the inner frame to an endpoint; of the frame itself elsewhere; 0 while not known
    "source_mac",
    "template",  # first byte of the outer header in `templates`, and its bytes; 0 bytes for none
    "template_bytes",
    "resolved",  # until here what nearly all packets need: a cache line
    "vni",  # that an encapsulated packet carries; of the peer, where routing goes on there
    "vpc",  # row of that VPC in this generation
    "vlan",  # of the customer port, 0 for none
    "address",  # IPv4 address whose MAC is wanted on the port while `resolved` is 0
    "realm",  # of the network behind a provider's hop
    "address_hi",  # 0; else `address` is the low word of an IPv6 address and this the high one
    "spare_0",
    "spare_1",
)
RULE = _row("allow", "protocol", "remote_hi", "remote_lo", "mask_hi", "mask_lo", "port_min", "port_max", "family")
"""Addresses as in a packet's row: IPv4 under ::ffff:0:0/96. A `protocol` of 0 is any; ICMP is also ICMPv6. `family`,
4 or 6, is that of the remote prefix: without it ::/0 would speak of IPv4 as well."""

DISCARD, LOCAL, TUNNEL, EXTERNAL, CUSTOMER, PROVIDER, PEER = range(7)
"""Kinds of next hop: nowhere; an address of the gateway itself; an endpoint behind a VTEP; the internet, by NAT or
floating IP; a customer's router; the provider's networks, past the border firewall; another VPC, where routing
goes on."""


class Tables(NamedTuple):
    """One generation, as compiled from a configuration."""

    generation: Ints
    """Shape (1,)."""
    own: Ints
    """The gateway itself, by the OWN_ names below."""
    vnis: Grid
    """(vni) -> row of `vpcs`."""
    vpcs: Rows
    """VPC rows."""
    vteps: Grid
    """(vni, IPv4 address) -> 0: VTEPs with an endpoint of that VPC; partners' VTEPs are under every VNI."""
    endpoints: Grid
    """(vni, address hi, lo) -> row of `next_hops`, kind TUNNEL."""
    routes: Grid
    """(vni << 8 | prefix length as IPv6, prefix hi, lo) -> row of `next_hops`. Endpoints are looked up before."""
    next_hops: Rows
    """NEXT_HOP rows."""
    templates: Bytes
    """Outer headers, ready but for lengths, checksum, source port and ECN."""
    endpoint_vteps: Ints
    """By row of `next_hops`: the IPv4 address of the endpoint's VTEP, 0 elsewhere."""
    rules: Rows
    """RULE rows."""
    floating_in: Grid
    """(public IPv4 address) -> row of `floating`."""
    floating_out: Grid
    """(vni, IPv4 address of the endpoint) -> row of `floating`."""
    floating: Grid
    """Rows: public address, endpoint's address, VNI, row of `vpcs`."""
    nat_in: Grid
    """(public IPv4 address) -> row of `vpcs`: NAT gateways' addresses; more VPCs may share one (the mapping tells)."""
    vlans: Grid
    """(port << 12 | VLAN) -> row of `customers`."""
    customers: Grid
    """Rows: VNI, row of `vpcs`, prefix hi, lo, mask hi, lo: sources that may come from there."""
    ports: Grid
    """By port: side (the number in `SIDES`), MAC, IPv4 address, MTU in bytes."""


SIDES = ("underlay", "external", "customer", "provider")
PORT_SIDE, PORT_MAC, PORT_ADDRESS, PORT_MTU = range(4)
FLOATING_PUBLIC, FLOATING_ENDPOINT, FLOATING_VNI, FLOATING_VPC = range(4)
CUSTOMER_VNI, CUSTOMER_VPC, CUSTOMER_PREFIX_HI, CUSTOMER_PREFIX_LO, CUSTOMER_MASK_HI, CUSTOMER_MASK_LO = range(6)
OWN_VTEP, OWN_ACTIVE, OWN_UDP_TIMEOUT_S, OWN_UDP_UNANSWERED_S, OWN_TCP_TIMEOUT_S, OWN_TCP_TRANSITORY_S = range(6)
OWN_ICMP_TIMEOUT_S, OWN_OTHER_TIMEOUT_S, OWN_FRAGMENT_TIMEOUT_S, OWN_PER_ENDPOINT = range(6, 10)
OWN_TAKEN_VTEP = 10
"""The partner's VTEP address while this gateway does its work, 0 at other times: it is served like the own one."""
OWN_NAT_FIRST, OWN_NAT_LAST = 11, 12
"""The ports of this gateway's share, for what is translated to its own address on the provider port."""
OWN_VPC_PERCENT = 13
"""How much of a table that traffic fills one VPC alone may have (`shares`)."""
OWN_WORDS = 16

CONNECTION = _row(
    "source_hi",  # the key: the packet as it arrives in this direction
    "source_lo",
    "target_hi",
    "target_lo",
    "key",  # ports << 32 | protocol << 24 | VNI, OUTSIDE for what comes from the internet
    "flags",
    "next_hop",  # of generation `generation`; of another one it says nothing
    "generation",
    "new_source_lo",  # and as it leaves
    "new_target_lo",
    "new_ports",
    "last_seen_ns",
    "packets",
    "bytes",
    "pair",  # row of the other direction
    "out_vni",  # the VPC that it leaves into; OUTSIDE for none
    "new_source_hi",
    "new_target_hi",
    "mapping",  # row of the NAT mapping, or -1
    "seen_packets",  # at the last look of whoever copies it to the partner
    "owner",  # row of the endpoint whose share of the connections it is of
    "spare_0",  # three cache lines a row, of which packets need the first two
    "spare_1",
    "spare_2",
)
"""One direction of a connection. A row stays where it is for as long as it lives; `key` 0 is a free one."""

REPLY, TRANSLATED, SEEN_REPLY, ESTABLISHED, CLOSING, FROM_PARTNER, FLOATING, BORDER = (1 << bit for bit in range(8))
"""Flags of a connection's row: this is the direction of the answers; addresses or ports change; an answer was seen;
TCP's handshake is done; a FIN or RST was seen; told by the partner, not seen here; by floating IP; to the provider's
networks. Both rows have the same flags, but for REPLY."""
DECIDED = TRANSLATED | FLOATING | BORDER
"""Those that say what was decided; the others say what was seen."""
