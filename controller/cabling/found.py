"""Find the cables of which it is certain how they are joined instead of as described.

Certain are cycles of wrong cables all of whose ends hear each other: as many cables join the same ports, otherwise.
Each port must meet a switch of the role that belongs there, and all cables of a cycle have one rate, so that the rate
of each is known. A plug in a spare port, a NIC, a stranger or a silent end leaves its cycle or path uncertain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from heddle.controller.cabling.ends import NONE
from heddle.controller.cabling.exchanges import Loop, loops
from heddle.controller.cabling.observed import Observed
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.found_cabling import Rejoined


def rejoined_cables(fabric: Fabric, observed: Observed) -> Iterator[Rejoined]:
    """Yield the cycles of cables that are certainly joined otherwise than in the fabric."""
    for loop in loops(observed):
        meets = _certain(loop, observed)
        cables = [cable for port in meets if (cable := fabric.cable_by_port[port]).lower == port]
        if meets and len({cable.capacity_bps for cable in cables}) == 1 and _suits(fabric, meets):
            yield Rejoined(
                gone=tuple(cable.id for cable in cables),
                cables=tuple(replace(cable, upper=meets[cable.lower]) for cable in cables),
            )


def _certain(loop: Loop, observed: Observed) -> dict[PortRef, PortRef]:
    """Return which port each switch port of a cycle meets; nothing where one of its ends is uncertain."""
    ends, met, hears = observed.ends, observed.met, observed.hears
    found = {}
    for end in (end for cable in loop.cables for end in cable):
        far = met[end] if end != NONE else NONE
        port, other = (ends.port[each] if 0 <= each < ends.built else None for each in (end, far))
        if port is None or other is None or hears.get(end) != far:  # the far end is one of the cycle, and checked too
            return {}
        found[port] = other
    return found


def _suits(fabric: Fabric, meets: Mapping[PortRef, PortRef]) -> bool:
    """Return whether each port meets a switch of the role that its cable leads to."""
    role = fabric.switch_by_id
    for port, other in meets.items():
        cable = fabric.cable_by_port[port]
        wanted = cable.upper if port == cable.lower else cable.lower
        if role[other.switch].role is not role[wanted.switch].role:
            return False
    return True
