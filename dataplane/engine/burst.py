"""The rows of a burst: what is known of each packet, written by one element and read by the next."""

import numpy as np

from heddle.dataplane.cache_lines import zeros_at_a_line
from heddle.dataplane.jit import Row, Rows, inline

BURST = 64
"""Maximum number of packets that are taken from a port at once."""

PACKET = np.dtype(
    [
        (name, np.int64)
        for name in (
            "at",  # first byte of the frame in the memory; moves when a header is added or removed
            "length",  # of the whole frame, bytes
            "first_length",  # bytes of it in the first buffer; less than `length` for a jumbo frame in several buffers
            "floor",  # first byte in front of the frame that may be written: start of the head room
            "frame",  # the port's handle of the buffer
            "in_port",
            "out_port",
            "node",  # next node of the graph, or one of the fates below
            "reason",  # of a drop or of a punt
            "vni",  # of the packet's current VPC, 0 for none; part of every key
            "vpc",  # its row in the tables of this generation
            "l3",  # first byte of the (inner) IP header
            "l4",  # first byte behind it and its extension headers
            "l4_bytes",  # bytes from `l4` on, by the IP header's length
            "family",  # 4, 6, or 0 for a packet that is not IP
            "protocol",  # IANA number; the last of an IPv6 chain
            "fragment",  # NOT_A_FRAGMENT, FIRST_FRAGMENT, LATER_FRAGMENT
            "source_hi",  # addresses as two words; IPv4 as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2)
            "source_lo",
            "target_hi",
            "target_lo",
            "ports",  # source port << 16 | destination port; of ICMP queries see `transport.query_ports`; else 0
            "hash",  # of addresses, protocol, ports and VNI, the same in every process
            "outer_source",  # IPv4 address of the sending VTEP, 0 for none
            "outer_ecn",  # ECN field of the outer header, -1 for none
            "connection",  # row, or -1
            "next_hop",  # row, or -1
            "translation",  # row of the connection that translates it, or -1
            "source_hop",  # row of the sending endpoint, or -1 for a packet from outside
            "start",  # first byte of the frame as it arrived, set by the run loop; the slow path gets all bytes from it
            "routed",  # destination of the frame: ROUTED, BRIDGED or GROUP
            "fragment_id",  # identification | protocol << 32; of IPv6 the next header of the fragment header
        )
    ]
)
"""A row. All fields are int64; offsets count from the first byte of the memory that all ports share."""


def new_rows(count: int = BURST) -> Rows:
    """Return rows for a burst; each row is four cache lines."""
    return zeros_at_a_line((count,), PACKET)


DROPPED, TRANSMIT, PUNTED = -1, -2, -3
"""Fates: values of `node` for a packet that no element processes any more. A burst ends when every packet has one."""
TO_FRAGMENT = -4
"""In place of a fate, until the end of the burst: transmit in fragments by `next_hop`."""

NOT_A_FRAGMENT, FIRST_FRAGMENT, LATER_FRAGMENT = 0, 1, 2
GROUP, BRIDGED, ROUTED = -1, 0, 1
"""Destination of a frame: a group address; the MAC of an endpoint, with the TTL unchanged; the gateway's own MAC, with
the TTL decremented."""

V4_PREFIX = 0xFFFF_0000_0000
"""The bits above an IPv4 address in `source_lo` and `target_lo`; the high word is 0."""


@inline
def drop(packet: Row, reason: int) -> None:
    """Drop a packet for a `reasons.Drop`."""
    packet.node = DROPPED
    packet.reason = reason


@inline
def punt(packet: Row, reason: int) -> None:
    """Send a packet to the slow path for a `reasons.Punt`."""
    packet.node = PUNTED
    packet.reason = reason


@inline
def transmit(packet: Row, port: int) -> None:
    """Send a packet out of a port."""
    packet.node = TRANSMIT
    packet.out_port = port
