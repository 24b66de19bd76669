"""Look up the user whose process has the other end of a loopback connection (sock_diag(7)): its peer credentials.

TCP has no SO_PEERCRED; the kernel finds the owner of any socket of this machine by its addresses.
"""

import socket
import struct
from ipaddress import ip_address
from typing import NamedTuple

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
ALL_STATES = 0xFFFFFFFF
NO_COOKIE = b"\xff" * 8
TIMEOUT_S = 0.1
# linux/netlink.h, struct nlmsghdr: length, type, flags, sequence, port id.
_HEADER = struct.Struct("=IHHII")
# linux/inet_diag.h, struct inet_diag_req_v2, and its inet_diag_sockid: ports, addresses, interface, cookie.
_REQUEST = struct.Struct("=BBBxI2s2s16s16sI8s")
_UID_AT = _HEADER.size + 4 + 48 + 12
"""After inet_diag_msg's first four bytes, its sockid, and expires, rqueue and wqueue: the uid."""
_UID = struct.Struct("=I")


class Ends(NamedTuple):
    """Two ends of a TCP connection, each an address and a port, as the process that is looked up has them."""

    local: tuple[str, int]
    remote: tuple[str, int]


def user_of(ends: Ends) -> int | None:
    """Return the user id of the socket with these ends; None where the kernel names none, or has no sock_diag."""
    own, other = (ip_address(end[0]).packed for end in ends)
    if len(own) != len(other):
        return None
    family = socket.AF_INET if len(own) == 4 else socket.AF_INET6
    ports = [end[1].to_bytes(2, "big") for end in ends]
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, ALL_STATES, *ports, own, other, 0, NO_COOKIE)
    header = _HEADER.pack(_HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(TIMEOUT_S)
            kernel.send(header + request)
            reply = kernel.recv(4096)
    except OSError:
        return None
    _, kind, *_ = _HEADER.unpack_from(reply)
    if kind != SOCK_DIAG_BY_FAMILY or len(reply) < _UID_AT + _UID.size:
        return None  # NLMSG_ERROR: no such socket
    return int(_UID.unpack_from(reply, _UID_AT)[0])
