"""Say how many choices the source ports of a fabric have room for: in the log and `heddle check`."""

from typing import NamedTuple

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.port_layout import Stage
from heddle.controller.model.steering import choices_in, layout_of

_WORDS = {
    Stage.LEAF_UP: "uplinks of a leaf",
    Stage.AGG_UP: "uplinks of an agg",
    Stage.TOP_DOWN: "parallel cables down from the top",
    Stage.AGG_DOWN: "parallel cables down from an agg",
}


class Room(NamedTuple):
    """One stage: the largest number of cables of a switch now, the number that ports have room for, and its bits."""

    stage: Stage
    choices: int
    room: int
    bits: int


def rooms(fabric: Fabric) -> tuple[Room, ...]:
    """Return the room of each stage that some switch is of."""
    most: dict[Stage, int] = {}
    for _, stage, cables in choices_in(fabric):
        most[stage] = max(most.get(stage, 0), len(cables))
    fields = layout_of(fabric).fields
    return tuple(Room(stage, most[stage], fields[stage].room, fields[stage].width) for stage in sorted(most))


def room_line(fabric: Fabric) -> str:
    """Return a sentence on the room of all stages, "" where a fabric has a single switch."""
    found = rooms(fabric)
    texts = [f"{one.room} {_WORDS[one.stage]} ({one.choices} now)" for one in found]
    bits = " + ".join(str(one.bits) for one in found)
    spare = layout_of(fabric).spare_bits
    return f"source ports have room for {', '.join(texts)}; bits {bits}, {spare} spare" if found else ""
