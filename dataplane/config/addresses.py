"""Addresses that follow from others, so that hosts and gateways agree without telling each other."""

GATEWAY_MAC_BASE = 0x0248_0000_0000
"""Locally administered, unicast: 02:48:00 and the 24 bits of the VNI."""


def gateway_mac(vni: int) -> int:
    """Return the MAC with which any gateway answers in a VPC: the same in all its subnets, on every gateway."""
    return GATEWAY_MAC_BASE | vni
