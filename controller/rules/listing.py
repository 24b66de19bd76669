"""Convert rules to rows of plain values, for JSON."""

from collections.abc import Iterator, Mapping
from typing import Any

from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.rule import (
    Action,
    Cookie,
    FlowRule,
    GotoTable,
    GroupRule,
    Masked,
    Match,
    OpaqueAction,
    OpaqueMatch,
    Output,
    SwitchRules,
    ToGroup,
)

EXACT_ADDRESS = 0xFFFFFFFF
EXACT_PORT = 0xFFFF

Row = dict[str, Any]


def rows(fabric: Fabric, rules: Mapping[str, SwitchRules]) -> list[Row]:
    """Return one row per flow rule: switch, table, priority, match (OpenFlow names), actions, cookie and its parts."""
    return [_rule_row(switch, rule) for switch in _listed(fabric, rules) for rule in _in_order(rules[switch])]


def group_rows(fabric: Fabric, rules: Mapping[str, SwitchRules]) -> list[Row]:
    """Return one row per group: switch, group_id, type and the ports of its buckets in order of preference."""
    return [_group_row(switch, group) for switch in _listed(fabric, rules) for group in rules[switch].groups]


def match_row(match: Match | OpaqueMatch) -> Row:
    """Return a match as an object with OpenFlow's field names; a masked value is text with a slash."""
    if isinstance(match, OpaqueMatch):
        return {"oxm": match.oxm.hex()}
    return dict(_fields(match))


def action_text(action: Action) -> str:
    """Return an action as text: `output:3`, `group:2` or `goto_table:3`."""
    match action:
        case Output(port):
            return f"output:{port}"
        case ToGroup(group_id):
            return f"group:{group_id}"
        case GotoTable(table):
            return f"goto_table:{table}"
        case OpaqueAction(instructions):
            return f"instructions:{instructions.hex()}"


def _listed(fabric: Fabric, rules: Mapping[str, SwitchRules]) -> list[str]:
    return [switch.id for switch in fabric.switches if switch.id in rules]


def _in_order(held: SwitchRules) -> list[FlowRule]:
    """Return the rules sorted by table, highest priority first."""
    return sorted(held.rules, key=lambda rule: (rule.table, -rule.priority))


def _rule_row(switch: str, rule: FlowRule) -> Row:
    cookie = Cookie.unpack(rule.cookie)
    return {
        "switch": switch,
        "table": int(rule.table),
        "priority": rule.priority,
        "match": match_row(rule.match),
        "actions": [action_text(action) for action in rule.actions],
        "cookie": f"0x{rule.cookie:016x}",
        "kind": cookie.kind.name if cookie else "FOREIGN",
        "job_number": cookie.job_number if cookie else 0,
        "generation": cookie.generation if cookie else 0,
    }


def _group_row(switch: str, group: GroupRule) -> Row:
    return {"switch": switch, "group_id": group.group_id, "type": "fast_failover", "buckets": list(group.ports)}


def _fields(match: Match) -> Iterator[tuple[str, int | str]]:
    for name in Match.__slots__:
        value = getattr(match, name)
        if isinstance(value, Masked):
            yield name, _port_text(value) if name == "udp_src" else _address_text(value)
        elif value is not None:
            yield name, value


def _port_text(port: Masked) -> int | str:
    return port.value if port.mask == EXACT_PORT else f"0x{port.value:04x}/0x{port.mask:04x}"


def _address_text(address: Masked) -> str:
    """Return an address with its prefix length, or with its mask where the mask is no prefix."""
    host_bits = ~address.mask & EXACT_ADDRESS
    if host_bits == 0:
        return ip_text(address.value)
    if host_bits & (host_bits + 1) == 0:
        return f"{ip_text(address.value)}/{32 - host_bits.bit_length()}"
    return f"{ip_text(address.value)}/{ip_text(address.mask)}"
