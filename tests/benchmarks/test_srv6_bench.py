"""The packets of `heddle bench srv6` are what their kind says, as scapy reads them."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether

from heddle.benchmarks.fabric.srv6_hops import KINDS, PAYLOAD_BYTES, _frame


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_packet_is_whole_and_of_the_same_payload(kind):
    packet = Ether(_frame(kind, 3))
    assert len(packet[UDP].payload) == PAYLOAD_BYTES
    if IP in packet:
        checksum = packet[IP].chksum
        del packet[IP].chksum
        assert Ether(bytes(packet))[IP].chksum == checksum


def test_an_address_has_a_usid_for_each_router_and_one_for_the_receiver():
    assert Ether(_frame("SRv6 uA", 3))[IPv6].dst == "fcbb:0:e001:e001:e001:eeee::"
    assert Ether(_frame("SRv6 uN", 3))[IPv6].dst == "fcbb:0:1:2:3:4::"
