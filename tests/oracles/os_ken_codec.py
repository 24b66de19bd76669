"""Decode OpenFlow 1.3 messages by os-ken: the oracle for templates and decoders.

For well-formed messages only: os-ken hangs on others.
"""

import types
from typing import Any

from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from heddle.controller.model.address import parse_ip
from heddle.controller.model.rule import (
    Action,
    FlowRule,
    GotoTable,
    GroupRule,
    Masked,
    Match,
    Output,
    ToGroup,
)

DATAPATH = types.SimpleNamespace(ofproto=ofp, ofproto_parser=parser)
WIDTHS = {"ipv4_src": 32, "ipv4_dst": 32, "udp_src": 16, "arp_tpa": 32}


def parsed(message):
    """Read one message."""
    version, kind, length, xid = message[0], message[1], int.from_bytes(message[2:4], "big"), message[4:8]
    return parser.msg_parser(DATAPATH, version, kind, length, int.from_bytes(xid, "big"), bytearray(message))


def serialized(message):
    """Return the bytes of one of os-ken's messages."""
    message.serialize()
    return bytes(message.buf)


def buckets(data):
    """Read the buckets of a group-mod, which os-ken can only encode."""
    found = []
    offset = 0
    while offset < len(data):
        found.append(parser.OFPBucket.parser(data, offset))
        offset += found[-1].len
    return found


def match_of(match):
    """Read os-ken's match as values of the model."""
    fields: dict[str, Any] = {}
    for name, value in match.items():
        if name in WIDTHS:
            text, mask = value if isinstance(value, tuple) else (value, (1 << WIDTHS[name]) - 1)
            fields[name] = Masked(_number(text), _number(mask))
        else:
            fields[name] = value
    return Match(**fields)


def _number(value):
    return value if isinstance(value, int) else parse_ip(value)


def actions_of(instructions):
    """Read os-ken's instructions as values of the model."""
    found: list[Action] = []
    for instruction in instructions:
        if isinstance(instruction, parser.OFPInstructionGotoTable):
            found.append(GotoTable(instruction.table_id))
            continue
        assert instruction.type == ofp.OFPIT_APPLY_ACTIONS
        for action in instruction.actions:
            is_output = isinstance(action, parser.OFPActionOutput)
            found.append(Output(action.port) if is_output else ToGroup(action.group_id))
    return tuple(found)


def rule_of(entry):
    """Read a flow-mod or a flow statistics entry as values of the model."""
    return FlowRule(
        table=entry.table_id,
        priority=entry.priority,
        match=match_of(entry.match),
        actions=actions_of(entry.instructions),
        cookie=entry.cookie,
    )


def group_of(entry):
    """Read a group-mod or a group description as values of the model."""
    assert entry.type == ofp.OFPGT_FF
    return GroupRule(group_id=entry.group_id, ports=tuple(bucket.watch_port for bucket in entry.buckets))
