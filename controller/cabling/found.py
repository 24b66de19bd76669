"""Find the cables of which it is certain how they are joined instead of as described.

Certain are cycles of wrong cables all of whose ends hear each other: as many cables join the same ports, otherwise.
Each port must meet a switch of the role that belongs there, and all cables of a cycle have one rate, so that the rate
of each is known. A single cable with a plug in a spare port of its own switch is certain too. Any other path, a NIC, a
stranger or a silent end leaves its cycle or path uncertain.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from heddle.controller.cabling.ends import NONE
from heddle.controller.cabling.exchanges import Loop, loops
from heddle.controller.cabling.observed import Observed
from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.model.found_cabling import Rejoined


def rejoined_cables(fabric: Fabric, observed: Observed) -> Iterator[Rejoined]:
    """Yield the cycles of cables that are certainly joined otherwise than in the fabric, and moved plugs."""
    for loop in loops(observed):
        if (moved := _moved(loop, observed)) is not None:
            yield moved
            continue
        meets = _certain(loop, observed)
        cables = [cable for port in meets if (cable := fabric.cable_by_port[port]).lower == port]
        if meets and len({cable.capacity_bps for cable in cables}) == 1 and _suits(fabric, meets):
            yield Rejoined(
                gone=tuple(cable.id for cable in cables),
                cables=tuple(replace(cable, upper=meets[cable.lower]) for cable in cables),
            )


def _moved(loop: Loop, observed: Observed) -> Rejoined | None:
    """Return the one cable of a path whose plug is in a spare port of the switch where it belongs; None for others."""
    ends, met, hears = observed.ends, observed.met, observed.hears
    at = [end for pair in loop.cables for end in pair if 0 <= end < ends.built and met[end] >= ends.built]
    if len(at) != 1 or sum(0 <= end < ends.built for pair in loop.cables for end in pair) != 2:
        return None
    (stays,) = at
    spare, left = ends.port[met[stays]], ends.port[ends.expected[stays]]
    is_heard = hears.get(stays) == met[stays] and hears.get(met[stays]) == stays
    cable = ends.cable[stays]
    if not isinstance(cable, Cable) or not is_heard or spare is None or left is None or spare.switch != left.switch:
        return None
    found = replace(cable, lower=spare) if cable.lower == left else replace(cable, upper=spare)
    return Rejoined(gone=(cable.id,), cables=(found,))


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
