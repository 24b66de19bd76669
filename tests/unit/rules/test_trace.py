"""Traces of packets, lost and looping ones included."""

from heddle.controller.model.health import Health
from heddle.controller.model.rule import FlowRule, GotoTable, Match, Output, SwitchRules, ToGroup
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.trace import Outcome, Packet, trace
from tests.unit.rules.builders import FIRST_IP, spine_leaf

FABRIC = spine_leaf(2, 2, 1)
PING = Packet.ipv4(src_ip=FIRST_IP, dst_ip=FIRST_IP + 1)


def all_to(*actions):
    return SwitchRules(rules=(FlowRule(table=0, priority=1, match=Match(), actions=actions),))


def end_of(rules, health=None, packet=PING):
    found = trace(FABRIC, rules, "h1-n0", packet, health)
    return found.outcome, found.reason


def test_a_delivered_packet_names_its_links_from_nic_to_nic_and_the_rule_of_every_table():
    rules = compile_fabric(FABRIC, layout_of(FABRIC))
    found = trace(FABRIC, rules, "h1-n0", Packet.roce(src_ip=FIRST_IP, dst_ip=FIRST_IP + 1, udp_src=0xFFFF))
    assert found.links == ("h1-n0>leaf1:3", "leaf1:2>spine2:1", "spine2:2>leaf2:2", "leaf2:3>h2-n0")
    assert (found.outcome, found.nic) == (Outcome.DELIVERED, "h2-n0")
    assert [(step.switch, int(step.table)) for step in found.steps if step.switch == "leaf1"] == [
        ("leaf1", table) for table in range(4)
    ]
    assert str(found.steps[3]) == (
        "leaf1 table 3, priority 100, eth_type=2048, ip_proto=17, udp_src=0x2000/0x2000: group:2"
    )


def test_a_packet_that_meets_a_switch_twice_is_a_loop():
    rules = {
        "leaf1": all_to(Output(1)),
        "spine1": all_to(Output(2)),
        "leaf2": all_to(Output(2)),
        "spine2": all_to(Output(1)),
    }
    assert end_of(rules) == (Outcome.LOOP, "leaf1 is visited twice")


def test_a_switch_without_rules_drops():
    assert end_of({}) == (Outcome.DROPPED, "no rule matches in table 0 of leaf1")
    assert str(trace(FABRIC, {}, "h1-n0", PING).steps[0]) == "leaf1 table 0: no rule matches"


def test_ports_and_groups_without_a_cable_drop():
    assert end_of({"leaf1": all_to(Output(77))})[1] == "leaf1:77 has no cable"
    assert end_of({"leaf1": all_to(Output(3))})[1] == "leaf1:3 has no cable"
    assert end_of({"leaf1": all_to(ToGroup(5))})[1] == "leaf1 has no group 5"
    assert end_of({"leaf1": all_to(GotoTable(0))})[1] == "table 0 of leaf1 has an unknown action"
    assert end_of({"leaf1": all_to()})[1] == "dropped by table 0 of leaf1"


def test_failed_parts_carry_no_packet():
    rules = compile_fabric(FABRIC, layout_of(FABRIC))
    assert end_of(rules, Health(down_nics=frozenset({"h1-n0"})))[1] == "h1-n0 is down"
    assert end_of(rules, Health(down_nics=frozenset({"h2-n0"})))[0] is Outcome.DROPPED
    assert end_of(rules, Health(down_switches=frozenset({"leaf1"})))[1] == "leaf1 is down"
    both = Health(down_switches=frozenset({"spine1", "spine2"}))
    assert "group" in end_of(rules, both)[1]


def test_the_higher_priority_wins_whatever_the_order_of_the_rules():
    wide = FlowRule(table=0, priority=1, match=Match(), actions=())
    narrow = FlowRule(table=0, priority=2, match=Match(eth_type=0x0800), actions=(Output(77),))
    for rules in ((wide, narrow), (narrow, wide)):
        assert end_of({"leaf1": SwitchRules(rules=rules)})[1] == "leaf1:77 has no cable"
