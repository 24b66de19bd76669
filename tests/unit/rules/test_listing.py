"""Rules as rows for JSON."""

import json

from heddle.controller.model.rule import (
    Cookie,
    CookieKind,
    FlowRule,
    GotoTable,
    Masked,
    Match,
    OpaqueAction,
    OpaqueMatch,
    Output,
    SwitchRules,
    ToGroup,
)
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric
from heddle.controller.rules.listing import action_text, group_rows, match_row, rows
from tests.unit.rules.builders import spine_leaf


def test_a_match_has_openflows_names_and_masks_behind_a_slash():
    match = Match(
        eth_type=0x0800,
        ip_proto=17,
        ipv4_src=Masked(0x0A000001, 0xFFFFFFFF),
        ipv4_dst=Masked(0x0A000040, 0xFFFFFFC0),
        udp_src=Masked(0x2000, 0x3000),
    )
    assert match_row(match) == {
        "eth_type": 2048,
        "ip_proto": 17,
        "ipv4_src": "10.0.0.1",
        "ipv4_dst": "10.0.0.64/26",
        "udp_src": "0x2000/0x3000",
    }


def test_low_address_bits_are_written_with_their_mask_and_an_exact_port_as_a_number():
    match = Match(arp_tpa=Masked(1, 3), udp_src=Masked(0xC000, 0xFFFF))
    assert match_row(match) == {"arp_tpa": "0.0.0.1/0.0.0.3", "udp_src": 49152}


def test_opaque_matches_and_actions_are_shown_as_bytes():
    assert match_row(OpaqueMatch(b"\x80\x00")) == {"oxm": "8000"}
    assert action_text(OpaqueAction(b"\x01")) == "instructions:01"


def test_actions_are_texts():
    actions = (Output(3), ToGroup(2), GotoTable(4))
    assert [action_text(action) for action in actions] == ["output:3", "group:2", "goto_table:4"]


def test_a_row_names_the_job_of_a_rule_and_rows_are_sorted_by_falling_priority():
    fabric = spine_leaf(1, 1)
    low = FlowRule(table=1, priority=0, match=Match())
    pin = FlowRule(table=1, priority=9, match=Match(), actions=(Output(1),), cookie=Cookie(CookieKind.PIN, 3, 4).pack())
    first, second = rows(fabric, {"leaf1": SwitchRules(rules=(low, pin))})
    assert first == {
        "switch": "leaf1",
        "table": 1,
        "priority": 9,
        "match": {},
        "actions": ["output:1"],
        "cookie": "0x4851000003000004",
        "kind": "PIN",
        "job_number": 3,
        "generation": 4,
    }
    assert (second["actions"], second["kind"]) == ([], "FOREIGN")


def test_all_rows_of_a_fabric_survive_json():
    fabric = spine_leaf(3, 2, 2, links_per_spine=2)
    compiled = compile_fabric(fabric, layout_of(fabric))
    for listed in (rows(fabric, compiled), group_rows(fabric, compiled)):
        assert json.loads(json.dumps(listed)) == listed
    assert group_rows(fabric, compiled)[0] == {
        "switch": "spine1",
        "group_id": 65536,
        "type": "fast_failover",
        "buckets": [1, 2],
    }
