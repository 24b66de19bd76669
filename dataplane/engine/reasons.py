"""Drop and punt reasons: the indices of the counters, and their names. Numbers are never reused."""

from enum import IntEnum


class Drop(IntEnum):
    """Reasons for drops; each dropped packet counts under exactly one. 44 to 47 and 49 to 63 are free."""

    TOO_SHORT = 0  # ends before its headers do
    BAD_IP_HEADER = 1  # version, header length, total length or checksum
    BAD_CHECKSUM = 2  # of a TCP segment that opens a connection
    NOT_IP = 3  # neither IP nor ARP
    NOT_FOR_US = 4  # outer MAC, address, protocol or port not ours; inner MAC of a bridged frame not its target's
    BAD_VXLAN = 5  # flags or reserved bits (RFC 7348, 5)
    UNKNOWN_VNI = 6
    UNKNOWN_VTEP = 7  # a VTEP without an endpoint of this VNI
    SPOOFED_SOURCE = 8  # not at this VTEP or in the customer's prefix; or from outside, with our address
    ECN_MISMATCH = 9  # CE outside, not-ECT inside (RFC 6040, 4.2)
    NO_ROUTE = 10
    DENIED_IN = 11  # by a security group
    DENIED_OUT = 12
    DENIED_BORDER = 13  # by the border firewall
    NO_NAT = 14  # towards the outside, without a NAT gateway or a floating IP
    NO_MAPPING = 15  # from the outside, without a receiver
    ROCE_NOT_TRANSLATED = 16  # UDP 4791 would have to be translated; its ICRC covers addresses and ports
    PORTS_EXHAUSTED = 17
    CONNECTIONS_FULL = 18
    FRAGMENT_WITHOUT_FIRST = 19
    FRAGMENTS_FULL = 20
    TOO_BIG = 21  # exceeds the MTU; neither fragmentation nor an ICMP error is allowed
    TTL_EXPIRED = 22  # and no ICMP error is allowed
    NO_NEIGHBOUR = 23  # the next hop's MAC is not known yet
    PUNT_FULL = 24  # the slow path does not keep up
    TRANSMIT_FULL = 25  # the output port does not keep up
    TRANSMIT_FAILED = 26  # the kernel refused it
    NO_HEAD_ROOM = 27
    UNKNOWN_VLAN = 28
    BROADCAST = 29  # multicast and broadcast that the gateway does not serve
    MARTIAN = 30  # an invalid source or destination address
    NO_STATE = 31  # a TCP or ICMP packet that neither opens a connection nor belongs to one
    TRUNCATED = 32  # the kernel returned less than the frame
    STANDBY = 33  # this gateway is not the active one
    DISCARD_ROUTE = 34
    BAD_STATE = 35  # an inconsistent packet row: an internal error
    BAD_TRANSPORT = 36  # a UDP length or TCP data offset beyond the packet
    BAD_FRAGMENT = 37  # empty, not a multiple of 8, past 65,535, or cut within the transport header (RFC 1858)
    LOST = 38  # in progress when the data process died; counted once it runs again
    PUNT_LIMITED = 39  # the VPC, or the port, has reached its rate limit for the slow path
    CONNECTIONS_LIMITED = 40  # the VPC has reached its share of the connections
    PORTS_LIMITED = 41  # its share of the NAT mappings, or of the ports of a shared public address
    FRAGMENTS_LIMITED = 42  # its share of the packets with stored fragments
    ENDPOINT_PORTS_LIMITED = 43  # the endpoint has reached its share of the ports of a public address
    NO_BACK_END = 48  # a balancer: refused, and no reply is allowed about it


class Punt(IntEnum):
    """Reasons to send a packet to the slow path."""

    ARP = 0
    NEIGHBOUR = 1  # IPv6 neighbour discovery
    FOR_GATEWAY = 2  # to an address of the gateway itself: ping, or a closed port
    TTL_EXPIRED = 3
    TOO_BIG = 4
    UNREACHABLE = 5  # no route: the sender gets an ICMP error
    RESOLVE = 6  # the next hop's MAC has to be resolved
    ICMP_ERROR = 7  # an ICMP error that quotes a packet of a translated connection
    NO_STATE = 8  # TCP within a connection that is not known and would need a NAT mapping: the sender gets a RST
    NO_ROOM = 9  # a copy of a packet of a VPC that is dropped for one of NO_ROOM_REASONS: the sender gets an ICMP error


NO_ROOM_REASONS = (
    Drop.PORTS_EXHAUSTED,
    Drop.CONNECTIONS_FULL,
    Drop.CONNECTIONS_LIMITED,
    Drop.PORTS_LIMITED,
    Drop.ENDPOINT_PORTS_LIMITED,
)
"""Why there is no room for a new connection or its mapping."""

DROPS, PUNTS = 64, 16
"""Sizes of the counter arrays."""
