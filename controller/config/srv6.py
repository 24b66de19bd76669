"""Read the key `srv6` of a fabric file, and check that the uSIDs of its fabric can name every path."""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv6Network

from heddle.controller.config.fabric_file import Srv6Shape
from heddle.controller.model.admission import Problem
from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.srv6 import BLOCK_BITS, MAX_NODE, MAX_PORT, Sids
from heddle.controller.model.srv6_settings import LastHop, Srv6, Style

_TAKEN = {
    "100::/32": "packets to discard (RFC 6666)",
    "2001::/32": "Teredo",
    "::/16": "loopback and IPv4-mapped addresses",
    "64:ff9b::/32": "translated IPv4 addresses",
    "2002::/16": "6to4",
    "fe80::/10": "link-local addresses",
    "fec0::/10": "site-local addresses",
    "ff00::/8": "multicast",
}
"""Networks with a meaning of their own: a block inside one would not be forwarded as a path."""


def with_srv6(shape: Srv6Shape | None, fabric: Fabric) -> tuple[Fabric, list[Problem]]:
    """Return the fabric with the key `srv6`, and the problems that its uSIDs have; none with another steering."""
    if fabric.steered_by is not SteeredBy.SRV6:
        wrong = [Problem("srv6", "it needs `steering: srv6`: add that, or remove this key")]
        return fabric, wrong if shape is not None else []
    if shape is None:
        return fabric, list(_problems(fabric))
    block, found = _block(shape.block, max(fabric.plane_of_switch.values(), default=0))
    settings = Srv6(block, Style(shape.style), LastHop(shape.last_hop))
    fabric = replace(fabric, srv6=settings)
    return fabric, found or list(_problems(fabric))


def _block(text: str, last_plane: int) -> tuple[int, list[Problem]]:
    """Return the first 32 bits of a block, after which planes up to `last_plane` have the next ones."""
    try:
        network = IPv6Network(text)
    except ValueError as error:
        return 0, [Problem("srv6.block", f"{error}; write an IPv6 network such as fcbb::/32")]
    if network.prefixlen != BLOCK_BITS:
        return 0, [Problem("srv6.block", f"it is a /{network.prefixlen}: uSIDs need a /{BLOCK_BITS}")]
    block = int(network.network_address) >> (128 - BLOCK_BITS)
    for plane in range(last_plane + 1):
        one = IPv6Network(((block + plane) << (128 - BLOCK_BITS), BLOCK_BITS))
        for taken, what in _TAKEN.items():
            if one.overlaps(IPv6Network(taken)):
                which = f"{one}, of plane {plane}," if plane else f"{one}"
                return 0, [Problem("srv6.block", f"{which} overlaps {taken}, {what}: use another, such as fcbb::/32")]
    return block, []


def _problems(fabric: Fabric) -> Iterator[Problem]:
    """Yield the first problem of each kind."""
    sids = Sids(fabric)
    style = fabric.srv6.style
    room = sids.ports_per_switch if style is Style.CABLE else 1
    for switch in fabric.switches:
        if (switch.datapath_id + 1) * room - 1 > MAX_NODE:
            limit = (MAX_NODE + 1) // room - 1
            why = f", as each switch takes {room} uSIDs in style cable" if room > 1 else ""
            text = f"{switch.id} has datapath_id {switch.datapath_id}, uSIDs name switches 1 to {limit}{why}"
            yield Problem("switches", f"{text}: give it a lower one")
            break
    for port in (*(nic.port for nic in fabric.nics), *fabric.cable_by_port):
        if port.number > MAX_PORT:
            yield Problem("switches", f"port {port} has no uSID: those are for port numbers up to {MAX_PORT:,}")
            break
    if style is Style.UN:
        yield from _parallel(fabric)


def _parallel(fabric: Fabric) -> Iterator[Problem]:
    seen: dict[tuple[str, str], str] = {}
    for cable in fabric.cables:
        first = seen.setdefault((cable.lower.switch, cable.upper.switch), cable.id)
        if first != cable.id:
            text = f"style un cannot distinguish {first} and {cable.id}: use style ua, or cable"
            yield Problem("srv6.style", text)
            return
