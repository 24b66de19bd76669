"""Build messages from os-ken objects; slow, and the only module that imports os_ken.

Rules reach switches through byte templates (`templates`), each made from one message built here. os-ken is
imported on first use: it costs 0.13 s and 30 MB, which commands without switches save.
"""

from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from heddle.controller.model.rule import (
    Action,
    ChangeOp,
    FlowRule,
    GotoTable,
    GroupRule,
    Masked,
    Match,
    Output,
    ToGroup,
)
from heddle.controller.southbound.codec.wire import NO_BUFFER, WHOLE_PACKET


class Codec(NamedTuple):
    """os-ken's constants and classes, and the datapath object that its classes need."""

    ofp: Any
    parser: Any
    datapath: SimpleNamespace


@cache
def codec() -> Codec:
    """Import os-ken's OpenFlow 1.3 codec (never its hub or its packet library)."""
    from os_ken.ofproto import ofproto_v1_3 as ofp
    from os_ken.ofproto import ofproto_v1_3_parser as parser

    return Codec(ofp, parser, SimpleNamespace(ofproto=ofp, ofproto_parser=parser))


def _serialized(message: Any) -> bytes:
    message.serialize()
    return bytes(message.buf)


def flow_mod(op: ChangeOp, rule: FlowRule) -> bytes:
    """Build the message that adds `rule`, or deletes it strictly; xid 0.

    Flags 0 keep the counters of an entry that is replaced. Raises ValueError for a rule with opaque parts.
    """
    ofp, parser, datapath = codec()
    deletes = op is ChangeOp.RULE_DELETE
    return _serialized(
        parser.OFPFlowMod(
            datapath,
            cookie=rule.cookie,
            table_id=rule.table,
            command=ofp.OFPFC_DELETE_STRICT if deletes else ofp.OFPFC_ADD,
            priority=rule.priority,
            buffer_id=NO_BUFFER,
            out_port=ofp.OFPP_ANY,
            out_group=ofp.OFPG_ANY,
            flags=0,
            match=parser.OFPMatch(**_match_fields(rule.match)),
            instructions=[] if deletes else _instructions(rule.actions),
        )
    )


def _match_fields(match: object) -> dict[str, int | tuple[int, int]]:
    """Return the fields as os-ken's keyword arguments; a full mask is omitted."""
    if not isinstance(match, Match):
        raise ValueError(f"{match!r} cannot be encoded: it was read from a switch and can only be deleted")
    found: dict[str, int | tuple[int, int]] = {}
    for name in Match.__dataclass_fields__:
        value = getattr(match, name)
        if isinstance(value, Masked):
            full = 0xFFFF if name == "udp_src" else 0xFFFF_FFFF
            found[name] = value.value if value.mask == full else (value.value, value.mask)
        elif value is not None:
            found[name] = value
    return found


def _instructions(actions: tuple[Action, ...]) -> list[Any]:
    ofp, parser, _ = codec()
    applied, last = (actions[:-1], actions[-1:]) if actions and isinstance(actions[-1], GotoTable) else (actions, ())
    found = []
    if applied:
        built = [_action(action) for action in applied]
        found.append(parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, built))
    found += [parser.OFPInstructionGotoTable(action.table) for action in last if isinstance(action, GotoTable)]
    return found


def _action(action: Action) -> Any:
    _, parser, _ = codec()
    match action:
        case Output(port):
            # max_len matters for CONTROLLER only; one constant keeps rules read back equal.
            return parser.OFPActionOutput(port, WHOLE_PACKET)
        case ToGroup(group_id):
            return parser.OFPActionGroup(group_id)
    raise ValueError(f"{action!r} cannot be applied: goto must come last, opaque instructions cannot be encoded")


def group_mod(op: ChangeOp, group: GroupRule) -> bytes:
    """Build the message that adds, replaces or deletes a fast-failover group; xid 0."""
    ofp, parser, datapath = codec()
    command = {
        ChangeOp.GROUP_ADD: ofp.OFPGC_ADD,
        ChangeOp.GROUP_MODIFY: ofp.OFPGC_MODIFY,
        ChangeOp.GROUP_DELETE: ofp.OFPGC_DELETE,
    }[op]
    ports = () if op is ChangeOp.GROUP_DELETE else group.ports
    buckets = [
        parser.OFPBucket(
            watch_port=port, watch_group=ofp.OFPG_ANY, actions=[parser.OFPActionOutput(port, WHOLE_PACKET)]
        )
        for port in ports
    ]
    return _serialized(parser.OFPGroupMod(datapath, command, ofp.OFPGT_FF, group.group_id, buckets))
