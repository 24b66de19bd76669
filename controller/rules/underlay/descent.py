"""Compile rules for traffic downwards: by destination, RoCE over parallel cables by port bits."""

from collections.abc import Iterator
from typing import NamedTuple

from heddle.controller.model.fabric import Switch
from heddle.controller.model.rule import (
    ETH_ARP,
    ETH_IPV4,
    IP_UDP,
    Action,
    CookieKind,
    FlowRule,
    GotoTable,
    Masked,
    Match,
    Output,
    ToGroup,
)
from heddle.controller.model.steering import stage_down
from heddle.controller.rules.groups import down_group_ids
from heddle.controller.rules.pipeline import DOWN_PRIORITY, Table, prefix_priority
from heddle.controller.rules.underlay.aggregate import Labelled
from heddle.controller.rules.underlay.compilation import Compilation, underlay, weights_of
from heddle.controller.rules.underlay.split import full_cover

UP = 0
"""The label of destinations that are not below; descents are numbered from 1."""


class _Descent(NamedTuple):
    """A descent: a group of cables, and those of them that reach the destination."""

    group: int
    usable: int


class _Exit(NamedTuple):
    """Return the actions of a descent: RoCE by port bits, all other traffic by one action."""

    roce: tuple[tuple[Masked | None, Action], ...]
    other: Action


def has_parallel_cables(compilation: Compilation, switch: Switch) -> bool:
    """Return whether the switch has parallel cables downwards."""
    return any(len(group.cables) > 1 for group in compilation.fabric.down_groups.get(switch.id, ()))


def down_rules(compilation: Compilation, switch: Switch) -> tuple[FlowRule, ...]:
    """Return the rules of a switch above the leaves for destinations below it."""
    labels, descents = compilation.once(_descents_key(compilation, switch), lambda: _descents_of(compilation, switch))
    exits = compilation.once(
        ("exits", switch.id, descents), lambda: tuple(_exit(compilation, switch, descent) for descent in descents)
    )
    goes_up = bool(compilation.fabric.up_choices[switch.id])
    by_port = goes_up or has_parallel_cables(compilation, switch)

    def make() -> Iterator[FlowRule]:
        for prefix in compilation.prefixes(labels, UP if goes_up else None):
            if by_port:
                yield from _roce_rules(prefix, exits)
            yield _ipv4_rule(prefix, exits)
            yield _arp_rule(prefix, exits)

    return compilation.rules_once(("down", labels, exits, goes_up, by_port), make)


def _descents_key(compilation: Compilation, switch: Switch) -> tuple[object, ...]:
    """Return the cache key of a switch's descents: without parallel cables only the leaves of its groups."""
    groups = compilation.fabric.down_groups[switch.id]
    goes_up = bool(compilation.fabric.up_choices[switch.id])
    single = all(len(group.cables) == 1 for group in groups)
    shape = tuple((group.leaves, len(group.cables)) for group in groups)
    if single or compilation.health.whole:
        return ("descents", goes_up, shape)
    return ("descents", switch.id, compilation.health)


def _descents_of(compilation: Compilation, switch: Switch) -> tuple[tuple[int | None, ...], tuple[_Descent, ...]]:
    """Return the label of every leaf, and the descent of each label but UP."""
    labels: list[int | None] = [UP if compilation.fabric.up_choices[switch.id] else None] * len(
        compilation.fabric.leaves
    )
    number_of: dict[_Descent, int] = {}
    for g, group in enumerate(compilation.fabric.down_groups[switch.id]):
        every = (1 << len(group.cables)) - 1
        for leaf in group.leaves:
            number = compilation.leaf_number[leaf]
            usable = every if every == 1 else compilation.reach.cables_down_to(group, number) or every
            labels[number] = number_of.setdefault(_Descent(g, usable), len(number_of) + 1)
    return tuple(labels), tuple(number_of)


def _exit(compilation: Compilation, switch: Switch, descent: _Descent) -> _Exit:
    cables = compilation.fabric.down_groups[switch.id][descent.group].cables
    if len(cables) == 1:
        out = Output(cables[0].upper.number)
        return _Exit(((None, out),), out)
    ids = compilation.once(("down ids", switch.id), lambda: down_group_ids(compilation.fabric.down_groups[switch.id]))
    port_field = compilation.layout.fields[stage_down(switch.role)]
    turn = compilation.turn[switch.id]
    blocks = full_cover(weights_of(cables), port_field, descent.usable, turn)
    usable = [c for c in range(len(cables)) if descent.usable >> c & 1]
    return _Exit(
        tuple((block.masked, ToGroup(ids[descent.group, block.choice])) for block in blocks),
        ToGroup(ids[descent.group, usable[descent.group % len(usable)]]),
    )


def _roce_rules(prefix: Labelled, exits: tuple[_Exit, ...]) -> Iterator[FlowRule]:
    if prefix.label == UP:
        yield _onward(Table.PINS, Table.OVERRIDES, prefix, Match(eth_type=ETH_IPV4, ipv4_dst=prefix.masked))
        return
    for port, action in exits[prefix.label - 1].roce:
        yield FlowRule(
            table=Table.PINS,
            priority=prefix_priority(DOWN_PRIORITY, prefix.length) + (port is not None),
            match=Match(
                eth_type=ETH_IPV4, ip_proto=None if port is None else IP_UDP, ipv4_dst=prefix.masked, udp_src=port
            ),
            actions=(action,),
            cookie=underlay(CookieKind.ROUTE),
        )


def _ipv4_rule(prefix: Labelled, exits: tuple[_Exit, ...]) -> FlowRule:
    match = Match(eth_type=ETH_IPV4, ipv4_dst=prefix.masked)
    return _rule(Table.OTHER_IPV4, prefix, match, exits, CookieKind.ROUTE)


def _arp_rule(prefix: Labelled, exits: tuple[_Exit, ...]) -> FlowRule:
    match = Match(eth_type=ETH_ARP, arp_tpa=prefix.masked)
    return _rule(Table.ARP, prefix, match, exits, CookieKind.ARP)


def _rule(table: Table, prefix: Labelled, match: Match, exits: tuple[_Exit, ...], kind: CookieKind) -> FlowRule:
    if prefix.label == UP:
        return _onward(table, Table.SPREAD_OVERRIDES, prefix, match)
    return FlowRule(
        table=table,
        priority=prefix_priority(DOWN_PRIORITY, prefix.length),
        match=match,
        actions=(exits[prefix.label - 1].other,),
        cookie=underlay(kind),
    )


def _onward(table: Table, onward: Table, prefix: Labelled, match: Match) -> FlowRule:
    return FlowRule(
        table=table,
        priority=prefix_priority(DOWN_PRIORITY, prefix.length),
        match=match,
        actions=(GotoTable(onward),),
        cookie=underlay(CookieKind.CLASSIFY),
    )
