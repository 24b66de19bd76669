"""Probes and their replies as bytes: RoCEv2 packets with a small TTL, and the ICMP errors of routers.

A probe has the addresses, ports and headers of the flow's data, so that a router hashes it alike. The reply quotes the
probe's IP header and 8 bytes more (RFC 792, RFC 1812 4.3.2.3): the UDP ports, and the IP identification by which
repeated probes differ.
"""

import struct
from typing import NamedTuple

ROCE_PORT = 4791
FIRST_PORT, PORTS = 49_152, 16_384
"""The RoCEv2 source ports (RFC 6335: dynamic ports)."""
MAX_QPN, MAX_DSCP = (1 << 24) - 1, 63
_IP_UDP = struct.Struct("!BBHHHBBHIIHHHH")
_BTH = struct.Struct("!BBHII")
_SEND_ONLY, _SOLICITED_EVENT_OFF_MIGRATED, _DEFAULT_PKEY = 0x04, 0x40, 0xFFFF
_ICRC_BYTES = 4
_DONT_FRAGMENT = 0x4000
_UDP = 17
_TIME_EXCEEDED, _TTL_IN_TRANSIT = 11, 0
_QUOTE_AT = 8
PROBE_BYTES = _IP_UDP.size + _BTH.size + _ICRC_BYTES


class Question(NamedTuple):
    """A probe to send: to `dst_ip`, from UDP port `port`, to expire after `ttl` hops. Addresses are integers."""

    dst_ip: int
    port: int
    ttl: int


class Reply(NamedTuple):
    """An ICMP error: the router that sent it, and what it quotes of the probe."""

    router_ip: int
    src_ip: int
    dst_ip: int
    port: int
    identification: int


def probe(src_ip: int, question: Question, identification: int, qpn: int = 0, dscp: int = 0) -> bytes:
    """Return the IPv4 packet of a probe: UDP without checksum, as RoCEv2 sends it, and a base transport header (BTH).

    The kernel fills in the checksum of the IP header (raw(7)). DSCP 0 keeps probes out of the lossless class.
    """
    header = _IP_UDP.pack(
        0x45, dscp << 2, PROBE_BYTES, identification, _DONT_FRAGMENT, question.ttl, _UDP, 0, src_ip, question.dst_ip,
        question.port, ROCE_PORT, PROBE_BYTES - 20, 0,
    )  # fmt: skip
    bth = _BTH.pack(_SEND_ONLY, _SOLICITED_EVENT_OFF_MIGRATED, _DEFAULT_PKEY, qpn & MAX_QPN, 0)
    return header + bth + bytes(_ICRC_BYTES)


def reply_in(packet: bytes) -> Reply | None:
    """Return the reply in an IPv4 packet; None for anything else than a time-exceeded error that quotes a probe."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return None
    at = (packet[0] & 0xF) * 4
    icmp, quote = packet[at : at + _QUOTE_AT], packet[at + _QUOTE_AT :]
    if len(icmp) < _QUOTE_AT or icmp[0] != _TIME_EXCEEDED or icmp[1] != _TTL_IN_TRANSIT or len(quote) < 20:
        return None
    ports_at = (quote[0] & 0xF) * 4
    if quote[0] >> 4 != 4 or ports_at < 20 or len(quote) < ports_at + 4 or quote[9] != _UDP:
        return None
    port, to_port = struct.unpack_from("!HH", quote, ports_at)
    if to_port != ROCE_PORT:
        return None
    (router_ip,), (src_ip, dst_ip) = struct.unpack_from("!I", packet, 12), struct.unpack_from("!II", quote, 12)
    return Reply(router_ip, src_ip, dst_ip, port, struct.unpack_from("!H", quote, 4)[0])
