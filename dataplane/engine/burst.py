"""What is known of each packet of a burst: one row a packet, filled in by one element and read by the next."""

import numpy as np

from dataplane.cache_lines import zeros_at_a_line
from dataplane.jit import Row, Rows, inline

BURST = 64
"""Packets that are taken from a port at once, at most."""

PACKET = np.dtype(
    [
        (name, np.int64)
        for name in (
            "at",  # first byte of the frame in the memory; moves when a header is put on or taken off
            "length",  # of the whole frame, bytes
            "first_length",  # bytes of it in the first buffer; less than `length` where a jumbo frame lies in several
            "floor",  # first byte in front of the frame that may be written: the head room begins there
            "frame",  # what the port calls the buffer, to get it back
            "in_port",
            "out_port",
            "node",  # of the graph, that takes the packet next; or one of the fates below
            "reason",  # of a drop or of a punt
            "vni",  # of the VPC that the packet is in now, 0 for none; part of every key
            "vpc",  # its row in the tables of this generation
            "l3",  # first byte of the IP header that is looked at (the inner one)
            "l4",  # first byte behind it and its extension headers
            "l4_bytes",  # what there is from there on, by the IP header's length
            "family",  # 4, 6, or 0 for a packet that is no IP
            "protocol",  # of IANA; the last of an IPv6 chain
            "fragment",  # NOT_A_FRAGMENT, FIRST_FRAGMENT, LATER_FRAGMENT
            "source_hi",  # addresses as two words; IPv4 as ::ffff:a.b.c.d (RFC 4291, 2.5.5.2)
            "source_lo",
            "target_hi",
            "target_lo",
            "ports",  # source port << 16 | destination port; ICMP echo: identifier twice; else 0
            "hash",  # of addresses, protocol, ports and VNI, the same in every process
            "outer_source",  # IPv4 address of the VTEP that it came from, 0 for none
            "outer_ecn",  # ECN field of the outer header, -1 for none
            "connection",  # row, or -1
            "next_hop",  # row, or -1
            "translation",  # row of the connection whose rewriting applies, or -1
            "source_hop",  # row of the endpoint that sent it, or -1 where it came from outside
            "start",  # first byte of the frame as it arrived; the run loop sets it, the slow path gets all from there
            "routed",  # ROUTED, BRIDGED, or GROUP: to whom the frame is addressed
            "fragment_id",  # identification | protocol << 32: IPv6's is what its fragment header says comes next
        )
    ]
)
"""A row. All fields are int64; offsets are from the first byte of the memory that all ports share."""


def new_rows(count: int = BURST) -> Rows:
    """Return rows for a burst; each is four lines of a cache."""
    return zeros_at_a_line((count,), PACKET)


DROPPED, TRANSMIT, PUNTED = -1, -2, -3
"""Fates: what `node` says of a packet that no element takes any more. A burst ends with each packet at one."""

NOT_A_FRAGMENT, FIRST_FRAGMENT, LATER_FRAGMENT = 0, 1, 2
GROUP, BRIDGED, ROUTED = -1, 0, 1
"""A frame to many; to the MAC of an endpoint, whose TTL stays; to the gateway's own MAC, whose TTL is counted down."""

V4_PREFIX = 0xFFFF_0000_0000
"""In `source_lo` and `target_lo` above an IPv4 address; the other word is 0."""


@inline
def drop(packet: Row, reason: int) -> None:
    """Let a packet end here, for a `reasons.Drop`."""
    packet.node = DROPPED
    packet.reason = reason


@inline
def punt(packet: Row, reason: int) -> None:
    """Hand a packet to the slow path, for a `reasons.Punt`."""
    packet.node = PUNTED
    packet.reason = reason


@inline
def transmit(packet: Row, port: int) -> None:
    """Send a packet out of a port."""
    packet.node = TRANSMIT
    packet.out_port = port
