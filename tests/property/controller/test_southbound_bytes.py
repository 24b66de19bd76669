"""Templates encode and readback decodes as os-ken does, for rules of every shape."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.rule import Change, ChangeOp, FlowRule, Match, OpaqueMatch
from heddle.controller.southbound.codec import encode, readback, templates
from heddle.controller.southbound.codec.check import check
from heddle.testing.switches.flow_table import SwitchTables
from heddle.testing.switches.openflow_switch import MULTIPART_REPLY, message
from tests.oracles import os_ken_codec
from tests.property.controller.rules_of_every_shape import GROUPS, RULES

FLOW_OPS = st.sampled_from([ChangeOp.RULE_ADD, ChangeOp.RULE_DELETE])
GROUP_OPS = st.sampled_from([ChangeOp.GROUP_ADD, ChangeOp.GROUP_MODIFY, ChangeOp.GROUP_DELETE])
CHANGES = st.lists(st.builds(Change, FLOW_OPS, RULES) | st.builds(Change, GROUP_OPS, GROUPS), max_size=8)


def messages(data):
    """Cut bytes into messages."""
    found = []
    while data:
        length = int.from_bytes(data[2:4], "big")
        found.append(data[:length])
        data = data[length:]
    return found


def by_os_ken(change):
    build = encode.flow_mod if isinstance(change.item, FlowRule) else encode.group_mod
    return build(change.op, change.item)


@given(CHANGES, st.integers(0, 2**31))
def test_templates_write_what_os_ken_writes_under_consecutive_xids(changes, first_xid):
    expected = [
        built[:4] + struct.pack("!I", first_xid + i) + built[8:] for i, built in enumerate(map(by_os_ken, changes))
    ]
    assert messages(templates.encoded(changes, first_xid)) == expected


@given(RULES)
def test_os_ken_reads_the_rule_out_of_what_is_written(rule):
    flow_mod = os_ken_codec.parsed(templates.encoded([Change(ChangeOp.RULE_ADD, rule)], 1))
    assert os_ken_codec.rule_of(flow_mod) == rule
    assert (flow_mod.buffer_id, flow_mod.flags, flow_mod.idle_timeout) == (0xFFFFFFFF, 0, 0)
    assert (flow_mod.command, flow_mod.out_port, flow_mod.out_group) == (0, 0xFFFFFFFF, 0xFFFFFFFF)


@given(GROUPS)
def test_os_ken_reads_the_group_out_of_what_is_written(group):
    group_mod = templates.encoded([Change(ChangeOp.GROUP_ADD, group)], 1)
    assert struct.unpack_from("!BBHIHBxI", group_mod) == (4, 15, len(group_mod), 1, 0, 3, group.group_id)
    buckets = os_ken_codec.buckets(group_mod[16:])
    assert [(bucket.watch_port, bucket.watch_group) for bucket in buckets] == [(p, 0xFFFFFFFF) for p in group.ports]
    assert [[action.port for action in bucket.actions] for bucket in buckets] == [[port] for port in group.ports]


def as_flow_statistics(flow_mods):
    """Make the statistics reply of a switch that holds these rules, from the bytes it was sent."""
    entries = b""
    for flow_mod in flow_mods:
        table, priority = flow_mod[24], flow_mod[30:32]
        cookie, rest = flow_mod[8:16], flow_mod[48:]
        fixed = struct.pack("!HBxII", 48 + len(rest), table, 1, 2) + priority + bytes(10) + cookie
        entries += fixed + struct.pack("!QQ", 33, 44) + rest
    return message(MULTIPART_REPLY, struct.pack("!HH4x", 1, 0) + entries)


@given(st.lists(RULES, max_size=6))
def test_what_was_written_is_read_back_as_the_same_rules(rules):
    reply = as_flow_statistics(messages(templates.encoded([Change(ChangeOp.RULE_ADD, rule) for rule in rules], 1)))
    check(reply)
    entries = list(readback.each_flow_entry(reply))
    assert [entry.rule for entry in entries] == rules
    assert all((entry.packets, entry.octets) == (33, 44) for entry in entries)
    assert [os_ken_codec.rule_of(entry) for entry in os_ken_codec.parsed(reply).body] == rules


@given(st.lists(GROUPS, max_size=6))
def test_groups_are_read_back_as_the_same_groups(groups):
    tables = SwitchTables(groups={group.group_id: group.ports for group in groups})
    reply = message(MULTIPART_REPLY, struct.pack("!HH4x", 7, 0) + b"".join(tables.group_descriptions()))
    check(reply)
    found = readback.groups(reply)
    assert {group.group_id: group.ports for group in found} == tables.groups
    assert found == [os_ken_codec.group_of(entry) for entry in os_ken_codec.parsed(reply).body]


@given(RULES)
def test_a_foreign_match_is_deleted_by_the_bytes_it_was_read_as(rule):
    own = templates.encoded([Change(ChangeOp.RULE_DELETE, rule)], 5)
    length = int.from_bytes(own[50:52], "big")
    foreign = FlowRule(
        table=rule.table, priority=rule.priority, match=OpaqueMatch(own[52 : 48 + length]), cookie=rule.cookie
    )
    assert templates.encoded([Change(ChangeOp.RULE_DELETE, foreign)], 5) == own


@given(RULES)
def test_a_match_is_unchanged_after_encoding_and_decoding(rule):
    data = templates.encoded([Change(ChangeOp.RULE_DELETE, rule)], 5)
    length = int.from_bytes(data[50:52], "big")
    assert readback.match_of(data[52 : 48 + length]) == rule.match
    assert isinstance(rule.match, Match)
