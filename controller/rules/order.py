"""Order rule changes so that no packet is lost or loops: make before break, from the destination to the source.

Tiers are changed from the top: a switch's new rules are added and its old ones deleted before any switch below relies
on them. Within a switch the order ensures that each packet meets either the old or the new rules at every moment:

- groups are added before the rules that use them, and deleted after them;
- new tables (their table-miss rule is among the changes) are filled from the last to the first, so that no goto leads
  to an empty table; in existing tables, exceptions come before the rules that they override;
- rules are added from the highest priority down and deleted from the lowest up, so that in between no packet matches
  a wider rule that is not meant for it.

Packets enter at leaves: classification and pins of leaves change after all other rules are added. Deleted pins of all
tiers come last: until then a pinned flow keeps its path, and afterwards the underlay forwards it.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.rule import Change, ChangeOp, FlowRule, Step
from heddle.controller.rules.pins import is_pin
from heddle.controller.rules.pipeline import MISS_PRIORITY, Table

LEAF_TIER = 0


class _Phase(IntEnum):
    """The phase of a change within its tier."""

    BUILD = 0
    ENTER = 1
    CLEAR = 2
    UNPIN = 3


_Batches = dict[_Phase, list[Change]]


def order(changes: Mapping[str, Iterable[Change]], fabric: Fabric) -> tuple[Step, ...]:
    """Return the steps of the changes; each step waits for the barriers of the previous one.

    The changes of one switch in one step are sent in the given order.
    """
    tier_of = {switch.id: switch.role.tier for switch in fabric.switches}
    batches = {switch: _batches(tuple(changes[switch]), tier_of[switch] == LEAF_TIER) for switch in changes}
    moments: list[list[tuple[str, _Phase]]] = []
    for tier in sorted({tier_of[switch] for switch in batches} - {LEAF_TIER}, reverse=True):
        here = [switch for switch in batches if tier_of[switch] == tier]
        moments += [[(switch, phase) for switch in here] for phase in (_Phase.BUILD, _Phase.CLEAR)]
    leaves = [switch for switch in batches if tier_of[switch] == LEAF_TIER]
    moments += [[(switch, phase) for switch in leaves] for phase in (_Phase.BUILD, _Phase.ENTER)]
    moments.append([(switch, _Phase.CLEAR) for switch in leaves] + [(switch, _Phase.UNPIN) for switch in batches])
    steps = (_step(batches, moment) for moment in moments)
    return tuple(step for step in steps if step.changes)


def _step(batches: Mapping[str, _Batches], moment: list[tuple[str, _Phase]]) -> Step:
    found: dict[str, tuple[Change, ...]] = {}
    for switch, phase in moment:
        if batches[switch][phase]:
            found[switch] = found.get(switch, ()) + tuple(batches[switch][phase])
    return Step(found)


def _batches(changes: tuple[Change, ...], is_leaf: bool) -> _Batches:
    """Group one switch's changes by phase, each in the order of sending."""
    found: _Batches = {phase: [] for phase in _Phase}
    found[_Phase.BUILD] = [change for change in changes if change.op in (ChangeOp.GROUP_ADD, ChangeOp.GROUP_MODIFY)]
    added = list(_rules(changes, ChangeOp.RULE_ADD))
    new_tables = {rule.table for rule in added if rule.priority == MISS_PRIORITY}
    for rule in sorted(added, key=lambda rule: _place(rule, new_tables)):
        entrance = is_leaf and rule.table in (Table.CLASSIFY, Table.PINS)
        found[_Phase.ENTER if entrance else _Phase.BUILD].append(Change(ChangeOp.RULE_ADD, rule))
    for rule in sorted(_rules(changes, ChangeOp.RULE_DELETE), key=lambda rule: (-rule.table, rule.priority)):
        found[_Phase.UNPIN if is_pin(rule) else _Phase.CLEAR].append(Change(ChangeOp.RULE_DELETE, rule))
    last = _Phase.UNPIN if found[_Phase.UNPIN] else _Phase.CLEAR
    found[last] += [change for change in changes if change.op is ChangeOp.GROUP_DELETE]
    return found


def _rules(changes: tuple[Change, ...], op: ChangeOp) -> Iterator[FlowRule]:
    return (item for found, item in changes if found is op and isinstance(item, FlowRule))


def _place(rule: FlowRule, new_tables: set[int]) -> tuple[int, int, int]:
    """Return the sort key of an added rule: new tables last to first, old ones first to last, then classification."""
    if rule.table == Table.CLASSIFY:
        return (2, 0, -rule.priority)
    if rule.table in new_tables:
        return (0, -rule.table, -rule.priority)
    return (1, rule.table, -rule.priority)
