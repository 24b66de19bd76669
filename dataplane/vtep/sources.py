"""The source addresses that each endpoint of a host may use; both drivers admit no others.

Beside its configured addresses an endpoint with IPv6 has the link-local address derived from its MAC (RFC 4291,
appendix A); a host cannot know others.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from heddle.dataplane.config.network import Address
from heddle.dataplane.control.slow.discovery import link_local
from heddle.dataplane.vtep.desired import HostState


class Source(NamedTuple):
    """An endpoint and its addresses; `port` is the name of its interface, or its OpenFlow port number."""

    vni: int
    mac: int
    port: str | int
    v4: tuple[IPv4Address, ...]
    v6: tuple[IPv6Address, ...]
    virtual: tuple[Address, ...] = ()
    """Virtual IPs, in IP packets alone: none in ARP or neighbour discovery."""


def sources(want: HostState, ports: Mapping[tuple[int, int], str | int]) -> list[Source]:
    """Return the endpoints of a host that have an interface, ordered by VNI and MAC."""
    v4: dict[tuple[int, int], list[IPv4Address]] = {}
    v6: dict[tuple[int, int], list[IPv6Address]] = {}
    for vni, ip, mac in want.locals:
        if isinstance(ip, IPv4Address):
            v4.setdefault((vni, mac), []).append(ip)
        else:
            v6.setdefault((vni, mac), [IPv6Address(link_local(mac.to_bytes(6, "big")))]).append(ip)
    virtual: dict[tuple[int, int], list[Address]] = {}
    for vni, ip, mac in sorted(want.virtual, key=str):
        virtual.setdefault((vni, mac), []).append(ip)
    return [
        Source(
            *key,
            ports[key],
            tuple(sorted(v4.get(key, ()))),
            tuple(sorted(v6.get(key, ()))),
            tuple(virtual.get(key, ())),
        )
        for key in sorted(v4.keys() | v6.keys())
        if key in ports
    ]
