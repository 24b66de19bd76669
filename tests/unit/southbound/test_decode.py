"""Small messages are decoded as os-ken does, and as section 7 of the specification defines."""

import struct

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from heddle.controller.model.rule import Match, OpaqueMatch
from heddle.controller.southbound.codec import decode, wire
from heddle.testing.switches.openflow_switch import HELLO, message
from tests.oracles import os_ken_codec
from tests.oracles.os_ken_codec import DATAPATH, serialized


@pytest.mark.parametrize(
    ("version", "body", "offers"),
    [
        (4, b"", True),
        (6, b"", True),
        (1, b"", False),
        (6, struct.pack("!HHI", 1, 8, 1 << 4 | 1 << 6), True),
        (6, struct.pack("!HHI", 1, 8, 1 << 6 | 1 << 1), False),
        (6, struct.pack("!HHB3xHHI", 9, 5, 0, 1, 8, 1 << 4), True),
    ],
)
def test_a_hello_offers_1_3_by_its_bitmap_or_else_by_its_version(version, body, offers):
    assert decode.hello_offers_our_version(message(HELLO, body, version=version)) is offers


def test_an_error_has_names():
    error = decode.error(message(1, struct.pack("!HH", 11, 0) + b"data"))
    assert str(error) == "ROLE_REQUEST_FAILED/STALE"
    assert error.data == b"data"


def test_an_unknown_error_has_numbers():
    assert str(decode.error(message(1, struct.pack("!HH", 77, 9)))) == "error type 77/code 9"


def test_every_name_of_an_error_is_os_kens():
    for (kind, code), name in decode._ERROR_CODES.items():
        stem = {
            0: "HFC", 1: "BRC", 2: "BAC", 3: "BIC", 4: "BMC", 5: "FMFC", 6: "GMFC", 11: "RRFC",
        }[kind]  # fmt: skip
        assert getattr(ofp, f"OFP{stem}_{name}") == code


def test_features_are_read_as_os_ken_reads_them():
    reply = message(6, struct.pack("!QIBB2xII", 0x1122334455667788, 9, 254, 3, 0x4F, 0))
    theirs = os_ken_codec.parsed(reply)
    assert decode.features(reply) == (theirs.datapath_id, theirs.n_tables, theirs.auxiliary_id, theirs.capabilities)


def port_bytes(number=7, config=0, state=0):
    return struct.pack("!I4x6s2x16s8I", number, b"\2\0\0\0\0\7", b"leaf1-eth7", config, state, 0, 0, 0, 0, 0, 0)


def test_ports_are_read_as_os_ken_reads_them():
    reply = message(19, struct.pack("!HH4x", 13, 0) + port_bytes(7) + port_bytes(8))
    theirs = os_ken_codec.parsed(reply).body
    assert [(port.number, port.name) for port in decode.ports(reply)] == [
        (port.port_no, port.name.decode()) for port in theirs
    ]


@pytest.mark.parametrize(("config", "state", "up"), [(0, 0, True), (0, 4, True), (1, 0, False), (0, 1, False)])
def test_a_port_is_up_unless_its_configuration_or_its_link_is_down(config, state, up):
    assert decode.port_status(message(12, struct.pack("!B7x", 2) + port_bytes(7, config, state))).up is up


def test_a_deleted_port_is_down():
    assert decode.port_status(message(12, struct.pack("!B7x", 1) + port_bytes(7))).up is False


def test_a_role_reply_is_read_as_os_ken_reads_it():
    reply = message(25, struct.pack("!I4xQ", 2, 2**63 + 1))
    theirs = os_ken_codec.parsed(reply)
    assert decode.role(reply) == (theirs.role, theirs.generation_id)


def removed(oxm):
    fixed = struct.pack("!QHBBIIHHQQ", 5, 10, 2, 3, 1, 1, 0, 0, 6, 7)
    return message(11, fixed + struct.pack("!HH", 1, 4 + len(oxm)) + oxm + bytes(-(4 + len(oxm)) % 8))


def test_a_flow_removal_is_read_as_os_ken_reads_it():
    reply = removed(struct.pack("!IHI", 0x80000A02, 0x0800, 0x80000004) + b"\0\0\0\3")
    theirs = os_ken_codec.parsed(reply)
    ours = decode.flow_removed(reply)
    assert ours.match == os_ken_codec.match_of(theirs.match) == Match(eth_type=0x0800, in_port=3)
    assert (ours.table, ours.priority, ours.cookie, ours.reason, ours.packets, ours.octets) == (3, 10, 5, 2, 6, 7)
    assert (theirs.table_id, theirs.priority, theirs.cookie, theirs.reason) == (3, 10, 5, 2)


def test_a_flow_removal_of_a_foreign_match_keeps_its_bytes():
    oxm = b"\0\1\0\4\0\0\0\7"
    assert decode.flow_removed(removed(oxm)).match == OpaqueMatch(oxm)


def test_our_hello_offers_1_3_and_nothing_else():
    hello = os_ken_codec.parsed(wire.HELLO)
    assert (hello.version, [element.versions for element in hello.elements]) == (4, [[4]])


def test_our_requests_are_what_os_ken_would_send():
    port = ofp.OFPP_ANY
    expected = {
        wire.FEATURES_REQUEST: parser.OFPFeaturesRequest(DATAPATH),
        wire.BARRIER_REQUEST: parser.OFPBarrierRequest(DATAPATH),
        wire.ECHO_REQUEST: parser.OFPEchoRequest(DATAPATH),
        wire.SET_CONFIG: parser.OFPSetConfig(DATAPATH, 0, ofp.OFPCML_NO_BUFFER),
        wire.SET_ASYNC: parser.OFPSetAsync(DATAPATH, [2, 0], [7, 7], [15, 0]),
        wire.PORT_DESC_REQUEST: parser.OFPPortDescStatsRequest(DATAPATH, 0),
        wire.GROUP_DESC_REQUEST: parser.OFPGroupDescStatsRequest(DATAPATH, 0),
        wire.FLOW_REQUEST: parser.OFPFlowStatsRequest(DATAPATH, 0, ofp.OFPTT_ALL, port, ofp.OFPG_ANY),
        wire.role_request(wire.ControllerRole.MASTER, 9): parser.OFPRoleRequest(DATAPATH, ofp.OFPCR_ROLE_MASTER, 9),
    }
    assert list(expected) == [serialized(request) for request in expected.values()]
