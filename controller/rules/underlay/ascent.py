"""Compile rules for traffic upwards: RoCE by port bits, other traffic by low address bits, exceptions first."""

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from heddle.controller.model.fabric import Switch
from heddle.controller.model.port_layout import PortField
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
from heddle.controller.model.steering import stage_up
from heddle.controller.rules.groups import up_group_id
from heddle.controller.rules.pipeline import (
    GUARD_PRIORITY,
    OVERRIDE_PRIORITY,
    RESPLIT_PRIORITY,
    SPREAD_PRIORITY,
    STEER_PRIORITY,
    Table,
    prefix_priority,
)
from heddle.controller.rules.underlay.aggregate import ADDRESS_BITS, Labelled, mask_of
from heddle.controller.rules.underlay.compilation import Compilation, underlay, weights_of
from heddle.controller.rules.underlay.split import PortBlock, divided, port_blocks
from heddle.foundation.bits import lowest_bit

USUAL = 0
"""The label of destinations that every usable choice leads to; exceptions are numbered from 1."""


class _Usable(NamedTuple):
    """The usable choices, and the leaves that only some of them reach."""

    anywhere: int
    labels: tuple[int | None, ...]
    exceptions: tuple[int, ...]


class _Ascent(NamedTuple):
    """The inputs of a switch's upward rules; switches with an equal part share the rules of that part."""

    actions: tuple[Action, ...]
    weights: tuple[int, ...]
    port_field: PortField
    spread_shift: int
    usable: _Usable
    turn: int


def up_rules(compilation: Compilation, switch: Switch) -> tuple[FlowRule, ...]:
    """Return the rules by which a switch selects a cable upwards (none where it has no such cable)."""
    cables = compilation.fabric.up_choices[switch.id]
    if not cables:
        return ()
    ports, weights = tuple(cable.lower.number for cable in cables), weights_of(cables)
    ascent = _Ascent(
        actions=compilation.once(("actions", ports), lambda: _actions(ports)),
        weights=weights,
        port_field=compilation.layout.fields[stage_up(switch.role)],
        spread_shift=0 if switch.role.tier == 0 else compilation.spread_shift,
        usable=_usable(compilation, switch),
        turn=compilation.turn[switch.id],
    )
    steering = (ports, weights, ascent.port_field)
    spread = (ports, ascent.spread_shift, ascent.usable.anywhere)
    return (
        _exception_rules(compilation, ascent)
        + compilation.rules_once(("steering", steering), lambda: _steering_rules(ascent))
        + compilation.rules_once(("spread", spread), lambda: _spread_rules(ascent))
    )


def from_above_rules(table: Table, priority: int, ports: tuple[int, ...]) -> tuple[FlowRule, ...]:
    """Return the guard rules of an upward table: packets from above are dropped."""
    return tuple(
        FlowRule(table=table, priority=priority, match=Match(in_port=port), cookie=underlay(CookieKind.MISS))
        for port in ports
    )


def guard_rules(ports: tuple[int, ...]) -> tuple[FlowRule, ...]:
    """Return the guards of both upward entry tables of a switch between leaves and top."""
    return tuple(
        rule
        for table in (Table.OVERRIDES, Table.SPREAD_OVERRIDES)
        for rule in from_above_rules(table, GUARD_PRIORITY, ports)
    )


def _actions(ports: tuple[int, ...]) -> tuple[Action, ...]:
    if len(ports) == 1:
        return (Output(ports[0]),)
    return tuple(ToGroup(up_group_id(i)) for i in range(len(ports)))


def _usable(compilation: Compilation, switch: Switch) -> _Usable:
    every = (1 << len(compilation.fabric.up_choices[switch.id])) - 1
    reach, leaves = compilation.reach, len(compilation.fabric.leaves)
    above = compilation.wanted & ~reach.below[switch.id]
    usual = compilation.once(("usual", leaves), lambda: (USUAL,) * leaves)
    lost: dict[int, int] = {}
    """The choices that do not reach a leaf, for leaves that not all reach."""
    for choice, reached in enumerate(reach.by_choice[switch.id]):
        for leaf in _bits(above & ~reached):
            lost[leaf] = lost.get(leaf, 0) | 1 << choice
    if not lost:
        return _Usable(every, usual, ())
    # A leaf that every choice reaches shows that every choice is usable.
    anywhere = every if above.bit_count() > len(lost) else 0
    for mask in lost.values():
        anywhere |= every & ~mask
    labels: list[int | None] = list(usual)
    number_of: dict[int, int] = {}
    for leaf in sorted(lost):
        mask = every & ~lost[leaf]
        if mask not in (0, anywhere):
            labels[leaf] = number_of.setdefault(mask, len(number_of) + 1)
    return _Usable(anywhere or every, tuple(labels), tuple(number_of))


def _exception_rules(compilation: Compilation, ascent: _Ascent) -> tuple[FlowRule, ...]:
    """Return the exceptions; those of a prefix follow from the prefix, its usable choices and the switch (`turn`)."""
    rules: list[FlowRule] = []
    if ascent.usable.exceptions:
        prefixes = compilation.prefixes(ascent.usable.labels, USUAL)
        excepted = {(prefix.value, prefix.length) for prefix in prefixes if prefix.label != USUAL}
        lengths = {length for _, length in excepted}
        for what, make in (("override", _override_rules), ("spread override", _spread_override_rules)):
            for prefix in prefixes:
                usable = ascent.usable.exceptions[prefix.label - 1] if prefix.label != USUAL else None
                inside = _is_inside(prefix, excepted, lengths)
                key = (what, ascent.turn, prefix.value, prefix.length, usable, inside)
                rules += compilation.rules_once(key, partial(make, ascent, prefix, usable, inside))
    resplit = ("resplit", ascent.turn, ascent.usable.anywhere)
    rules += compilation.rules_once(resplit, lambda: _resplit_rules(ascent))
    return tuple(rules)


def _resplit_rules(ascent: _Ascent) -> Iterator[FlowRule]:
    """Return the rules for the blocks of choices that reach no leaf."""
    for block in divided(ascent.weights, ascent.port_field, ascent.usable.anywhere, ascent.turn):
        yield _steer(Table.STEERING, RESPLIT_PRIORITY, None, block, ascent, CookieKind.OVERRIDE)


def _steering_rules(ascent: _Ascent) -> Iterator[FlowRule]:
    for block in port_blocks(ascent.weights, ascent.port_field):
        yield _steer(Table.STEERING, STEER_PRIORITY, None, block, ascent, CookieKind.STEER)


def _steer(
    table: Table, priority: int, destination: Masked | None, block: PortBlock, ascent: _Ascent, kind: CookieKind
) -> FlowRule:
    return FlowRule(
        table=table,
        priority=priority,
        match=_roce(destination, block.masked),
        actions=(ascent.actions[block.choice],),
        cookie=underlay(kind),
    )


@lru_cache(maxsize=1 << 16)
def _roce(destination: Masked | None, ports: Masked | None) -> Match:
    """Return the match of a block of ports; exceptions of all leaves for one destination have the same."""
    return Match(eth_type=ETH_IPV4, ip_proto=IP_UDP if ports else None, ipv4_dst=destination, udp_src=ports)


def _override_rules(ascent: _Ascent, prefix: Labelled, usable: int | None, inside: bool) -> Iterator[FlowRule]:
    """Return the rules for blocks that must avoid a choice, by exception prefix; other blocks continue.

    A goto rule keeps the other blocks from matching the exception of a shorter prefix around this one.
    """
    priority = prefix_priority(OVERRIDE_PRIORITY, prefix.length)
    if usable is None or inside:
        match = Match(eth_type=ETH_IPV4, ipv4_dst=prefix.masked)
        yield _go_on(Table.OVERRIDES, Table.STEERING, priority, match)
    if usable is not None:
        for block in divided(ascent.weights, ascent.port_field, usable, ascent.turn):
            yield _steer(Table.OVERRIDES, priority + 1, prefix.masked, block, ascent, CookieKind.OVERRIDE)


def _is_inside(prefix: Labelled, others: set[tuple[int, int]], lengths: set[int]) -> bool:
    return any((prefix.value & mask_of(length), length) in others for length in lengths if length < prefix.length)


def _go_on(table: Table, onward: Table, priority: int, match: Match) -> FlowRule:
    actions = (GotoTable(onward),)
    return FlowRule(table=table, priority=priority, match=match, actions=actions, cookie=underlay(CookieKind.OVERRIDE))


def _spread_override_rules(ascent: _Ascent, prefix: Labelled, usable: int | None, _: bool) -> Iterator[FlowRule]:
    priority = prefix_priority(OVERRIDE_PRIORITY, prefix.length)
    for match in _to(prefix.masked):
        if usable is None:
            yield _go_on(Table.SPREAD_OVERRIDES, Table.SPREAD, priority, match)
        else:
            choices = _listed(usable, len(ascent.actions))
            action = ascent.actions[choices[(ascent.turn + prefix.value) % len(choices)]]
            cookie = underlay(CookieKind.OVERRIDE)
            table = Table.SPREAD_OVERRIDES
            yield FlowRule(table=table, priority=priority, match=match, actions=(action,), cookie=cookie)


def _spread_rules(ascent: _Ascent) -> Iterator[FlowRule]:
    """Map every value of the low address bits to a usable choice."""
    count = len(ascent.actions)
    bits = (count - 1).bit_length()
    shift = min(ascent.spread_shift, ADDRESS_BITS - bits)
    usable = _listed(ascent.usable.anywhere, count)
    for value in range(1 << bits):
        choice = value % count
        if choice not in usable:
            choice = usable[value % len(usable)]
        destination = Masked(value << shift, (1 << bits) - 1 << shift) if bits else None
        for match in _to(destination):
            yield FlowRule(
                table=Table.SPREAD,
                priority=SPREAD_PRIORITY,
                match=match,
                actions=(ascent.actions[choice],),
                cookie=underlay(CookieKind.STATIC),
            )


def _to(destination: Masked | None) -> tuple[Match, Match]:
    """Return the matches on an address for IPv4 and for ARP."""
    return (Match(eth_type=ETH_IPV4, ipv4_dst=destination), Match(eth_type=ETH_ARP, arp_tpa=destination))


def _bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while mask:
        yield lowest_bit(mask)
        mask &= mask - 1


def _listed(mask: int, count: int) -> list[int]:
    return [i for i in range(count) if mask >> i & 1]
