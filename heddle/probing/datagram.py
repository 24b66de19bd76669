"""Datagrams of the ping mesh as bytes: requests and replies between probe agents, with chosen UDP source ports.

    IPv4 20 | UDP 8 (destination 4796, checksum 0) | magic 4 | kind 1 | DSCP 1 | reply port 2 | key 8 | number 4

A NIC with RoCE takes UDP port 4791 for itself, so agents use a port of their own, which switches steer by its source
port as RoCEv2. The reply repeats the request, goes to the sender's address, and leaves from the port that the request
names. Unlike the probes of a port search, no datagram expires on its way.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

from heddle.probing.probe import FIRST_PORT, MAX_DSCP, PORTS

MESH_PORT = 4796
"""The UDP destination port of requests and replies, next to RoCEv2's and assigned to no service."""
TTL = 64
_MAGIC = b"HDM1"
_BODY = struct.Struct("!4sBBHQI")
_IP_UDP = struct.Struct("!BBHHHBBHIIHHHH")
_UDP = 17
_DONT_FRAGMENT = 0x4000
DATAGRAM_BYTES = _IP_UDP.size + _BODY.size
FRAME_BITS = 8 * (14 + DATAGRAM_BYTES + 4 + 20)
"""What a datagram takes of a link: with Ethernet's header, checksum, preamble and gap between frames."""


class Kind(IntEnum):
    """What a datagram is."""

    REQUEST = 1
    REPLY = 2


class Datagram(NamedTuple):
    """A request or its reply: who sent the request knows it by its key and number."""

    kind: Kind
    dscp: int
    reply_port: int
    key: int
    number: int


def packet(src_ip: int, dst_ip: int, port: int, sent: Datagram) -> bytes:
    """Return the IPv4 packet of a datagram from a UDP source port; the kernel fills in the IP checksum (raw(7))."""
    header = _IP_UDP.pack(
        0x45, sent.dscp << 2, DATAGRAM_BYTES, 0, _DONT_FRAGMENT, TTL, _UDP, 0, src_ip, dst_ip,
        port, MESH_PORT, DATAGRAM_BYTES - 20, 0,
    )  # fmt: skip
    return header + _BODY.pack(_MAGIC, *sent)


def datagram_in(payload: bytes) -> Datagram | None:
    """Return the datagram in the payload of UDP; None for anything else."""
    if len(payload) != _BODY.size:
        return None
    magic, kind, dscp, reply_port, key, number = _BODY.unpack(payload)
    sound = magic == _MAGIC and kind in (Kind.REQUEST, Kind.REPLY) and dscp <= MAX_DSCP
    if not sound or not FIRST_PORT <= reply_port < FIRST_PORT + PORTS:
        return None
    return Datagram(Kind(kind), dscp, reply_port, key, number)
