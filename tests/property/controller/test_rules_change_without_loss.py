"""Ordered changes: packets deliverable before and after are delivered at every moment in between."""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.rule import ChangeOp, FlowRule, GotoTable, GroupRule, Pin, SwitchRules, ToGroup
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.diff import diff, same_purpose
from heddle.controller.rules.order import order
from heddle.controller.rules.trace import Packet, Tracer
from tests.support.examples import examples
from tests.support.fabrics.rule_changes import apply_changes
from tests.unit.rules.strategies import fabrics, failures

PORTS = [0xC000, 0xC801, 0xD402, 0xDFFF, 0xE803, 0xF7FF, 0xFFFF]


@st.composite
def pins(draw, fabric: Fabric, generation: int) -> tuple[Pin, ...]:
    """Pins along paths that some port of the underlay would take."""
    found = {}
    tracer = Tracer(fabric, compile_fabric(fabric, layout_of(fabric)))
    for _ in range(draw(st.integers(0, 3))):
        src, dst = draw(st.sampled_from(fabric.nics)), draw(st.sampled_from(fabric.nics))
        packet = Packet.roce(src_ip=src.ip, dst_ip=dst.ip, udp_src=draw(st.integers(0, 0xFFFF)))
        port = draw(st.sampled_from([*PORTS, None]))
        if src is not dst:
            found[src.ip, dst.ip, port] = Pin(
                src_ip=src.ip,
                dst_ip=dst.ip,
                udp_source_port=port,
                links=tracer.trace(src.id, packet).links,
                job_number=draw(st.integers(1, 2)),
                generation=generation,
            )
    return tuple(found.values())


def packets_between(fabric: Fabric) -> list[tuple[str, str, Packet]]:
    found = []
    for src in fabric.nics[:4]:
        for dst in fabric.nics[-5:]:
            if src is not dst:
                found += [(src.id, dst.id, Packet.roce(src_ip=src.ip, dst_ip=dst.ip, udp_src=p)) for p in PORTS]
                found.append((src.id, dst.id, Packet.ipv4(src_ip=src.ip, dst_ip=dst.ip)))
                found.append((src.id, dst.id, Packet.arp(target_ip=dst.ip)))
    return found


def delivered(fabric, rules, health, packets):
    tracer = Tracer(fabric, rules, health)
    return [case for case in packets if tracer.trace(case[0], case[2]).nic == case[1]]


def holds(rules: SwitchRules) -> tuple[set, set]:
    return {(rule.key, rule.actions) for rule in rules.rules}, set(rules.groups)


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(60))
def test_no_packet_is_lost_at_any_moment_of_a_change_of_health_and_pins(data, fabric):
    old_health, new_health = data.draw(failures(fabric)), data.draw(failures(fabric))
    really_down = data.draw(st.sampled_from([Health(), new_health]))
    layout = layout_of(fabric)
    old = compile_fabric(fabric, layout, old_health, data.draw(pins(fabric, 1)))
    new = compile_fabric(fabric, layout, new_health, data.draw(pins(fabric, 2)))
    packets = delivered(fabric, new, really_down, delivered(fabric, old, really_down, packets_between(fabric)))
    steps = order({switch: diff(old[switch], new[switch]) for switch in old}, fabric)
    event(f"{len(steps)} steps")
    now = old
    for step in steps:
        for _ in range(2):
            midway = dict(now)
            for switch, changes in step.changes.items():
                done = data.draw(st.integers(0, len(changes)))
                midway[switch] = apply_changes(now[switch], changes[:done])
            assert delivered(fabric, midway, really_down, packets) == packets
        now = {**now, **{switch: apply_changes(now[switch], c) for switch, c in step.changes.items()}}
        assert delivered(fabric, now, really_down, packets) == packets
    assert {switch: holds(rules) for switch, rules in now.items()} == {s: holds(rules) for s, rules in new.items()}


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(25))
def test_applying_the_difference_gives_what_is_desired_and_then_nothing_differs(data, fabric):
    layout = layout_of(fabric)
    a = compile_fabric(fabric, layout, data.draw(failures(fabric)), data.draw(pins(fabric, 1)))
    b = compile_fabric(fabric, layout, data.draw(failures(fabric)), data.draw(pins(fabric, 2)))
    for switch in a:
        assert diff(a[switch], a[switch]) == ()
        made = apply_changes(a[switch], diff(a[switch], b[switch]))
        assert holds(made) == holds(b[switch])
        cookie_of = {rule.key: rule.cookie for rule in made.rules}
        assert all(same_purpose(cookie_of[rule.key], rule.cookie) for rule in b[switch].rules)
        assert diff(made, b[switch]) == ()


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(25))
def test_a_rule_never_names_a_group_or_table_that_is_not_there_while_switches_are_filled_or_emptied(data, fabric):
    full = compile_fabric(fabric, layout_of(fabric), data.draw(failures(fabric)), data.draw(pins(fabric, 1)))
    empty = dict.fromkeys(full, SwitchRules())
    for old, new in ((empty, full), (full, empty)):
        for step in order({switch: diff(old[switch], new[switch]) for switch in old}, fabric):
            assert len(step.changes) > 0
            for switch, changes in step.changes.items():
                held = old[switch]
                for change in changes:
                    held = apply_changes(held, [change])
                    assert_nothing_dangles(held, change.op)
                old = {**old, switch: held}
        assert {switch: holds(rules) for switch, rules in old.items()} == {s: holds(r) for s, r in new.items()}


def assert_nothing_dangles(held: SwitchRules, op: ChangeOp) -> None:
    groups = {group.group_id for group in held.groups if isinstance(group, GroupRule)}
    tables = {rule.table for rule in held.rules}
    for rule in held.rules:
        assert isinstance(rule, FlowRule)
        for action in rule.actions:
            assert not isinstance(action, ToGroup) or action.group_id in groups, (rule, op)
            assert op is not ChangeOp.RULE_ADD or not isinstance(action, GotoTable) or action.table in tables, rule
