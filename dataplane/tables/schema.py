"""The tables of a gateway, and of a balancer, which adds to them: the arrays of a generation, and hash tables.

`compile` makes `Tables` from a configuration. They are written once, read by the data process, and replaced as a
whole: a new generation is a new set of arrays. The data process's state (`memory.state`) outlives generations; its
keys therefore contain VNIs, never rows of a generation's tables.

Hash tables are `int64[slots, words + 1]`: the words of a key, then the row; a slot with row EMPTY ends a search. The
number of slots is a power of two, and at most half are used; a search starts at the hash of the words
(`engine.hashing`).
"""

from typing import NamedTuple

from heddle.dataplane.jit import Bytes, Grid, Ints, Rows, row_type

EMPTY = -1
OUTSIDE = 0
"""In place of a VNI in keys: the external and provider sides."""


VPC = row_type(
    "vni",
    "gateway_mac",  # MAC of the VPC's gateway addresses
    "lengths_v4",  # bit n: there are IPv4 routes of length n
    "lengths_v6_low",  # bit n: IPv6 routes of length n, n < 64
    "lengths_v6_high",  # bit n - 64, n < 128; length 128 is always searched
    "rules_in",  # first row and number of rows in `rules`
    "rules_in_count",
    "rules_out",
    "rules_out_count",
    "nat_source",  # IPv4 address of the NAT gateway, 0 for none
    "nat_first",  # range of ports to allocate from
    "nat_last",
    "border",  # rows of `rules` of the border firewall, for connections that the VPC opens
    "border_count",
    "realm",
    "nat_shared",  # 1 if other VPCs use the same NAT address
)
NEXT_HOP = row_type(
    "kind",
    "port",  # output port
    "mtu_bytes",  # of the IP packet that the VPC sees
    "target_mac",  # of the inner frame to an endpoint, of the frame itself otherwise; 0 while unknown
    "source_mac",
    "template",  # first byte of the outer header in `templates`, and its bytes; 0 bytes for none
    "template_bytes",
    "resolved",  # 1 if the MAC is known; the fields up to here are one cache line, which suffices for most packets
    "vni",  # of an encapsulated packet; of the peer VPC, in which routing continues
    "vpc",  # row of that VPC in this generation
    "vlan",  # of the customer port, 0 for none
    "address",  # IPv4 address to resolve on the port while `resolved` is 0
    "realm",  # of the network behind a provider's hop
    "address_hi",  # 0, or the high word of an IPv6 address, with `address` the low word
    "spare_0",
    "incarnation",  # of the peering or direct connect that it belongs to, 0 for none
)
RULE = row_type("allow", "protocol", "remote_hi", "remote_lo", "mask_hi", "mask_lo", "port_min", "port_max", "family")
"""Addresses have the form of a packet's row: IPv4 within ::ffff:0:0/96. `protocol` 0 matches any; ICMP includes ICMPv6.
`family`, 4 or 6, is that of the remote prefix: without it ::/0 would match IPv4 as well."""

DISCARD, LOCAL, TUNNEL, EXTERNAL, CUSTOMER, PROVIDER, PEER = range(7)
"""Kinds of next hop: discard the packet; an address of the gateway itself; an endpoint behind a VTEP; the internet, by
NAT or floating IP; a customer's router; the provider's networks, past the border firewall; another VPC, in which
routing continues."""


class Tables(NamedTuple):
    """One generation, compiled from a configuration."""

    generation: Ints
    """Shape (1,)."""
    own: Ints
    """Settings of the gateway itself, by the OWN_ indices below."""
    vnis: Grid
    """(vni) -> row of `vpcs`."""
    vpcs: Rows
    """VPC rows."""
    vpc_incarnations: Ints
    """By row of `vpcs`: its incarnation."""
    incarnations: Grid
    """(incarnation of a VPC, peering, direct connect or floating IP) -> its number (`config.incarnations`). Positive
    words, the same in both gateways of a pair."""
    vteps: Grid
    """(vni, IPv4 address) -> 0: VTEPs with an endpoint of that VPC; partners' VTEPs are included under every VNI."""
    endpoints: Grid
    """(vni, address hi, lo) -> row of `next_hops`, kind TUNNEL."""
    routes: Grid
    """(vni << 8 | prefix length as IPv6, prefix hi, lo) -> row of `next_hops`. Endpoints are searched first."""
    next_hops: Rows
    """NEXT_HOP rows."""
    templates: Bytes
    """Outer headers, complete except for lengths, checksum, source port and ECN."""
    endpoint_vteps: Ints
    """By row of `next_hops`: the IPv4 address of the endpoint's VTEP, 0 for other kinds."""
    replies: Grid
    """(row of `next_hops` of a virtual IP << 32 | IPv4 address) -> 0: VTEPs of back ends that reply from it."""
    rules: Rows
    """RULE rows."""
    floating_in: Grid
    """(public IPv4 address) -> row of `floating`."""
    floating_out: Grid
    """(vni, IPv4 address of the endpoint) -> row of `floating`."""
    floating: Grid
    """Rows with the FLOATING_ columns: public address, endpoint's address, VNI, row of `vpcs`, incarnation."""
    nat_in: Grid
    """(public IPv4 address) -> row of `vpcs`: NAT addresses. Several VPCs may share one; the mapping identifies the
    VPC."""
    vlans: Grid
    """(port << 12 | VLAN, with VLAN_OF_IPV6 for IPv6) -> row of `customers`: that of the family, or the VLAN's only
    one."""
    customers: Grid
    """Rows with the CUSTOMER_ columns: VNI, row of `vpcs`, and the prefix and mask of valid sources."""
    ports: Grid
    """By port, with the PORT_ columns: side (index in `SIDES`), MAC, IPv4 address, MTU in bytes."""


SIDES = ("underlay", "external", "customer", "provider")
PORT_SIDE, PORT_MAC, PORT_ADDRESS, PORT_MTU = range(4)
FLOATING_PUBLIC, FLOATING_ENDPOINT, FLOATING_VNI, FLOATING_VPC, FLOATING_INCARNATION = range(5)
CUSTOMER_VNI, CUSTOMER_VPC, CUSTOMER_PREFIX_HI, CUSTOMER_PREFIX_LO, CUSTOMER_MASK_HI, CUSTOMER_MASK_LO = range(6)
VLAN_OF_IPV6 = 1 << 32
OWN_VTEP, OWN_ACTIVE, OWN_UDP_TIMEOUT_S, OWN_UDP_UNANSWERED_S, OWN_TCP_TIMEOUT_S, OWN_TCP_TRANSITORY_S = range(6)
OWN_ICMP_TIMEOUT_S, OWN_OTHER_TIMEOUT_S, OWN_FRAGMENT_TIMEOUT_S, OWN_PER_ENDPOINT = range(6, 10)
OWN_TAKEN_VTEP = 10
"""The partner's VTEP address while this gateway serves for it, otherwise 0: it is served like the gateway's own."""
OWN_NAT_FIRST, OWN_NAT_LAST = 11, 12
"""This gateway's range of ports for translation to its own address on the provider port."""
OWN_VPC_PERCENT = 13
"""The share of each traffic-filled table that one VPC alone may use (`shares`)."""
OWN_UDP_EXCHANGE_S = 14
OWN_ENDPOINT_PERCENT = 15
"""The share of the ports of a public address that one endpoint alone may use."""
OWN_NETWORK_GENERATION = 16
"""The generation of the configuration: the same number at both gateways of a pair."""
OWN_PORTLESS = 17
"""1 while this gateway is the one of its pair that translates protocols without ports, otherwise 0."""
OWN_WORDS = 24
