"""Installed entries that the model cannot express are kept as bytes, so that they can be identified and deleted."""

import struct

import pytest

from heddle.controller.model.rule import FlowRule, GotoTable, GroupRule, Match, OpaqueAction, OpaqueMatch, Output
from heddle.controller.southbound.codec import readback
from heddle.controller.southbound.codec.check import check
from tests.fakes.openflow.malformed_openflow import apply, bucket, flow_stats, group_desc

IN_PORT_3 = b"\x80\0\0\4\0\0\0\3"
OUTPUT_2 = struct.pack("!HHIH6x", 0, 16, 2, 0xFFFF)


def match(oxm):
    return struct.pack("!HH", 1, 4 + len(oxm)) + oxm + bytes(-(4 + len(oxm)) % 8)


def only_rule(reply):
    check(reply)
    (entry,) = readback.each_flow_entry(reply)
    return entry.rule


@pytest.mark.parametrize(
    "oxm",
    [
        b"\0\1\0\4\0\0\0\7",
        b"\x80\0\x02\4\0\0\0\3",
        IN_PORT_3 + IN_PORT_3,
        b"\x80\0\x17\x08\x0a\0\0\1\xff\xff\0\0",
        b"\x80\0\x21\4\x12\xb7\xff\xff",
        b"\xff\xff\x54\6ONF\0\0\2",
    ],
    ids=["register", "in_phy_port", "twice", "bits outside the mask", "masked udp_dst", "experimenter"],
)
def test_an_unknown_match_is_kept_as_its_bytes(oxm):
    assert only_rule(flow_stats(match=match(oxm))).match == OpaqueMatch(oxm)


def test_a_known_match_is_decoded():
    assert only_rule(flow_stats(match=match(IN_PORT_3))).match == Match(in_port=3)


@pytest.mark.parametrize(
    "instructions",
    [
        apply(struct.pack("!HHI", 21, 8, 3) + OUTPUT_2),
        apply(OUTPUT_2) + apply(OUTPUT_2),
        struct.pack("!HHB3x", 1, 8, 4) + apply(OUTPUT_2),
        struct.pack("!HH4x", 5, 8),
        struct.pack("!HHI", 6, 8, 1),
        struct.pack("!HH4x", 3, 24) + OUTPUT_2,
        apply(b""),
        apply(struct.pack("!HHIH6x", 0, 16, 0xFFFFFFFD, 128)),
        struct.pack("!HH4x", 0xFFFF, 8),
    ],
    ids=["set-queue", "two lists", "goto first", "clear", "meter", "write", "empty list", "controller", "vendor"],
)
def test_unknown_instructions_are_kept_as_their_bytes(instructions):
    assert only_rule(flow_stats(instructions=instructions)).actions == (OpaqueAction(instructions),)


def test_known_instructions_are_decoded():
    rule = only_rule(flow_stats(instructions=apply(OUTPUT_2) + struct.pack("!HHB3x", 1, 8, 4)))
    assert rule == FlowRule(table=0, priority=1, match=Match(), actions=(Output(2), GotoTable(4)))


@pytest.mark.parametrize("offset", [30, 32, 34], ids=["idle timeout", "hard timeout", "flags"])
def test_the_instructions_of_an_entry_with_a_timeout_or_flags_are_opaque(offset):
    reply = bytearray(flow_stats(instructions=apply(OUTPUT_2)))
    reply[16 + offset - 16 + 1] = 1
    assert only_rule(bytes(reply)).actions == (OpaqueAction(apply(OUTPUT_2)),)


@pytest.mark.parametrize(
    "buckets",
    [
        bucket(struct.pack("!HHIH6x", 0, 16, 2, 0)),
        bucket(struct.pack("!HHIH6x", 0, 16, 1, 0) + struct.pack("!HHI", 21, 8, 3)),
        struct.pack("!HHII4x", 32, 0, 2, 7) + OUTPUT_2,
    ],
    ids=["watches another port", "sets a queue", "watches a group"],
)
def test_a_group_of_another_shape_has_no_ports(buckets):
    reply = group_desc(buckets)
    check(reply)
    assert readback.groups(reply) == [GroupRule(group_id=1, ports=())]
