"""Apply rule changes to the rules of a switch, as a switch does."""

from collections.abc import Iterable

from heddle.controller.model.rule import Change, ChangeOp, FlowRule, GroupRule, SwitchRules


def apply_changes(installed: SwitchRules, changes: Iterable[Change]) -> SwitchRules:
    """Return the rules of a switch after the changes, applied in order; raises ValueError for an unknown change."""
    rules = {rule.key: rule for rule in installed.rules}
    groups = {group.group_id: group for group in installed.groups}
    for op, item in changes:
        match op, item:
            case ChangeOp.RULE_ADD, FlowRule():
                rules[item.key] = item
            case ChangeOp.RULE_DELETE, FlowRule():
                rules.pop(item.key, None)
            case ((ChangeOp.GROUP_ADD | ChangeOp.GROUP_MODIFY), GroupRule()):
                groups[item.group_id] = item
            case ChangeOp.GROUP_DELETE, GroupRule():
                groups.pop(item.group_id, None)
            case _:
                raise ValueError(f"{op.name} cannot carry a {type(item).__name__}")
    return SwitchRules(rules=tuple(rules.values()), groups=tuple(groups.values()))
