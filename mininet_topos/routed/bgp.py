"""The configuration of BGP in the routers of a Clos fabric (RFC 4271, RFC 7938), as text for FRR.

A session over every cable. Each leaf has an AS number of its own; switches above that share a leaf have one in common.
So a route that came down is refused on its way up again, and paths lead up and then down.
"""

from collections.abc import Mapping

from heddle.controller.model.address import ip_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric, PortRef

FIRST_AS = 4_200_000_001
"""The first AS number for private use (RFC 6996)."""
MAX_PATHS = 256
"""Equal-cost next hops of a route: the limit that Debian compiles into FRR."""
KEEPALIVE_S, HOLD_S = 1, 3


def as_numbers(fabric: Fabric) -> Mapping[str, int]:
    """Return the AS number of every switch."""
    groups: list[tuple[set[str], list[str]]] = [({leaf}, [leaf]) for leaf in fabric.leaves]
    for tier in sorted({switch.role.tier for switch in fabric.switches} - {0}):
        groups += _groups(fabric, [switch.id for switch in fabric.switches if switch.role.tier == tier])
    return {switch: FIRST_AS + number for number, (_, members) in enumerate(groups) for switch in members}


def _groups(fabric: Fabric, switches: list[str]) -> list[tuple[set[str], list[str]]]:
    """Return the groups of switches that are joined by leaves below them, each with these leaves."""
    found: list[tuple[set[str], list[str]]] = []
    for switch in switches:
        below, members = set(fabric.leaves_below[switch]), [switch]
        joined = [group for group in found if group[0] & below]
        for leaves, others in joined:
            below |= leaves
            members = [*others, *members]
        found = [group for group in found if group not in joined] + [(below, members)]
    return found


def configurations(fabric: Fabric, address_of: Mapping[PortRef, int]) -> dict[str, str]:
    """Return by switch the configuration of its bgpd; raises InputError for more next hops than FRR has."""
    for switch in fabric.switches:
        if max(len(fabric.up_choices[switch.id]), len(fabric.down_cables[switch.id])) > MAX_PATHS:
            raise InputError(f"{switch.id} has more than {MAX_PATHS} cables up or down: FRR takes no more next hops")
    numbers = as_numbers(fabric)
    return {
        switch.id: "\n".join(_lines(fabric, switch.id, row + 1, numbers, address_of)) + "\n"
        for row, switch in enumerate(fabric.switches)
    }


def _lines(
    fabric: Fabric, switch: str, router_id: int, numbers: Mapping[str, int], address_of: Mapping[PortRef, int]
) -> list[str]:
    lines = [
        f"hostname {switch}",
        f"router bgp {numbers[switch]}",
        f" bgp router-id {ip_text(router_id)}",
        " no bgp ebgp-requires-policy",
        " no bgp network import-check",
        " bgp bestpath as-path multipath-relax",
        f" timers bgp {KEEPALIVE_S} {HOLD_S}",
    ]
    for cable in fabric.cables:
        if switch in (cable.lower.switch, cable.upper.switch):
            far = cable.upper if cable.lower.switch == switch else cable.lower
            peer = ip_text(address_of[far])
            lines += [
                f" neighbor {peer} remote-as {numbers[far.switch]}",
                f" neighbor {peer} timers connect 1",
                f" neighbor {peer} advertisement-interval 0",
            ]
    networks = [f"  network {ip_text(nic.ip)}/32" for nic in fabric.nics_of_leaf.get(switch, ())]
    return [*lines, " address-family ipv4 unicast", f"  maximum-paths {MAX_PATHS}", *networks, " exit-address-family"]
