"""Validate public addresses of virtual networks against one gateway's own interfaces.

The controller does not know the networks around a gateway, so the gateway refuses such a generation.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address

from heddle.dataplane.config.local import Interface, LocalConfig
from heddle.dataplane.config.network import NetworkConfig

SMALL_PREFIX = 31
"""From this length on a prefix has no network and no broadcast address (RFC 3021)."""


def served_problems(local: LocalConfig, network: NetworkConfig) -> Iterator[str]:
    """Yield one line per public address that something else on the gateway's networks has."""
    for vpc in network.vpcs:
        public = [("nat.public_ip", vpc.nat)] if vpc.nat is not None else []
        public += [(f"floating_ips[{i}].public_ip", each.public) for i, each in enumerate(vpc.floating_ips)]
        for field, address in public:
            for interface in local.interfaces:
                owner = _owner(interface, address)
                if owner:
                    what = f"{address} is {owner} of gateway {local.gateway_id} on {interface.name}"
                    yield f"vpc {vpc.id}: {field}: {what}; choose an address that nothing else has"


def _owner(interface: Interface, address: IPv4Address) -> str:
    """Return what an address is on an interface, "" if it is free for NAT."""
    network = interface.network
    if address == interface.router:
        return "the router"
    if network is None or network.prefixlen >= SMALL_PREFIX:
        return ""
    edges = (network.network_address, network.broadcast_address)
    return f"the network's or broadcast address of {network}," if address in edges else ""
