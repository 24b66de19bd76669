"""Addresses that follow from others, and addresses as numbers: the same for whoever answers, sends or checks.

A VPC's gateways all answer with one MAC, 02:48:00 and the 24 bits of the VNI: locally administered, unicast, and the
same on every gateway, so that a takeover changes nothing in an endpoint's neighbour cache. For IPv6 they also answer
at the link-local address that follows from it (RFC 4291, appendix A).
"""

from ipaddress import IPv4Address, IPv6Address

from dataplane.config.network import Address, Prefix

GATEWAY_MAC_BASE = 0x0248_0000_0000
"""Locally administered, unicast: 02:48:00 and the 24 bits of the VNI."""
V4_MAPPED = 0xFFFF_0000_0000
"""Above an IPv4 address where addresses are 128 bits wide (RFC 4291, 2.5.5.2)."""
V4_MAPPED_LENGTH = 96


def gateway_mac(vni: int) -> int:
    """Return the MAC with which a VPC's gateways answer."""
    return GATEWAY_MAC_BASE | vni


def link_local(mac: int) -> IPv6Address:
    """Return the link-local address of a MAC: its halves around ff:fe, the universal bit turned."""
    high, low = mac >> 24, mac & 0xFFFFFF
    return IPv6Address(0xFE80 << 112 | (high ^ 0x020000) << 40 | 0xFFFE << 24 | low)


def wide(address: Address) -> int:
    """Return an address as 128 bits, IPv4 as IPv4-mapped."""
    return V4_MAPPED | int(address) if isinstance(address, IPv4Address) else int(address)


def wide_length(prefix: Prefix) -> int:
    """Return a prefix's length of 128, IPv4 as IPv4-mapped."""
    return prefix.prefixlen + (V4_MAPPED_LENGTH if prefix.version == 4 else 0)


def contains(outer: Prefix, inner: Prefix) -> bool:
    """Say whether a prefix is of the same family and within another, or is it."""
    return (
        outer.version == inner.version
        and outer.prefixlen <= inner.prefixlen
        and int(inner.network_address) >> (inner.max_prefixlen - outer.prefixlen)
        == int(outer.network_address) >> (outer.max_prefixlen - outer.prefixlen)
    )


def overlap(one: Prefix, other: Prefix) -> bool:
    """Say whether two prefixes have an address in common."""
    return contains(one, other) or contains(other, one)


def mac_text(mac: int) -> str:
    """Return a MAC as people write it."""
    return ":".join(f"{mac >> shift & 0xFF:02x}" for shift in range(40, -1, -8))
