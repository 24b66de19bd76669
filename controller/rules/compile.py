"""Compile the rules of every switch from a fabric, its health and pins.

The underlay needs no plan: it forwards any packet on an admissible path that the source port selects. A plan adds pins
for flows whose port cannot be chosen; health only changes which choices are used.
"""

from collections.abc import Iterable

from heddle.controller.model.fabric import Fabric, Nic, Role, Switch
from heddle.controller.model.health import Health
from heddle.controller.model.port_layout import SteeringLayout
from heddle.controller.model.rule import (
    CONTROLLER_PORT,
    ETH_ARP,
    ETH_IPV4,
    ETH_LLDP,
    ETH_PFC,
    IP_UDP,
    PROBE_PORT,
    ROCE_PORT,
    Action,
    CookieKind,
    FlowRule,
    GotoTable,
    Masked,
    Match,
    Output,
    Pin,
    SwitchRules,
)
from heddle.controller.rules.groups import down_groups, up_groups
from heddle.controller.rules.pins import EXACT_ADDRESS
from heddle.controller.rules.pipeline import (
    ARP_PRIORITY,
    FROM_ABOVE_PRIORITY,
    IPV4_PRIORITY,
    LLDP_PRIORITY,
    LOCAL_PRIORITY,
    MISS_PRIORITY,
    PFC_PRIORITY,
    ROCE_PRIORITY,
    Table,
)
from heddle.controller.rules.underlay.ascent import from_above_rules, guard_rules, up_rules
from heddle.controller.rules.underlay.compilation import Compilation, Parts, underlay
from heddle.controller.rules.underlay.descent import down_rules, has_parallel_cables

WHOLE = Health()


def compile_fabric(
    fabric: Fabric,
    layout: SteeringLayout,
    health: Health = WHOLE,
    pins: Iterable[Pin] = (),
    parts: Parts | None = None,
) -> dict[str, SwitchRules]:
    """Return the wanted rules by switch, including switches that are down: they get them when they reconnect.

    With the `parts` of earlier compilations of the fabric only what differs is computed.
    """
    parts = parts or Parts()
    parts.begin()
    compilation = Compilation(fabric, layout, health, pins, parts)
    return {switch.id: _rules_of(compilation, switch) for switch in fabric.switches}


def _rules_of(compilation: Compilation, switch: Switch) -> SwitchRules:
    ports_up = tuple(cable.lower.number for cable in compilation.fabric.up_choices[switch.id])
    rules = _classify_rules(compilation, switch) + compilation.pin_rules.get(switch.id, ())
    if switch.role is Role.LEAF:
        from_above = ("from above", ports_up)
        rules += _local_rules(compilation, switch) + compilation.rules_once(
            from_above, lambda: from_above_rules(Table.CLASSIFY, FROM_ABOVE_PRIORITY, ports_up)
        )
    else:
        guards = compilation.rules_once(("guards", ports_up), lambda: guard_rules(ports_up))
        rules += down_rules(compilation, switch) + guards
    groups = compilation.once(("up groups", ports_up), lambda: up_groups(ports_up))
    groups += compilation.once(
        ("down groups", switch.id), lambda: down_groups(compilation.fabric.down_groups.get(switch.id, ()))
    )
    return SwitchRules(rules=rules + up_rules(compilation, switch), groups=groups)


def _classify_rules(compilation: Compilation, switch: Switch) -> tuple[FlowRule, ...]:
    """Return the rules that classify packets, and the table-miss rules."""
    goes_up = bool(compilation.fabric.up_choices[switch.id])
    by_port = goes_up or has_parallel_cables(compilation, switch)
    return compilation.rules_once(("classify", goes_up, by_port), lambda: _classes(by_port) + _misses(goes_up, by_port))


def _classes(by_port: bool) -> list[FlowRule]:
    steered = [Match(eth_type=ETH_IPV4, ip_proto=IP_UDP, udp_dst=port) for port in (ROCE_PORT, PROBE_PORT)]
    rules = [
        _rule(Table.CLASSIFY, PFC_PRIORITY, Match(eth_type=ETH_PFC), (), CookieKind.PFC_DROP),
        _rule(Table.CLASSIFY, LLDP_PRIORITY, Match(eth_type=ETH_LLDP), (Output(CONTROLLER_PORT),), CookieKind.LLDP),
        _classify(IPV4_PRIORITY, Match(eth_type=ETH_IPV4), Table.OTHER_IPV4),
        _classify(ARP_PRIORITY, Match(eth_type=ETH_ARP), Table.ARP),
    ]
    return rules + [_classify(ROCE_PRIORITY, match, Table.PINS) for match in steered if by_port]


def _misses(goes_up: bool, by_port: bool) -> list[FlowRule]:
    """Return the table-miss rule of every table: continue towards the tables that select a cable upwards, or drop."""
    onward = {
        Table.PINS: Table.OVERRIDES,
        Table.OVERRIDES: Table.STEERING,
        Table.OTHER_IPV4: Table.SPREAD_OVERRIDES,
        Table.ARP: Table.SPREAD_OVERRIDES,
        Table.SPREAD_OVERRIDES: Table.SPREAD,
    }
    if goes_up:
        return [_miss(table, onward.get(table)) for table in Table]
    tables = [Table.CLASSIFY, Table.OTHER_IPV4, Table.ARP] + ([Table.PINS] if by_port else [])
    return [_miss(table, None) for table in tables]


def _miss(table: Table, onward: Table | None) -> FlowRule:
    if onward is None:
        return _rule(table, MISS_PRIORITY, Match(), (), CookieKind.MISS)
    return _rule(table, MISS_PRIORITY, Match(), (GotoTable(onward),), CookieKind.CLASSIFY)


def _classify(priority: int, match: Match, onward: Table) -> FlowRule:
    return _rule(Table.CLASSIFY, priority, match, (GotoTable(onward),), CookieKind.CLASSIFY)


def _rule(table: Table, priority: int, match: Match, actions: tuple[Action, ...], kind: CookieKind) -> FlowRule:
    return FlowRule(table=table, priority=priority, match=match, actions=actions, cookie=underlay(kind))


def _local_rules(compilation: Compilation, switch: Switch) -> tuple[FlowRule, ...]:
    """Return one rule for IPv4 and one for ARP for each NIC of a leaf; they drop where the NIC is in quarantine."""
    nics = compilation.fabric.nics_of_leaf.get(switch.id, ())
    shut = compilation.health.quarantined_nics.intersection(nic.id for nic in nics)
    return compilation.rules_once(("local", switch.id, shut), lambda: _to_nics(nics, shut))


def _to_nics(nics: Iterable[Nic], shut: frozenset[str]) -> list[FlowRule]:
    rules = []
    for nic in nics:
        address, out = Masked(nic.ip, EXACT_ADDRESS), () if nic.id in shut else (Output(nic.port.number),)
        to_nic, asks_for_nic = Match(eth_type=ETH_IPV4, ipv4_dst=address), Match(eth_type=ETH_ARP, arp_tpa=address)
        rules.append(_rule(Table.CLASSIFY, LOCAL_PRIORITY, to_nic, out, CookieKind.LOCAL))
        rules.append(_rule(Table.CLASSIFY, LOCAL_PRIORITY, asks_for_nic, out, CookieKind.ARP))
    return rules
