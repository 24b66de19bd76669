"""Count the rules of switches that another fabric adds and removes, with ports that mean what they mean now."""

from dataclasses import replace
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.port_meaning import too_many
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric


class RuleChange(NamedTuple):
    """The rules that a switch gets and loses; a switch that is new loses none, and one that is gone gets none."""

    switch: str
    added: int
    removed: int


def rule_changes(before: Fabric, after: Fabric) -> tuple[RuleChange, ...]:
    """Return what changes for each switch whose rules differ, in the order of the second fabric.

    Where cables are beyond the room of the ports, the second fabric gets a layout of its own.
    """
    layout = layout_of(before)
    after = replace(after, port_layout=layout) if not too_many(after, layout) else after
    was, now = compile_fabric(before, layout), compile_fabric(after, layout_of(after))
    found = []
    for switch in dict.fromkeys((*now, *was)):
        old = frozenset(was[switch].rules) if switch in was else frozenset()
        new = frozenset(now[switch].rules) if switch in now else frozenset()
        if old != new:
            found.append(RuleChange(switch, len(new - old), len(old - new)))
    return tuple(found)
