"""Well-formed messages of every kind that a switch may send, as seeds of mutations."""

import struct

from heddle.controller.model.rule import GotoTable, Output, ToGroup
from heddle.testing.switches.flow_table import Entry, Field, SwitchTables
from heddle.testing.switches.openflow_switch import FakeSwitch, message
from tests.fakes.openflow.malformed_openflow import apply, bucket, flow_stats, group_desc, multipart

OUTPUT = struct.pack("!HHIH6x", 0, 16, 2, 0xFFFF)
SET_FIELD = struct.pack("!HHHBBH6x", 25, 16, 0x8000, 5 << 1, 2, 0x0800)
MATCH = frozenset({Field(5, 0x0800, 0xFFFF), Field(10, 17, 0xFF), Field(15, 0xC000, 0xFF00), Field(16, 4791, 0xFFFF)})


def _tables():
    actions = (Output(1), ToGroup(2), GotoTable(3))
    entries = {i: Entry(i, i, MATCH, actions[i % 3 :], 7) for i in range(3)}
    return SwitchTables(entries=entries, groups={1: (1, 2, 3), 2: ()})


def _seeds():
    ports = FakeSwitch(1, ports=2)
    oxm = struct.pack("!HHHBBI4x", 1, 12, 0x8000, 0, 4, 3)
    band = struct.pack("!HHIIHHI", 1, 16, 1, 1, 0, 0, 0)[:16]
    return [
        message(0, struct.pack("!HHIHHI", 1, 8, 1 << 4, 9, 8, 0)),
        message(1, struct.pack("!HH", 5, 1) + bytes(40)),
        message(2, b"echo"),
        message(3, b"echo"),
        message(6, bytes(24)),
        message(8, bytes(4)),
        message(10, struct.pack("!IHBBQ", 0, 60, 0, 0, 0) + oxm + bytes(2 + 60)),
        message(11, struct.pack("!QHBBIIHHQQ", 0, 1, 0, 0, 0, 0, 0, 0, 0, 0) + oxm),
        message(12, struct.pack("!B7x", 2) + ports._port(1)),
        message(21),
        message(25, bytes(16)),
        message(27, bytes(24)),
        multipart(1, b"".join(_tables().flow_statistics())),
        flow_stats(instructions=apply(OUTPUT + SET_FIELD) + struct.pack("!HH4x", 5, 8)),
        flow_stats(match=oxm, instructions=struct.pack("!HH4xQQ", 2, 24, 1, 1)),
        multipart(7, b"".join(_tables().group_descriptions())),
        group_desc(bucket(OUTPUT + SET_FIELD)),
        multipart(6, struct.pack("!H38x", 56) + bytes(16)),
        multipart(9, struct.pack("!IH34x", 1, 56) + bytes(16)),
        multipart(10, struct.pack("!HHI", 24, 0, 1) + band),
        multipart(13, ports._port(1) + ports._port(2)),
        multipart(4, bytes(112)),
        multipart(2, bytes(24)),
    ]


SEEDS = _seeds()
