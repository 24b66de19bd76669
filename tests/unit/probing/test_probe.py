"""Probes and replies as bytes, read and written by scapy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import ICMP, IP, UDP

from heddle.probing.probe import FIRST_PORT, MAX_QPN, PORTS, ROCE_PORT, Question, Reply, probe, reply_in

ADDRESSES = st.integers(1, (1 << 32) - 2)
QUESTIONS = st.builds(Question, ADDRESSES, st.integers(FIRST_PORT, FIRST_PORT + PORTS - 1), st.integers(1, 64))


@given(ADDRESSES, QUESTIONS, st.integers(0, 65_535), st.integers(0, MAX_QPN), st.integers(0, 63))
def test_a_probe_is_a_rocev2_packet_with_the_fields_that_were_asked(src_ip, question, identification, qpn, dscp):
    packet = IP(probe(src_ip, question, identification, qpn, dscp))
    assert (int.from_bytes(bytes(packet)[12:16]), int.from_bytes(bytes(packet)[16:20])) == (src_ip, question.dst_ip)
    assert (packet.ttl, packet.id, packet.tos >> 2, str(packet.flags)) == (question.ttl, identification, dscp, "DF")
    assert (packet[UDP].sport, packet[UDP].dport, packet[UDP].chksum) == (question.port, ROCE_PORT, 0)
    assert packet.len == len(bytes(packet)) == packet[UDP].len + 20
    assert packet[BTH].dqpn == qpn


def error(src_ip, question, identification, router_ip, icmp_type=11, code=0, quoted=28):
    quote = probe(src_ip, question, identification)[:quoted]
    return bytes(IP(src=ip_text(router_ip), dst=ip_text(src_ip)) / ICMP(type=icmp_type, code=code) / quote)


def ip_text(ip):
    return ".".join(str(byte) for byte in ip.to_bytes(4, "big"))


@given(ADDRESSES, QUESTIONS, st.integers(0, 65_535), ADDRESSES, st.integers(24, 48))
def test_a_time_exceeded_error_names_the_router_and_the_probe(src_ip, question, identification, router_ip, quoted):
    found = reply_in(error(src_ip, question, identification, router_ip, quoted=quoted))
    assert found == Reply(router_ip, src_ip, question.dst_ip, question.port, identification)


@pytest.mark.parametrize("more", [{"icmp_type": 3, "code": 3}, {"code": 1}, {"icmp_type": 0}, {"quoted": 23}])
def test_other_errors_are_no_reply(more):
    assert reply_in(error(1, Question(2, FIRST_PORT, 2), 7, 3, **more)) is None


def test_a_quote_of_another_port_or_protocol_is_no_reply():
    quotes = [bytes(IP(src="10.0.0.1", dst="10.0.0.2") / part) for part in (UDP(sport=50_000, dport=53), ICMP())]
    assert [reply_in(bytes(IP(dst="10.0.0.1") / ICMP(type=11) / quote)) for quote in quotes] == [None, None]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_reply_or_none(data):
    reply_in(data)
    reply_in(b"\x45" + data)


@given(QUESTIONS, st.integers(0, 90), st.integers(0, 255))
def test_a_damaged_reply_is_a_reply_or_none(question, at, value):
    packet = bytearray(error(1, question, 7, 3))
    packet[at % len(packet)] = value
    reply_in(bytes(packet))
    reply_in(bytes(packet[: at % len(packet)]))
