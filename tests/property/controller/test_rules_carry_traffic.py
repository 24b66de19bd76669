"""Compiled rules, run by an OpenFlow interpreter that shares no code with them, carry every packet that has a path."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.port_layout import choice_of, home_value, shares
from heddle.controller.model.rule import CookieKind
from heddle.controller.model.steering import layout_of, stage_up
from heddle.controller.rules.compile import WHOLE, compile_fabric
from heddle.controller.rules.listing import group_rows, rows
from heddle.controller.rules.pipeline import fits
from heddle.controller.rules.trace import Packet, Tracer
from tests.oracles.buffer_graph import cycle
from tests.oracles.openflow_interpreter import PFC, Journey, Network, arp, faults_of_path, ping, roce, tcp
from tests.support.examples import examples
from tests.unit.brain.driver import small_fabric
from tests.unit.rules.strategies import fabrics, failures, irregular

PORTS = [0, 1, 4791, 0xBFFF, 0xC000, 0xC001, 0xD555, 0xE000, 0xEAAA, 0xF0F0, 0xFFFF]


def network_of(fabric: Fabric, health: Health = WHOLE, pins=()) -> Network:
    compiled = compile_fabric(fabric, layout_of(fabric), health, pins)
    return Network(
        fabric, rows(fabric, compiled), group_rows(fabric, compiled), health.down_cables, health.down_switches
    )


def leaves_reached(fabric: Fabric, health: Health, start: str) -> set[str]:
    """Every leaf that some walk up and then down over live cables reaches, turning no later than the rules do.

    An independent search: a walk towards a leaf turns down at the first switch that the leaf is below of as built.
    """
    up, down = {}, {}
    for cable in fabric.cables:
        low, high = cable.lower.switch, cable.upper.switch
        down.setdefault(high, []).append((low, cable))
        up.setdefault(low, []).append((high, cable))

    def live(cable):
        return (
            cable.id not in health.down_cables and not {cable.lower.switch, cable.upper.switch} & health.down_switches
        )

    def is_above(switch, leaf, only_live):
        lower = (low for low, cable in down.get(switch, ()) if live(cable) or not only_live)
        return switch == leaf or any(is_above(low, leaf, only_live) for low in lower)

    def gets_to(switch, leaf):
        if is_above(switch, leaf, only_live=False):
            return is_above(switch, leaf, only_live=True)
        return any(live(cable) and gets_to(high, leaf) for high, cable in up.get(switch, ()))

    return {leaf for leaf in fabric.leaves if gets_to(start, leaf)}


def check_pairs(fabric: Fabric, health: Health, ports: list[int]) -> None:
    network = network_of(fabric, health)
    reached = {leaf: leaves_reached(fabric, health, leaf) for leaf in fabric.leaves}
    for src in fabric.nics:
        for dst in fabric.nics:
            if src is dst or dst.port.switch not in reached[src.port.switch]:
                continue
            packets = [roce(src.ip, dst.ip, port) for port in ports]
            packets += [ping(src.ip, dst.ip), tcp(src.ip, dst.ip), arp(dst.ip)]
            for packet in packets:
                journey = network.send(src.id, packet)
                assert journey.nic == dst.id, (src.id, dst.id, packet, journey)
                assert not faults_of_path(fabric, journey, health.down_cables, health.down_switches)


@given(fabric=fabrics(), extra=st.lists(st.integers(0, 0xFFFF), max_size=4))
@settings(max_examples=examples(30))
def test_every_packet_between_any_two_nics_is_delivered_by_an_admissible_path(fabric, extra):
    check_pairs(fabric, WHOLE, PORTS + extra)


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(60))
def test_after_failures_every_pair_that_still_has_a_path_is_served_around_them(data, fabric):
    check_pairs(fabric, data.draw(failures(fabric)), PORTS)


@given(data=st.data(), fabric=irregular())
@settings(max_examples=examples(60))
def test_a_fabric_with_cables_left_out_is_served_wherever_a_path_exists(data, fabric):
    check_pairs(fabric, data.draw(failures(fabric, most=2)), PORTS)


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(30))
def test_compiled_rules_fit_the_pipeline_and_no_two_have_the_same_key(data, fabric):
    for held in compile_fabric(fabric, layout_of(fabric), data.draw(failures(fabric))).values():
        assert [rule for rule in held.rules if not fits(rule)] == []
        assert len({rule.key for rule in held.rules}) == len(held.rules)
        assert len({group.group_id for group in held.groups}) == len(held.groups)


@given(data=st.data(), fabric=st.one_of(fabrics(), irregular()))
@settings(max_examples=examples(30))
def test_no_packets_wait_for_each_other_in_a_circle_after_failures_and_whatever_fails_next(data, fabric):
    assert cycle(fabric, network_of(fabric, data.draw(failures(fabric)))) == ""


def test_guards_alone_keep_packets_that_spines_send_to_wrong_leaves_from_waiting_in_a_circle():
    fabric = small_fabric(spines=2, leaves=3)
    network = network_of(fabric)
    routes = [
        entry
        for (switch, _), entries in network.tables.items()
        for entry in entries
        if switch.startswith("spine") and entry.kind == CookieKind.ROUTE.name
    ]
    for entry in routes:
        entry.actions = ["output:1", "output:2", "output:3"]
    assert cycle(fabric, network) == ""
    for entries in network.tables.values():
        entries[:] = [entry for entry in entries if entry.kind != CookieKind.MISS.name]
    assert {hop.split(":")[0] for hop in cycle(fabric, network).split(" -> ")} >= {"leaf1", "spine1"}


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(20))
def test_each_uplinks_share_of_the_ports_is_what_the_layout_promises(data, fabric):
    layout, network = layout_of(fabric), network_of(fabric)
    leaf = data.draw(st.sampled_from(fabric.leaves))
    choices = fabric.up_choices[leaf]
    far = [nic for nic in fabric.nics if nic.port.switch != leaf]
    near = [nic for nic in fabric.nics if nic.port.switch == leaf]
    if not far or not choices:
        return
    dst = data.draw(st.sampled_from(far))
    taken: Counter[int] = Counter()
    for p in range(0, 1 << 14, 4 if len(fabric.nics) > 4 else 1):
        packet = {**roce(near[0].ip, dst.ip, 0xC000 | p), "in_port": near[0].port.number}
        port = network.forward(leaf, packet, Journey())
        taken[port] += 1
    weights = [cable.capacity_bps for cable in choices]
    width = layout.fields[stage_up(fabric.switch_by_id[leaf].role)].width
    per_value = sum(taken.values()) / (1 << width)
    assert [taken[cable.lower.number] for cable in choices] == [share * per_value for share in shares(weights, width)]


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(30))
def test_a_home_port_takes_the_choice_it_names_at_every_stage(data, fabric):
    layout, network = layout_of(fabric), network_of(fabric)
    wishes = [data.draw(st.integers(0, 63)) for _ in layout.fields]
    src, dst = data.draw(st.sampled_from(fabric.nics)), data.draw(st.sampled_from(fabric.nics))
    if src.port.switch == dst.port.switch:
        return
    switch, port, expected = src.port.switch, 0xC000, []
    while switch != dst.port.switch:
        cables, stage, going_up = options_at(fabric, switch, dst.port.switch)
        if not cables:
            return
        choice, part = wishes[stage] % len(cables), layout.fields[stage]
        weights = [cable.capacity_bps for cable in cables]
        if len(cables) > 1:
            value = home_value(weights, part, choice)
            assert choice_of(weights, part, value) == choice
            port |= value << part.shift
        cable = cables[choice]
        here, there = (cable.lower, cable.upper) if going_up else (cable.upper, cable.lower)
        expected.append(tuple(here))
        switch = there.switch
    journey = network.send(src.id, roce(src.ip, dst.ip, port))
    assert journey.hops[:-1] == expected


def options_at(fabric, switch, leaf):
    """Return the cables among which a switch chooses towards a leaf, the field it reads, and whether they go up."""
    tier = fabric.switch_by_id[switch].role.tier
    if leaf in fabric.leaves_below[switch]:
        down = [cable for cable in fabric.down_cables[switch] if leaf in fabric.leaves_below[cable.lower.switch]]
        return down, 3 if tier == 1 else 2, False
    return fabric.up_choices[switch], 0 if tier == 0 else 1, True


@given(fabric=fabrics(), data=st.data())
@settings(max_examples=examples(20))
def test_pause_frames_end_at_every_switch(fabric, data):
    network = network_of(fabric, data.draw(failures(fabric)))
    for switch in fabric.switches:
        for port in (1, 2, 99):
            journey = Journey()
            assert network.forward(switch.id, {**PFC, "in_port": port}, journey) is None
            assert journey.last is not None
            assert (journey.end, journey.last.kind) == ("dropped", "PFC_DROP")


@given(fabric=st.one_of(fabrics(), irregular()), data=st.data(), port=st.sampled_from(PORTS))
@settings(max_examples=examples(60))
def test_an_unknown_destination_is_dropped_and_counted_as_a_miss_never_looped(fabric, data, port):
    network, src = network_of(fabric), fabric.nics[0]
    owned = {nic.ip for nic in fabric.nics}
    between = st.integers(min(owned) - 1, max(owned) + 1)
    targets = data.draw(st.lists(st.one_of(between, st.integers(0, 2**32 - 1)), min_size=1, max_size=8))
    for target in set(targets) - owned:
        for packet in (roce(src.ip, target, port), ping(src.ip, target), arp(target)):
            journey = network.send(src.id, packet)
            assert journey.nic is None
            assert journey.end in ("dropped", "hairpin")
            if journey.end == "dropped":
                assert journey.last is not None
                assert journey.last.kind == "MISS"


@given(fabric=fabrics(), data=st.data(), port=st.integers(0, 0xFFFF))
@settings(max_examples=examples(30))
def test_trace_and_the_interpreter_agree_on_every_hop(fabric, data, port):
    health = data.draw(failures(fabric))
    compiled = compile_fabric(fabric, layout_of(fabric), health)
    network, tracer = network_of(fabric, health), Tracer(fabric, compiled, health)
    for src in fabric.nics[:3]:
        for dst in fabric.nics[-4:]:
            journey = network.send(src.id, roce(src.ip, dst.ip, port))
            traced = tracer.trace(src.id, Packet.roce(src_ip=src.ip, dst_ip=dst.ip, udp_src=port))
            assert traced.nic == journey.nic
            if journey.nic is not None:
                starts = [f"{switch}:{number}" for switch, number in journey.hops]
                assert [link.split(">")[0] for link in traced.links[1:]] == starts
