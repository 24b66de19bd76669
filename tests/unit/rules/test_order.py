"""The order of changes."""

from heddle.controller.model.rule import Change, ChangeOp, FlowRule, GroupRule, Match, Pin, SwitchRules
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.diff import diff
from heddle.controller.rules.order import order
from heddle.controller.rules.pipeline import PIN_PAIR_PRIORITY, PIN_PRIORITY, Table
from tests.unit.rules.builders import clos3, spine_leaf

FABRIC = spine_leaf(2, 2, 1)
PATH = ("h1-n0>leaf1:3", "leaf1:1>spine1:1", "spine1:2>leaf2:1", "leaf2:3>h2-n0")
PIN = Pin(
    src_ip=FABRIC.nics[0].ip, dst_ip=FABRIC.nics[1].ip, udp_source_port=0xC000, links=PATH, job_number=1, generation=1
)


def steps_between(fabric, old, new):
    return order({switch: diff(old.get(switch, SwitchRules()), new[switch]) for switch in new}, fabric)


def test_an_empty_fabric_is_filled_from_the_top_and_the_leaves_open_last():
    fabric = clos3(2, 2, 2, 2)
    steps = steps_between(fabric, {}, compile_fabric(fabric, layout_of(fabric)))
    roles = [{name.split("-")[-1].rstrip("0123456789") for name in step.changes} for step in steps]
    assert roles == [{"core"}, {"agg"}, {"leaf"}, {"leaf"}]
    assert all(
        change.item.table in (Table.CLASSIFY, Table.PINS)
        for changes in steps[-1].changes.values()
        for change in changes
    )


def test_a_pin_is_one_step_in_two_tiers_and_so_is_its_end():
    plain, pinned = (compile_fabric(FABRIC, layout_of(FABRIC), pins=pins) for pins in ((), (PIN,)))
    (there,) = steps_between(FABRIC, plain, pinned)
    (back,) = steps_between(FABRIC, pinned, plain)
    (added,), (deleted,) = there.changes["leaf1"], back.changes["leaf1"]
    assert (added.op, deleted.op) == (ChangeOp.RULE_ADD, ChangeOp.RULE_DELETE)


def test_groups_come_before_all_rules_and_go_after_them():
    filled = compile_fabric(FABRIC, layout_of(FABRIC), pins=(PIN,))
    empty = dict.fromkeys(filled, SwitchRules())
    made = [change.op for step in steps_between(FABRIC, empty, filled) for change in step.changes.get("leaf1", ())]
    gone = [change.op for step in steps_between(FABRIC, filled, empty) for change in step.changes.get("leaf1", ())]
    assert made == sorted(made)
    assert gone == sorted(gone)
    assert {made[0], gone[-1]} == {ChangeOp.GROUP_ADD, ChangeOp.GROUP_DELETE}


def test_nothing_to_change_is_no_step():
    assert order({}, FABRIC) == ()
    assert order({"leaf1": ()}, FABRIC) == ()


def test_every_change_is_made_exactly_once():
    filled = compile_fabric(FABRIC, layout_of(FABRIC), pins=(PIN,))
    changes = {switch: diff(SwitchRules(), held) for switch, held in filled.items()}
    made: dict[str, list[Change]] = {}
    for step in order(changes, FABRIC):
        for switch, found in step.changes.items():
            made.setdefault(switch, []).extend(found)
    assert {switch: len(found) for switch, found in made.items()} == {s: len(found) for s, found in changes.items()}
    assert {switch: set(found) for switch, found in made.items()} == {s: set(found) for s, found in changes.items()}


def rule(table, priority, mark=0):
    return FlowRule(table=table, priority=priority, match=Match(in_port=mark))


def ordered(*changes):
    made = [change for step in order({"spine1": changes}, FABRIC) for change in step.changes["spine1"]]
    rules = [(op, item) for op, item in made if isinstance(item, FlowRule)]
    return [(op, item.table, item.priority) for op, item in rules]


def test_rules_come_from_the_narrowest_and_go_from_the_widest_so_that_none_falls_into_a_wider_one():
    add, delete = ChangeOp.RULE_ADD, ChangeOp.RULE_DELETE
    changes = [Change(add, rule(4, priority, 1)) for priority in (150, 160, 140)]
    changes += [Change(delete, rule(4, priority, 2)) for priority in (150, 160, 140)]
    assert ordered(*changes) == [(add, 4, p) for p in (160, 150, 140)] + [(delete, 4, p) for p in (140, 150, 160)]


def test_exceptions_come_before_what_they_are_exceptions_to_and_go_after_it():
    add, delete = ChangeOp.RULE_ADD, ChangeOp.RULE_DELETE
    adds = [Change(add, rule(3, 200)), Change(add, rule(2, 265))]
    deletes = [Change(delete, rule(2, 265)), Change(delete, rule(3, 200))]
    assert ordered(*adds) == [(add, 2, 265), (add, 3, 200)]
    assert ordered(*deletes) == [(delete, 3, 200), (delete, 2, 265)]


def test_new_tables_are_filled_from_the_last_to_the_first_and_classification_comes_last():
    tables = (0, 1, 2, 3)
    changes = [Change(ChangeOp.RULE_ADD, rule(table, 0)) for table in tables]
    assert [table for _, table, _ in ordered(*changes)] == [3, 2, 1, 0]


def change(name):
    """Return the change that a name such as `steering 200 +` describes; its operation is the last sign."""
    what, number, sign = name.split()
    if what == "group":
        op = {"+": ChangeOp.GROUP_ADD, "~": ChangeOp.GROUP_MODIFY, "-": ChangeOp.GROUP_DELETE}[sign]
        return Change(op, GroupRule(group_id=int(number), ports=(1,)))
    op = {"+": ChangeOp.RULE_ADD, "-": ChangeOp.RULE_DELETE}[sign]
    return Change(op, rule(Table[what.upper()], int(number)))


PIN_NAMES = (f"pins {PIN_PAIR_PRIORITY}", f"pins {PIN_PRIORITY}")
ALL_KINDS = (
    "steering 100 -", "group 9 -", "spread 50 +", "classify 30 +", "steering 200 -", "group 1 +", "steering 100 +",
    f"{PIN_NAMES[0]} +", "spread_overrides 0 +", f"{PIN_NAMES[1]} -", "classify 40 +", "spread 0 +", "overrides 90 +",
    "group 8 -", "steering 200 +", f"{PIN_NAMES[0]} -", "group 2 ~", "spread_overrides 60 +", f"{PIN_NAMES[1]} +",
    "classify 20 -", "overrides 70 -", "pins 0 -",
)  # fmt: skip
GROUPS = ["group 1 +", "group 2 ~"]
NEW_TABLES = ["spread 50 +", "spread 0 +", "spread_overrides 60 +", "spread_overrides 0 +"]
OLD_TABLES = ["overrides 90 +", "steering 200 +", "steering 100 +"]
PINNED = [f"{PIN_NAMES[1]} +", f"{PIN_NAMES[0]} +"]
CLASSIFIED = ["classify 40 +", "classify 30 +"]
CLEARED = ["steering 100 -", "steering 200 -", "overrides 70 -", "pins 0 -", "classify 20 -"]
UNPINNED = [f"{PIN_NAMES[0]} -", f"{PIN_NAMES[1]} -"]
UNGROUPED = ["group 9 -", "group 8 -"]


def steps_of(names, *switches):
    """Return the steps of the same changes on switches of three tiers."""
    changes = tuple(change(name) for name in names)
    steps = order(dict.fromkeys(switches, changes), clos3(1, 2, 1, 2))
    named = {change(name): name for name in names}
    return [{switch: [named[found] for found in made] for switch, made in step.changes.items()} for step in steps]


def each(switches, names):
    return dict.fromkeys(switches, names)


def test_changes_of_every_kind_are_made_tier_by_tier_from_the_top_then_let_packets_in_and_unpin_last():
    above = [*GROUPS, *NEW_TABLES, *PINNED, *OLD_TABLES, *CLASSIFIED]
    leaves, cores = ("pod1-leaf1", "pod1-leaf2"), ("core1", "core2")
    found = steps_of(ALL_KINDS, "pod1-leaf1", "core1", "pod1-agg1", "core2", "pod1-leaf2")
    assert found == [
        each(cores, above),
        each(cores, CLEARED),
        each(["pod1-agg1"], above),
        each(["pod1-agg1"], CLEARED),
        each(leaves, [*GROUPS, *NEW_TABLES, *OLD_TABLES]),
        each(leaves, [*PINNED, *CLASSIFIED]),
        each(leaves, [*CLEARED, *UNPINNED, *UNGROUPED]) | each([*cores, "pod1-agg1"], [*UNPINNED, *UNGROUPED]),
    ]


def test_where_no_pin_is_deleted_groups_go_with_the_rules_that_used_them():
    found = steps_of((*UNGROUPED, *CLEARED), "pod1-leaf1", "core1")
    assert found == [{"core1": [*CLEARED, *UNGROUPED]}, {"pod1-leaf1": [*CLEARED, *UNGROUPED]}]
