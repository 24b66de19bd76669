"""ECN marks into and out of tunnels: RFC 6040's tables, and RoCEv2 packets of 4 KB with their ICRC."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.engine.reasons import Drop
from heddle.foundation.address import mac_text
from heddle.mininet_topos.wire import roce
from tests.fakes.gateway.elements import Elements
from tests.fakes.gateway.gateway_frames import RED_10, RED_11, dissected, inner, tunnelled
from tests.fakes.gateway.gateway_site import LOCAL, site_tables

GATEWAY = Elements(LOCAL, site_tables())
NOT_ECT, ECT_1, ECT_0, CE = range(4)
# RFC 6040, figure 4: the inner field that goes on, by inner and outer; None for a packet that is dropped.
OUT_OF_A_TUNNEL: dict[int, dict[int, int | None]] = {
    NOT_ECT: {NOT_ECT: NOT_ECT, ECT_0: NOT_ECT, ECT_1: NOT_ECT, CE: None},
    ECT_0: {NOT_ECT: ECT_0, ECT_0: ECT_0, ECT_1: ECT_1, CE: CE},
    ECT_1: {NOT_ECT: ECT_1, ECT_0: ECT_1, ECT_1: ECT_1, CE: CE},
    CE: {NOT_ECT: CE, ECT_0: CE, ECT_1: CE, CE: CE},
}
CASES = [(ecn, outside, expected) for ecn, row in OUT_OF_A_TUNNEL.items() for outside, expected in row.items()]
DSCP = 46 << 2


@pytest.mark.parametrize(("ecn", "outside", "expected"), CASES)
@pytest.mark.parametrize("family", [4, 6])
def test_the_mark_of_the_outer_header_reaches_the_inner_one_and_the_next_outer_one(
    ecn: int, outside: int, expected: int | None, family: int
) -> None:
    if family == 4:
        packet = IP(src="10.0.0.10", dst="10.0.0.11", tos=DSCP | ecn) / UDP()
    else:
        packet = IPv6(src="fd00::10", dst="fd00::11", tc=DSCP | ecn, fl=0xFFFFF) / UDP()
    # The outer DSCP is the underlay's affair and stays there.
    fate = GATEWAY.one(0, tunnelled(inner(packet), tos=8 << 2 | outside))
    if expected is None:
        assert fate.why is Drop.ECN_MISMATCH
        return
    found = dissected(fate.frame)
    assert found[IP].tos == DSCP | expected
    inside = found[Ether:2].payload
    assert (inside.tos if family == 4 else inside.tc) == DSCP | expected
    assert family == 4 or inside.fl == 0xFFFFF


def roce_frame(payload_bytes: int, target_mac: int, ecn: int) -> bytes:
    route = roce.Route(
        source_mac=RED_10.to_bytes(6, "big"),
        destination_mac=target_mac.to_bytes(6, "big"),
        source_ip=0x0A00000A,
        destination_ip=0x0A00000B,
        udp_source_port=0xC123,
        destination_qp=0xABC,
        traffic_class=26 << 2 | ecn,
    )
    return bytes(roce.FrameWriter(route).write(roce.RC_RDMA_WRITE_ONLY, 7, True, payload_bytes, length=payload_bytes))


@pytest.mark.parametrize("outside", [NOT_ECT, ECT_0, CE])
@pytest.mark.parametrize("first_length", [None, 3840])
def test_a_roce_packet_of_4_kb_crosses_with_its_mark_and_its_icrc(outside: int, first_length: int | None) -> None:
    frame = roce_frame(4096, 0x024800000064, ECT_0)
    fate = GATEWAY.one(0, tunnelled(frame, tos=outside), first_length=first_length)
    assert fate.end == "sent"
    assert fate.row["length"] == len(frame) + 50
    # The end of a jumbo frame lies in another buffer and is not touched there.
    there = fate.frame + tunnelled(frame)[first_length:] if first_length else fate.frame
    arrived = there[50:]
    packet = roce.parse(bytearray(arrived), len(arrived))
    assert packet is not None
    assert packet.icrc_valid
    assert packet.traffic_class == 26 << 2 | (CE if outside == CE else ECT_0)
    expected = Ether(frame)
    expected.dst, expected.src = mac_text(RED_11), "02:48:00:00:00:64"
    expected[IP].ttl -= 1
    expected[IP].tos = packet.traffic_class
    del expected[IP].chksum
    assert arrived == bytes(expected)


def test_a_roce_packet_between_endpoints_macs_crosses_byte_for_byte() -> None:
    frame = roce_frame(4096, RED_11, ECT_0)
    assert bytes(Ether(GATEWAY.one(0, tunnelled(frame, tos=ECT_0)).frame)[VXLAN].payload) == frame


def test_a_not_ect_packet_with_a_ce_outer_header_is_dropped_also_if_bridged() -> None:
    packet = IP(src="10.0.0.10", dst="10.0.0.11") / UDP() / Raw(b"x")
    assert GATEWAY.one(0, tunnelled(inner(packet, target=RED_11), tos=CE)).why is Drop.ECN_MISMATCH
