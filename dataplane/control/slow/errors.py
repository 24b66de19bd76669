"""Build ICMP and ICMPv6 error messages and echo replies, and decide when none may be sent.

RFC 792, 1122 (3.2.2) and 1812 (4.3.2) for IPv4, RFC 4443 for IPv6.
"""

from enum import Enum
from typing import Final

from heddle.dataplane.control.slow.frames import CONTROL_DSCP, icmp, icmpv6, ip
from heddle.dataplane.control.slow.view import Ip, is_single_host
from heddle.dataplane.packet.checksum import checksum
from heddle.dataplane.packet.transport import ICMP, ICMPV6

_UNREACHABLE_4, _EXCEEDED_4 = 3, 11
_UNREACHABLE_6, _TOO_BIG_6, _EXCEEDED_6 = 1, 2, 3
_MAX_BYTES_4, _MAX_BYTES_6 = 576, 1280
"""Maximum size of an error message: RFC 1812, 4.3.2.3, and RFC 4443, 2.4 (c)."""
MIN_MTU_6 = 1280
"""RFC 8200, 5."""
_QUERIES_4: Final = frozenset((0, 8, 9, 10, 13, 14, 15, 16, 17, 18))
"""ICMP types that are not errors; unknown types are treated as errors."""
_REDIRECT_6 = 137
ECHO_REPLY_4, ECHO_4, ECHO_6, ECHO_REPLY_6 = 0, 8, 128, 129


class Problem(Enum):
    """Reason of an error message: type and code in ICMP, and in ICMPv6."""

    NO_ROUTE = ((_UNREACHABLE_4, 0), (_UNREACHABLE_6, 0))
    HOST = ((_UNREACHABLE_4, 1), (_UNREACHABLE_6, 3))
    PROHIBITED = ((_UNREACHABLE_4, 13), (_UNREACHABLE_6, 1))
    PORT = ((_UNREACHABLE_4, 3), (_UNREACHABLE_6, 4))
    TOO_BIG = ((_UNREACHABLE_4, 4), (_TOO_BIG_6, 0))
    EXPIRED = ((_EXCEEDED_4, 0), (_EXCEEDED_6, 0))


def may_be_answered(packet: Ip) -> bool:
    """Return whether ICMP allows an error about a packet: not about errors, multicast or fragments but the first.

    The caller checks that the frame was unicast. An IPv6 packet whose upper-layer protocol cannot be parsed might be an
    error, so none is sent.
    """
    if not is_single_host(packet.source) or packet.fragment_offset or not _is_unicast(packet.target):
        return False
    if packet.protocol == ICMP and len(packet.source) == 4:
        return bool(packet.payload) and packet.payload[0] in _QUERIES_4
    if packet.protocol == ICMPV6 and len(packet.source) == 16:
        return bool(packet.payload) and packet.payload[0] >= 128 and packet.payload[0] != _REDIRECT_6
    return True


def _is_unicast(address: bytes) -> bool:
    return address[0] < 224 if len(address) == 4 else address[0] != 0xFF


def error_about(packet: Ip, source: bytes, problem: Problem, mtu_bytes: int = 0) -> tuple[int, bytes]:
    """Return EtherType and packet of an error message; `mtu_bytes` is the next hop's MTU, for TOO_BIG.

    The message quotes as much of the packet as every host accepts without fragmentation.
    """
    if len(packet.source) == 4:
        kind, code = problem.value[0]
        rest = (mtu_bytes & 0xFFFF if problem is Problem.TOO_BIG else 0).to_bytes(4, "big")
        quoted = packet.packet[: _MAX_BYTES_4 - 28]
        return ip(source, packet.source, ICMP, icmp(kind, code, rest + quoted), CONTROL_DSCP)
    kind, code = problem.value[1]
    rest = (max(mtu_bytes, MIN_MTU_6) if problem is Problem.TOO_BIG else 0).to_bytes(4, "big")
    quoted = packet.packet[: _MAX_BYTES_6 - 48]
    body = icmpv6(kind, code, rest + quoted, source, packet.source)
    return ip(source, packet.source, ICMPV6, body, CONTROL_DSCP)


def echo_reply(packet: Ip) -> tuple[int, bytes] | None:
    """Return EtherType and packet of the reply to a valid echo request; None for any other packet.

    Fragments of a request are joined by `reassembly` before.
    """
    body = packet.payload
    if len(body) < 8 or body[1] or packet.is_fragment or not packet.complete or not is_single_host(packet.source):
        return None
    # The ECN bits are cleared: a reply is not of an ECN-capable transport (RFC 3168, 6.1.1).
    differentiated = packet.traffic_class & 0xFC
    if len(packet.source) == 4:
        if packet.protocol != ICMP or body[0] != ECHO_4 or checksum(body):
            return None
        return ip(packet.target, packet.source, ICMP, icmp(ECHO_REPLY_4, 0, body[4:]), differentiated)
    if packet.protocol != ICMPV6 or body[0] != ECHO_6:
        return None
    pseudo = packet.source + packet.target + len(body).to_bytes(4, "big") + ICMPV6.to_bytes(4, "big")
    if checksum(pseudo + body):
        return None
    reply = icmpv6(ECHO_REPLY_6, 0, body[4:], packet.target, packet.source)
    return ip(packet.target, packet.source, ICMPV6, reply, differentiated)
