"""ICMP messages about packets, of both families, and when none may be sent.

RFC 792, 1122 (3.2.2) and 1812 (4.3.2) for IPv4, RFC 4443 for IPv6. What is wrong with a packet is one `Problem`; each
family has its number for it.
"""

from enum import Enum
from typing import Final

from dataplane.control.slow.frames import CONTROL_DSCP, ICMP, ICMPV6, checksum, icmp, icmpv6, ip
from dataplane.control.slow.view import Ip, is_single_host

_UNREACHABLE_4, _EXCEEDED_4 = 3, 11
_UNREACHABLE_6, _TOO_BIG_6, _EXCEEDED_6 = 1, 2, 3
_MAX_BYTES_4, _MAX_BYTES_6 = 576, 1280
"""Of the whole message: RFC 1812, 4.3.2.3, and RFC 4443, 2.4 (c)."""
LEAST_MTU_6 = 1280
"""RFC 8200, 5."""
_QUERIES_4: Final = frozenset((0, 8, 9, 10, 13, 14, 15, 16, 17, 18))
"""ICMP types that are no errors; what is unknown may be one."""
_REDIRECT_6 = 137
ECHO_REPLY_4, ECHO_4, ECHO_6, ECHO_REPLY_6 = 0, 8, 128, 129


class Problem(Enum):
    """What is told of a packet: type and code in ICMP, and in ICMPv6."""

    NO_ROUTE = ((_UNREACHABLE_4, 0), (_UNREACHABLE_6, 0))
    HOST = ((_UNREACHABLE_4, 1), (_UNREACHABLE_6, 3))
    TOO_BIG = ((_UNREACHABLE_4, 4), (_TOO_BIG_6, 0))
    EXPIRED = ((_EXCEEDED_4, 0), (_EXCEEDED_6, 0))


def may_be_answered(packet: Ip) -> bool:
    """Tell whether an error about a packet may be sent: not about an error, to or from a group, nor about a later part.

    That it came in a frame to one station is the caller's to know. An IPv6 packet whose upper protocol cannot be read
    might be an error and gets none.
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
    """Return EtherType and packet of the error; `mtu_bytes` is the next hop's, for TOO_BIG.

    It quotes as much as fits into what every host takes without fragments.
    """
    if len(packet.source) == 4:
        kind, code = problem.value[0]
        rest = (mtu_bytes & 0xFFFF if problem is Problem.TOO_BIG else 0).to_bytes(4, "big")
        quoted = packet.packet[: _MAX_BYTES_4 - 28]
        return ip(source, packet.source, ICMP, icmp(kind, code, rest + quoted), CONTROL_DSCP)
    kind, code = problem.value[1]
    rest = (max(mtu_bytes, LEAST_MTU_6) if problem is Problem.TOO_BIG else 0).to_bytes(4, "big")
    quoted = packet.packet[: _MAX_BYTES_6 - 48]
    body = icmpv6(kind, code, rest + quoted, source, packet.source)
    return ip(source, packet.source, ICMPV6, body, CONTROL_DSCP)


def echo_reply(packet: Ip) -> tuple[int, bytes] | None:
    """Return EtherType and packet that answer a sound echo request with all its data, None for anything else.

    Parts of a request are not put together.
    """
    body = packet.payload
    if len(body) < 8 or body[1] or packet.is_fragment or not packet.complete or not is_single_host(packet.source):
        return None
    # Of the traffic class the ECN bits stay behind: an answer is no ECN-capable transport (RFC 3168, 6.1.1).
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
