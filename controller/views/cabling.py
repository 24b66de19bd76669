"""Say of every cable what its ports hear: as described, wrong, missing or unknown; pure."""

from enum import IntEnum

from heddle.controller.brain.state import State


class CableMark(IntEnum):
    """What is heard of a cable; 0 also where nothing is heard in the whole fabric."""

    AS_DESCRIBED = 0
    WRONG = 1
    MISSING = 2
    UNKNOWN = 3


def cable_marks(state: State) -> list[CableMark]:
    """Return the mark of every directed link, in the order of `Fabric.directed_links`; a NIC's is never unknown."""
    verdict = state.cabling.verdict
    sets = (
        (verdict.wrong, CableMark.WRONG),
        (verdict.missing, CableMark.MISSING),
        (verdict.unknown, CableMark.UNKNOWN),
    )
    of_cable = {cable: mark for cables, mark in reversed(sets) for cable in cables}
    ids = (*(cable.id for cable in state.fabric.cables), *(nic.up_link for nic in state.fabric.nics))
    return [of_cable.get(name, CableMark.AS_DESCRIBED) for name in ids for _ in range(2)]
