"""The difference of two sets of rules."""

from dataclasses import replace

import pytest

from heddle.controller.model.rule import (
    Change,
    ChangeOp,
    Cookie,
    CookieKind,
    FlowRule,
    GroupRule,
    Match,
    OpaqueAction,
    OpaqueMatch,
    Output,
    SwitchRules,
)
from heddle.controller.rules.diff import diff
from tests.support.fabrics.rule_changes import apply_changes

PIN = FlowRule(
    table=1, priority=1000, match=Match(in_port=1), actions=(Output(1),), cookie=Cookie(CookieKind.PIN, 5, 1).pack()
)
GROUP = GroupRule(group_id=1, ports=(1, 2))


def held(*rules: FlowRule, groups: tuple[GroupRule, ...] = ()) -> SwitchRules:
    return SwitchRules(rules=rules, groups=groups)


def test_a_new_generation_alone_changes_nothing():
    assert diff(held(PIN), held(replace(PIN, cookie=Cookie(CookieKind.PIN, 5, 2).pack()))) == ()


def test_another_job_replaces_the_rule():
    theirs = replace(PIN, cookie=Cookie(CookieKind.PIN, 6, 1).pack())
    assert diff(held(PIN), held(theirs)) == (Change(ChangeOp.RULE_ADD, theirs),)


def test_another_action_replaces_the_rule():
    moved = replace(PIN, actions=(Output(2),))
    assert diff(held(PIN), held(moved)) == (Change(ChangeOp.RULE_ADD, moved),)


def test_a_foreign_entry_is_deleted():
    foreign = FlowRule(table=0, priority=7, match=OpaqueMatch(b"\x80"), actions=(OpaqueAction(b"\x00"),), cookie=1)
    assert diff(held(PIN, foreign), held(PIN)) == (Change(ChangeOp.RULE_DELETE, foreign),)


def test_our_match_with_foreign_instructions_is_replaced():
    changed = replace(PIN, actions=(OpaqueAction(b"\x00\x05"),))
    assert diff(held(changed), held(PIN)) == (Change(ChangeOp.RULE_ADD, PIN),)


def test_our_match_with_a_foreign_cookie_is_replaced():
    assert diff(held(replace(PIN, cookie=5)), held(PIN)) == (Change(ChangeOp.RULE_ADD, PIN),)


def test_groups_are_added_modified_and_deleted_by_number():
    other = GroupRule(group_id=2, ports=(2, 1))
    turned = replace(GROUP, ports=(2, 1))
    assert diff(held(groups=(GROUP,)), held(groups=(turned, other))) == (
        Change(ChangeOp.GROUP_ADD, other),
        Change(ChangeOp.GROUP_MODIFY, turned),
    )
    assert diff(held(groups=(GROUP,)), held()) == (Change(ChangeOp.GROUP_DELETE, GROUP),)


def test_a_change_whose_operation_does_not_fit_its_item_is_refused():
    with pytest.raises(ValueError, match="GROUP_ADD cannot carry a FlowRule"):
        apply_changes(held(), [Change(ChangeOp.GROUP_ADD, PIN)])
