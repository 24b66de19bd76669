"""Why a packet was dropped or punted: the index of a counter, and the words for people. Numbers are never reused."""

from enum import IntEnum


class Drop(IntEnum):
    """Each dropped packet is counted under exactly one of these."""

    TOO_SHORT = 0  # ends before its headers do
    BAD_IP_HEADER = 1  # version, header length, total length or checksum
    BAD_CHECKSUM = 2
    NOT_IP = 3  # neither IP nor ARP
    NOT_FOR_US = 4  # another host's MAC or address, or a port that is not served
    BAD_VXLAN = 5  # flags or reserved bits (RFC 7348, 5)
    UNKNOWN_VNI = 6
    UNKNOWN_VTEP = 7  # a VTEP that has no endpoint of this VNI
    SPOOFED_SOURCE = 8  # an inner source that does not live at this VTEP, or outside of the customer's prefix
    ECN_MISMATCH = 9  # CE outside, not-ECT inside (RFC 6040, 4.2)
    NO_ROUTE = 10
    DENIED_IN = 11  # by a security group
    DENIED_OUT = 12
    DENIED_BORDER = 13  # by the border firewall
    NO_NAT = 14  # leaves for the outside without a NAT gateway or a floating IP
    NO_MAPPING = 15  # comes from the outside for nobody
    ROCE_NOT_TRANSLATED = 16  # UDP 4791 would have to be translated; its ICRC covers addresses and ports
    PORTS_EXHAUSTED = 17
    CONNECTIONS_FULL = 18
    FRAGMENT_WITHOUT_FIRST = 19
    FRAGMENTS_FULL = 20
    TOO_BIG = 21  # for the way out, and may not be fragmented nor answered
    TTL_EXPIRED = 22  # and may not be answered
    NO_NEIGHBOUR = 23  # the next hop's MAC is not known yet
    PUNT_FULL = 24  # the slow path does not keep up
    TRANSMIT_FULL = 25  # the way out does not keep up
    TRANSMIT_FAILED = 26  # the kernel refused it
    NO_HEAD_ROOM = 27
    UNKNOWN_VLAN = 28
    BROADCAST = 29  # multicast and broadcast that nobody answers
    MARTIAN = 30  # a source or destination that no packet on a wire has
    NO_STATE = 31  # a TCP packet that opens nothing and belongs to nothing
    TRUNCATED = 32  # the kernel handed over less than the frame
    STANDBY = 33  # this gateway is not the active one
    DISCARD_ROUTE = 34
    BAD_STATE = 35  # an element was handed what no element before it makes
    BAD_TRANSPORT = 36  # a UDP length or TCP data offset that the packet does not have
    BAD_FRAGMENT = 37  # empty, odd, past 65,535, or cut within the transport header (RFC 1858)
    LOST = 38  # was under way when the data process died; known once it runs again
    PUNT_LIMITED = 39  # the VPC, or the port, has had its share of the slow path
    CONNECTIONS_LIMITED = 40  # the VPC has its share of the connections
    PORTS_LIMITED = 41  # of the NAT mappings, or of the ports of a public address that others have as well
    FRAGMENTS_LIMITED = 42  # of the packets whose fragments are remembered


class Punt(IntEnum):
    """Why the slow path gets a packet."""

    ARP = 0
    NEIGHBOUR = 1  # IPv6 neighbour discovery
    FOR_GATEWAY = 2  # to an address of the gateway itself: ping
    TTL_EXPIRED = 3
    TOO_BIG = 4
    UNREACHABLE = 5  # no route: the sender is told so
    RESOLVE = 6  # the next hop's MAC is wanted
    ICMP_ERROR = 7  # arrived, and quotes a packet of a connection that is translated


DROPS, PUNTS = 64, 16
"""Room of the arrays of counters."""
