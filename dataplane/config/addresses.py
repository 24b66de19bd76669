"""Derived addresses of a VPC's gateways, and conversion of addresses to numbers.

All gateways of a VPC use one MAC, 02:48:00 followed by the 24 bits of the VNI, so a takeover leaves the endpoints'
neighbour caches valid. For IPv6 they also answer at the link-local address of that MAC (RFC 4291, appendix A).
"""

from ipaddress import IPv4Address, IPv6Address

from heddle.dataplane.config.network import Address, Prefix

GATEWAY_MAC_BASE = 0x0248_0000_0000
"""Locally administered, unicast: 02:48:00 and the 24 bits of the VNI."""
V4_MAPPED = 0xFFFF_0000_0000
"""Prefix ::ffff:0:0/96 of IPv4-mapped addresses (RFC 4291, 2.5.5.2)."""
V4_MAPPED_LENGTH = 96


def gateway_mac(vni: int) -> int:
    """Return the MAC of a VPC's gateways."""
    return GATEWAY_MAC_BASE | vni


def link_local(mac: int) -> IPv6Address:
    """Return the link-local address of a MAC, by modified EUI-64: ff:fe in the middle, the U/L bit inverted."""
    high, low = mac >> 24, mac & 0xFFFFFF
    return IPv6Address(0xFE80 << 112 | (high ^ 0x020000) << 40 | 0xFFFE << 24 | low)


def wide(address: Address) -> int:
    """Return an address as a 128-bit number, IPv4 as IPv4-mapped."""
    return V4_MAPPED | int(address) if isinstance(address, IPv4Address) else int(address)


def wide_length(prefix: Prefix) -> int:
    """Return a prefix's length in 128-bit addresses, IPv4 as IPv4-mapped."""
    return prefix.prefixlen + (V4_MAPPED_LENGTH if prefix.version == 4 else 0)


def contains(outer: Prefix, inner: Prefix) -> bool:
    """Return whether `inner` is of the same family as `outer` and equal to it or within it."""
    return (
        outer.version == inner.version
        and outer.prefixlen <= inner.prefixlen
        and int(inner.network_address) >> (inner.max_prefixlen - outer.prefixlen)
        == int(outer.network_address) >> (outer.max_prefixlen - outer.prefixlen)
    )


def overlap(one: Prefix, other: Prefix) -> bool:
    """Return whether two prefixes have an address in common."""
    return contains(one, other) or contains(other, one)
