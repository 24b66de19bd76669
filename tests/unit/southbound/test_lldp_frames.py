"""LLDP frames of our own, byte by byte, and the OpenFlow messages that carry them."""

import hashlib
import hmac
import struct

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from heddle.controller.southbound.codec.check import check
from heddle.controller.southbound.codec.packets import PacketIn, limit_packet_ins, packet_in, packet_out
from heddle.controller.southbound.lldp.frame import Origin, claimed, frame, is_genuine
from tests.oracles.os_ken_codec import DATAPATH

KEY = bytes(range(32))
ORIGIN = Origin(datapath_id=0x0000_00A1_B2C3_D4E5, port=17, epoch=3)


def tlvs(data):
    """Return the elements of an LLDP frame by the standard's rules, and what follows its end."""
    found, at = [], 14
    while True:
        (head,) = struct.unpack_from("!H", data, at)
        kind, length = head >> 9, head & 0x1FF
        found.append((kind, data[at + 2 : at + 2 + length]))
        at += 2 + length
        if kind == 0:
            return found, data[at:]


def test_a_frame_is_80_bytes_of_lldp_to_the_nearest_bridge():
    data = frame(KEY, ORIGIN)
    assert len(data) == 80
    assert data[:14].hex() == "0180c200000e" + "02a1b2c3d4e5" + "88cc"
    body = struct.pack("!QIQ", *ORIGIN)
    mac = hmac.new(KEY, body, hashlib.sha256).digest()[:16]
    found, rest = tlvs(data)
    assert found == [
        (1, b"\x07" + struct.pack("!Q", ORIGIN.datapath_id)),
        (2, b"\x07" + struct.pack("!I", ORIGIN.port)),
        (3, b"\0\x78"),
        (127, bytes.fromhex("024844") + b"\x01" + body + mac),
        (0, b""),
    ]
    assert rest == b""


def test_what_is_sent_is_recognised_also_with_padding_after_it():
    data = frame(KEY, ORIGIN)
    assert claimed(data) == ORIGIN
    assert is_genuine(KEY, data, ORIGIN)
    assert is_genuine(KEY, data + bytes(20), ORIGIN)


def test_no_byte_of_a_frame_can_be_changed():
    data = frame(KEY, ORIGIN)
    for at in range(len(data)):
        forged = data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
        origin = claimed(forged)
        assert origin is not None
        assert not is_genuine(KEY, forged, origin), at


def test_a_frame_of_another_process_is_not_genuine():
    data = frame(bytes(32), ORIGIN)
    assert not is_genuine(KEY, data, ORIGIN)


@pytest.mark.parametrize("data", [b"", b"\x88\xcc", bytes(79)])
def test_a_short_frame_claims_nothing(data):
    assert claimed(data) is None


def test_64_kilobytes_of_elements_are_not_parsed():
    data = frame(KEY, ORIGIN)[:14] + struct.pack("!H", 127 << 9 | 4) * 10_000
    origin = claimed(data)
    assert origin is not None
    assert not is_genuine(KEY, data, origin)


def test_a_packet_out_is_that_of_os_ken():
    data = frame(KEY, ORIGIN)
    built = parser.OFPPacketOut(DATAPATH, ofp.OFP_NO_BUFFER, ofp.OFPP_CONTROLLER, [parser.OFPActionOutput(17, 0)], data)
    built.serialize()
    whole = packet_out(17, data)
    assert whole[:4] + whole[8:] == bytes(built.buf[:4] + built.buf[8:])


def test_the_limit_of_packet_ins_is_that_of_os_ken():
    flags = ofp.OFPMF_PKTPS | ofp.OFPMF_BURST
    parts = (
        parser.OFPMeterMod(DATAPATH, ofp.OFPMC_DELETE, 0, ofp.OFPM_CONTROLLER, []),
        parser.OFPMeterMod(DATAPATH, ofp.OFPMC_ADD, flags, ofp.OFPM_CONTROLLER, [parser.OFPMeterBandDrop(9, 30)]),
    )
    at, whole = 0, limit_packet_ins(9, 30)
    for part in parts:
        part.serialize()
        end = at + len(part.buf)
        assert whole[at : at + 4] + whole[at + 8 : end] == bytes(part.buf[:4] + part.buf[8:])
        at = end
    assert at == len(whole)


def test_a_packet_in_of_os_ken_is_decoded():
    data = frame(KEY, ORIGIN)
    whole = message_in(data, in_port=23, metadata=5)
    check(whole)
    assert packet_in(whole) == PacketIn(23, data)


def test_a_packet_in_without_a_port_has_port_0():
    whole = message_in(b"x" * 60, metadata=5)
    check(whole)
    assert packet_in(whole) == PacketIn(0, b"x" * 60)


def message_in(data, **fields):
    match = parser.OFPMatch(**fields)
    oxms = bytearray()
    length = match.serialize(oxms, 0)
    body = struct.pack("!IHBBQ", 0xFFFF_FFFF, len(data), 1, 0, 0) + bytes(oxms[:length]) + b"\0\0" + data
    return struct.pack("!BBHI", 4, 10, 8 + len(body), 0) + body
