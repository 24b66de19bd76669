"""The compiled rules of small fabrics."""

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.port_layout import Stage
from heddle.controller.model.rule import (
    Action,
    Cookie,
    CookieKind,
    FlowRule,
    GotoTable,
    Masked,
    Match,
    Output,
    SwitchRules,
    ToGroup,
)
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.pipeline import GUARD_PRIORITY, ROCE_PRIORITY, Table
from heddle.controller.rules.trace import Outcome, Packet, Tracer
from heddle.controller.rules.underlay.imbalance import imbalances
from tests.unit.rules.builders import FIRST_IP, clos3, spine_leaf


def compiled(fabric: Fabric, health: Health | None = None) -> dict[str, SwitchRules]:
    return compile_fabric(fabric, layout_of(fabric), health or Health())


def in_table(held: SwitchRules, table: Table) -> list[FlowRule]:
    return [rule for rule in held.rules if rule.table == table and rule.priority > 0]


def match_of(rule: FlowRule) -> Match:
    assert isinstance(rule.match, Match)
    return rule.match


def ports_of(rule: FlowRule) -> Masked:
    ports = match_of(rule).udp_src
    assert ports is not None
    return ports


def kind_of(rule: FlowRule | None) -> CookieKind:
    cookie = Cookie.unpack(rule.cookie) if rule else None
    assert cookie is not None
    return cookie.kind


def test_a_leaf_delivers_to_each_of_its_nics_by_one_ipv4_and_one_arp_rule():
    held = compiled(spine_leaf(2, 4, nics_per_leaf=2))["leaf2"]
    local = [rule for rule in in_table(held, Table.CLASSIFY) if rule.priority == 40000]
    assert {(match_of(rule).ipv4_dst or match_of(rule).arp_tpa, rule.actions) for rule in local} == {
        (Masked(FIRST_IP + 2, 0xFFFFFFFF), (Output(3),)),
        (Masked(FIRST_IP + 3, 0xFFFFFFFF), (Output(4),)),
    }
    assert len(local) == 4


def test_four_uplinks_are_four_blocks_of_source_ports_that_leave_the_top_bits_alone():
    held = compiled(spine_leaf(4, 2))["leaf1"]
    assert [(ports_of(rule), rule.actions[0]) for rule in in_table(held, Table.STEERING)] == [
        (Masked(choice << 12, 0x3000), ToGroup(choice + 1)) for choice in range(4)
    ]


def test_every_choice_has_a_group_with_all_others_behind_it_in_turn():
    groups = compiled(spine_leaf(3, 2))["leaf1"].groups
    assert [(group.group_id, group.ports) for group in groups] == [(1, (1, 2, 3)), (2, (2, 3, 1)), (3, (3, 1, 2))]


def test_a_single_uplink_needs_no_group():
    held = compiled(spine_leaf(1, 2))["leaf1"]
    assert held.groups == ()
    assert [rule.actions for rule in in_table(held, Table.STEERING)] == [(Output(1),)]


def test_a_spine_holds_prefixes_not_nics():
    sizes = [len(compiled(spine_leaf(2, 8, nics_per_leaf=count))["spine1"].rules) for count in (16, 64, 256)]
    assert sizes[2] <= sizes[0] + 4
    assert sizes[2] < 8 * 256 // 8


def test_a_whole_fabric_has_no_override():
    kinds = {kind_of(rule) for held in compiled(clos3(2, 2, 2, 2)).values() for rule in held.rules}
    assert CookieKind.OVERRIDE not in kinds


def test_a_dead_uplink_is_an_override_at_its_leaf_and_per_destination_at_the_others():
    fabric = spine_leaf(4, 3, nics_per_leaf=4)
    held = compiled(fabric, Health(down_cables=frozenset({"leaf3:2>spine2:3"})))
    here, there = in_table(held["leaf3"], Table.STEERING), in_table(held["leaf1"], Table.OVERRIDES)
    moved = [rule for rule in here if rule.priority == 200]
    assert {ports_of(rule).value >> 12 for rule in moved} == {1}
    assert {rule.actions[0] for rule in moved} == {ToGroup(1), ToGroup(3), ToGroup(4)}
    overrides = [rule for rule in there if match_of(rule).udp_src]
    assert {ports_of(rule).value >> 12 for rule in overrides} == {1}
    assert ToGroup(2) not in {rule.actions[0] for rule in overrides}
    assert all(kind_of(rule) is CookieKind.OVERRIDE for rule in overrides + moved)


def test_the_survivors_share_a_dead_uplinks_ports_nearly_evenly():
    fabric = spine_leaf(4, 2)
    held = compiled(fabric, Health(down_cables=frozenset({"leaf1:2>spine2:1"})))["leaf1"]
    moved = [rule for rule in in_table(held, Table.STEERING) if rule.priority == 200]
    share: dict[Action, float] = {ToGroup(1): 0.0, ToGroup(3): 0.0, ToGroup(4): 0.0}
    for rule in moved:
        share[rule.actions[0]] += 2.0 ** -(ports_of(rule).mask & 0x0FFF).bit_count()
    assert sum(share.values()) == 1
    assert max(share.values()) <= 3 / 8


def test_packets_from_above_that_are_not_for_below_are_dropped_by_the_guards_of_the_upward_tables():
    held = compiled(clos3(2, 2, 2, 2))["pod1-agg1"]
    for table in (Table.OVERRIDES, Table.SPREAD_OVERRIDES):
        guards = [rule for rule in in_table(held, table) if rule.priority == GUARD_PRIORITY]
        assert {rule.match for rule in guards} == {Match(in_port=3), Match(in_port=4)}
        assert all(rule.actions == () for rule in guards)


def test_an_address_without_an_owner_inside_a_pods_prefix_ends_at_its_agg():
    ips = [FIRST_IP, FIRST_IP + 2, FIRST_IP + 100, FIRST_IP + 101]
    fabric = clos3(2, 2, 1, 2, ips=ips)
    tracer = Tracer(fabric, compiled(fabric))
    for port in (0xC000, 0xFFFF):
        followed = tracer.trace("h3-n0", Packet.roce(src_ip=ips[2], dst_ip=FIRST_IP + 30, udp_src=port))
        assert followed.outcome is Outcome.DROPPED
        assert followed.steps[-1].switch == "pod1-agg1"
        assert kind_of(followed.steps[-1].rule) is CookieKind.MISS


def test_a_prefix_inside_anothers_exception_goes_on_to_the_usual_choice():
    base = 0x0A000000
    ips = [base + 200, base, base + 1, base + 2, base + 3]
    fabric = spine_leaf(2, 5, nics_per_leaf=1, ips=ips)
    dead = Health(down_cables=frozenset(f"leaf{number}:1>spine1:{number}" for number in (2, 4, 5)))
    held = compiled(fabric, dead)
    tracer = Tracer(fabric, held, dead)
    for nic in fabric.nics[1:]:
        for port in (0xC000, 0xE000):
            followed = tracer.trace("h1-n0", Packet.roce(src_ip=ips[0], dst_ip=nic.ip, udp_src=port))
            assert followed.nic == nic.id
    assert GotoTable(Table.STEERING) in {
        rule.actions[0] for rule in in_table(held["leaf1"], Table.OVERRIDES) if rule.actions
    }


def test_an_exception_inside_anothers_prefix_keeps_its_other_ports_from_that_one():
    base = 0x0A000000
    ips = [base + 200, base, base + 1, base + 2, base + 3]
    fabric = spine_leaf(3, 5, nics_per_leaf=1, ips=ips)
    dead = Health(down_cables=frozenset({*(f"leaf{n}:1>spine1:{n}" for n in (2, 3, 4)), "leaf5:2>spine2:5"}))
    tracer = Tracer(fabric, compiled(fabric, dead), dead)
    for nic in fabric.nics[1:]:
        for port in range(0xC000, 0x10000, 0x80):
            followed = tracer.trace("h1-n0", Packet.roce(src_ip=ips[0], dst_ip=nic.ip, udp_src=port))
            assert (followed.nic, len(followed.links)) == (nic.id, 4), hex(port)


def test_compilation_makes_equal_rules_of_equal_switches_once():
    held = compiled(spine_leaf(4, 8))
    assert {id(rule) for rule in in_table(held["spine1"], Table.OTHER_IPV4)} == {
        id(rule) for rule in in_table(held["spine4"], Table.OTHER_IPV4)
    }


def test_the_imbalance_of_three_uplinks_is_reported_with_at_least_eight_buckets_each():
    fabric = spine_leaf(3, 4)
    (line,) = imbalances(fabric, layout_of(fabric))
    assert (line.stage, line.choices, line.places) == (Stage.LEAF_UP, 3, 4)
    assert line.buckets >= 8 * line.choices
    assert 0 < line.imbalance <= 0.05


def test_other_traffic_of_an_agg_is_spread_by_bits_that_its_leaves_did_not_choose_by():
    fabric = clos3(2, 4, 2, 2, nics_per_leaf=8)
    tracer = Tracer(fabric, compiled(fabric))
    taken = set()
    for dst in fabric.nics[32:]:
        taken.add(tracer.trace("h1-n0", Packet.ipv4(src_ip=FIRST_IP, dst_ip=dst.ip)).links[2])
    assert {link.split(">")[1].split(":")[0] for link in taken} == {"core1", "core2", "core3", "core4"}


def test_a_leaf_that_lost_its_cable_below_an_agg_is_reached_by_the_other_aggs_not_past_that_one():
    fabric = clos3(1, 2, 2, 1, meshed=True)
    dead = Health(down_cables=frozenset({"pod1-leaf1:1>pod1-agg1:1"}))
    tracer = Tracer(fabric, compiled(fabric, dead), dead)
    src, dst = fabric.nics[1], fabric.nics[0]
    packets = [Packet.roce(src_ip=src.ip, dst_ip=dst.ip, udp_src=port) for port in range(0xC000, 0x10000, 0x111)]
    for packet in [*packets, Packet.ipv4(src_ip=src.ip, dst_ip=dst.ip), Packet.arp(target_ip=dst.ip)]:
        followed = tracer.trace(src.id, packet)
        assert (followed.nic, len(followed.links)) == (dst.id, 4)


def test_a_dead_parallel_cable_down_is_split_over_the_others_at_its_own_switch_only():
    fabric = spine_leaf(1, 2, links_per_spine=3)
    dead = Health(down_cables=frozenset({"leaf2:2>spine1:5"}))
    tracer = Tracer(fabric, compiled(fabric, dead), dead)
    src, dst = fabric.nics[0], fabric.nics[2]
    taken = set()
    for port in range(0xC000, 0x10000, 7):
        followed = tracer.trace(src.id, Packet.roce(src_ip=src.ip, dst_ip=dst.ip, udp_src=port))
        assert followed.nic == dst.id
        taken.add(followed.links[2])
    assert taken == {"spine1:4>leaf2:1", "spine1:6>leaf2:3"}


def test_only_what_goes_to_the_udp_ports_of_roce_and_of_probes_is_steered_as_roce():
    for switch, held in compiled(clos3(2, 2, 2, 1)).items():
        steered = [rule for rule in in_table(held, Table.CLASSIFY) if rule.priority == ROCE_PRIORITY]
        assert [(match_of(rule), rule.actions) for rule in steered] == [
            (Match(eth_type=0x0800, ip_proto=17, udp_dst=port), (GotoTable(Table.PINS),))
            for port in (4791, 4796)
            if "core" not in switch
        ]
