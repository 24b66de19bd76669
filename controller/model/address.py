"""Convert IPv4, IPv6 and MAC addresses between integers and text; `foundation.address` writes MAC addresses."""

import ipaddress


def ip_text(ip: int) -> str:
    """Return a 32-bit IPv4 address in dotted form."""
    return f"{ip >> 24 & 255}.{ip >> 16 & 255}.{ip >> 8 & 255}.{ip & 255}"


def ipv6_text(address: int) -> str:
    """Return a 128-bit IPv6 address in its canonical form (RFC 5952)."""
    return str(ipaddress.IPv6Address(address))


def parse_ip(text: str) -> int:
    """Read a dotted IPv4 address; raises ValueError where it is not one."""
    return int(ipaddress.IPv4Address(text))


def parse_ipv6(text: str) -> int:
    """Read an IPv6 address; raises ValueError where it is not one."""
    return int(ipaddress.IPv6Address(text))


def parse_mac(text: str) -> int:
    """Read six hexadecimal octets joined by colons; raises ValueError where they are not."""
    octets = text.split(":")
    if len(octets) != 6 or any(len(octet) != 2 for octet in octets):
        raise ValueError(f"{text!r} is not a MAC address such as 02:00:00:00:00:01")
    return int("".join(octets), 16)
