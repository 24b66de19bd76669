"""Compute the changes from a switch's installed rules to its wanted rules; the only source of changes."""

from collections.abc import Iterable
from itertools import takewhile
from operator import is_

from heddle.controller.model.rule import (
    Change,
    ChangeOp,
    Cookie,
    FlowRule,
    GroupRule,
    OpaqueMatch,
    SwitchRules,
)

GENERATION_MASK = 0xFFFFFF


def diff(installed: SwitchRules, desired: SwitchRules) -> tuple[Change, ...]:
    """Return the changes from `installed` to `desired`, unordered (`order` orders them).

    A rule stays where only the generation in its cookie differs: the same rule serves the new plan. Entries of other
    controllers are deleted.
    """
    if installed is desired:
        return ()
    return tuple(_group_changes(installed.groups, desired.groups) + _rule_changes(installed.rules, desired.rules))


def shared(rules: SwitchRules, known: SwitchRules) -> SwitchRules:
    """Return rules as they are, with the objects of equal known rules: they take no memory, and compare fast."""
    of_key = {rule.key: rule for rule in known.rules}

    def same(rule: FlowRule) -> FlowRule:
        found = of_key.get(rule.key)
        return found if found is not None and found == rule else rule

    groups = known.groups if rules.groups == known.groups else rules.groups
    return SwitchRules(rules=tuple(map(same, rules.rules)), groups=groups)


def same_purpose(a: int, b: int) -> bool:
    """Return whether two cookies have the same kind and job, with any generations; foreign ones must be equal."""
    if a == b:
        return True
    ours = Cookie.unpack(a) is not None and Cookie.unpack(b) is not None
    return ours and a & ~GENERATION_MASK == b & ~GENERATION_MASK


def _rule_changes(installed: tuple[FlowRule, ...], desired: tuple[FlowRule, ...]) -> list[Change]:
    # Most rules are the same objects in both, in the same order; comparing keys takes fifty times as long.
    first = same_at_first(installed, desired)
    installed, desired = installed[first:], desired[first:]
    last = same_at_first(reversed(installed), reversed(desired))
    installed, desired = installed[: len(installed) - last], desired[: len(desired) - last]
    both = set(map(id, installed)).intersection(map(id, desired))
    have = {rule.key: rule for rule in installed if id(rule) not in both}
    want = {rule.key: rule for rule in desired if id(rule) not in both}
    changes = [Change(ChangeOp.RULE_ADD, rule) for key, rule in want.items() if not _holds(have.get(key), rule)]
    return changes + [Change(ChangeOp.RULE_DELETE, rule) for key, rule in have.items() if key not in want]


def same_at_first(installed: Iterable[FlowRule], desired: Iterable[FlowRule]) -> int:
    """Return how many rules are the same objects, before the first that is not."""
    return sum(takewhile(bool, map(is_, installed, desired)))


def _holds(installed: FlowRule | None, desired: FlowRule) -> bool:
    if installed is None or isinstance(installed.match, OpaqueMatch):
        return False
    return installed.actions == desired.actions and same_purpose(installed.cookie, desired.cookie)


def _group_changes(installed: tuple[GroupRule, ...], desired: tuple[GroupRule, ...]) -> list[Change]:
    have = {group.group_id: group for group in installed}
    want = {group.group_id: group for group in desired}
    changes = [Change(ChangeOp.GROUP_ADD, group) for group_id, group in want.items() if group_id not in have]
    changes += [
        Change(ChangeOp.GROUP_MODIFY, group)
        for group_id, group in want.items()
        if group_id in have and have[group_id] != group
    ]
    return changes + [Change(ChangeOp.GROUP_DELETE, group) for group_id, group in have.items() if group_id not in want]
