"""Compile pins: a pinned flow has a rule on every switch of its path that has a choice."""

from collections.abc import Iterable

from heddle.controller.model.fabric import Cable, Fabric
from heddle.controller.model.rule import (
    ETH_IPV4,
    IP_UDP,
    Action,
    Cookie,
    CookieKind,
    FlowRule,
    Masked,
    Match,
    Pin,
    ToGroup,
)
from heddle.controller.rules.groups import down_group_ids, up_group_id
from heddle.controller.rules.pipeline import PIN_PAIR_PRIORITY, PIN_PRIORITY, Table

EXACT_ADDRESS = 0xFFFFFFFF
EXACT_PORT = 0xFFFF
_PINS = int(Table.PINS)  # comparing with an enum takes longer


def pin_rules(fabric: Fabric, pins: Iterable[Pin]) -> dict[str, tuple[FlowRule, ...]]:
    """Return the pin rules by switch, for switches with a choice on a pin's path."""
    found: dict[str, list[FlowRule]] = {}
    leaf_of = {nic.ip: nic.port.switch for nic in fabric.nics}
    choices: dict[str, _Choices] = {}
    for pin in pins:
        for link in pin.links:
            cable = fabric.cable_by_link.get(link)
            if cable is None:
                continue
            switch = cable.lower.switch if link == cable.up_link else cable.upper.switch
            if switch not in choices:
                choices[switch] = _Choices(fabric, switch)
            group_id = choices[switch].group_of(cable, leaf_of[pin.dst_ip])
            if group_id is not None:
                found.setdefault(switch, []).append(_pin_rule(pin, ToGroup(group_id)))
    return {switch: tuple(rules) for switch, rules in found.items()}


def is_pin(rule: FlowRule) -> bool:
    """Return whether a rule is a pin, of whichever job or controller: the underlay has no rule at its place."""
    return rule.table == _PINS and rule.priority >= PIN_PAIR_PRIORITY


class _Choices:
    """The fast-failover groups of one switch, by cable."""

    def __init__(self, fabric: Fabric, switch: str) -> None:
        up = fabric.up_choices[switch]
        self._up = {cable: up_group_id(i) for i, cable in enumerate(up)} if len(up) > 1 else {}
        groups = fabric.down_groups.get(switch, ())
        self._down: dict[tuple[Cable, str], int] = {}
        for (g, c), group_id in down_group_ids(groups).items():
            self._down.update({(groups[g].cables[c], leaf): group_id for leaf in groups[g].leaves})

    def group_of(self, cable: Cable, leaf: str) -> int | None:
        """Return the group of a cable towards a leaf; None where the switch has no other cable to that leaf."""
        return self._up.get(cable) or self._down.get((cable, leaf))


def _pin_rule(pin: Pin, action: Action) -> FlowRule:
    """Return the rule that forwards a pinned flow (or every flow of its address pair)."""
    port = pin.udp_source_port
    return FlowRule(
        table=Table.PINS,
        priority=PIN_PAIR_PRIORITY if port is None else PIN_PRIORITY,
        match=Match(
            eth_type=ETH_IPV4,
            ip_proto=None if port is None else IP_UDP,
            ipv4_src=Masked(pin.src_ip, EXACT_ADDRESS),
            ipv4_dst=Masked(pin.dst_ip, EXACT_ADDRESS),
            udp_src=None if port is None else Masked(port, EXACT_PORT),
        ),
        actions=(action,),
        cookie=Cookie(CookieKind.PIN, pin.job_number, pin.generation).pack(),
    )
