"""The addresses of switch ports on a fabric that hashes: the source of a router's reply names the port a probe came by.

A fabric file lists them under `port_addresses`. Without it every cable is a /31 (RFC 3021) of 100.64.0.0/10 (RFC 6598),
numbered in the order of the file, the even address below, as the lab of routers assigns them.
"""

from collections.abc import Mapping

from heddle.controller.model.fabric import Fabric, PortRef

FIRST_ADDRESS = 100 << 24 | 64 << 16
MAX_CABLES = 1 << 21


def numbered_addresses(fabric: Fabric) -> dict[PortRef, int]:
    """Return the address of every port of a cable, as numbered; there are addresses for MAX_CABLES."""
    found = {}
    for number, cable in enumerate(fabric.cables[:MAX_CABLES]):
        found[cable.lower] = FIRST_ADDRESS + 2 * number
        found[cable.upper] = found[cable.lower] + 1
    return found


def links_by_address(fabric: Fabric) -> Mapping[int, str]:
    """Return by address the directed link that ends at the port with this address: where a probe came in."""
    address_of = dict(fabric.port_addresses) or numbered_addresses(fabric)
    into = {address_of.get(cable.lower): cable.down_link for cable in fabric.cables}
    into |= {address_of.get(cable.upper): cable.up_link for cable in fabric.cables}
    return {address: link for address, link in into.items() if address is not None}
