"""The sockets of a NIC: a raw socket for frames, and a bound UDP socket that suppresses the kernel's ICMP errors."""

import ctypes
import socket
import struct

from heddle.mininet_topos.wire import srv6
from heddle.mininet_topos.wire.roce import ROCE_PORT

ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
SO_ATTACH_FILTER, SO_SNDBUFFORCE, SO_RCVBUFFORCE = 26, 32, 33
BUFFER_BYTES = 16 << 20

Instruction = tuple[int, int, int, int]

ROCE_TO_HERE: tuple[Instruction, ...] = (
    (0x28, 0, 0, 12),  # load the ethertype
    (0x15, 17, 0, 0x8808),  # MAC control, of which priority flow control is one: take
    (0x15, 8, 0, srv6.ETHERTYPE),  # IPv6
    (0x15, 0, 16, 0x0800),  # not IPv4: refuse
    (0x30, 0, 0, 23),  # load the protocol
    (0x15, 0, 14, 17),  # not UDP: refuse
    (0x28, 0, 0, 20),  # load flags and fragment offset
    (0x45, 12, 0, 0x1FFF),  # a later fragment: refuse
    (0xB1, 0, 0, 14),  # X = length of the IP header
    (0x48, 0, 0, 16),  # load the UDP destination port
    (0x15, 8, 9, ROCE_PORT),
    (0x30, 0, 0, srv6.NEXT_HEADER_AT),  # of IPv6
    (0x15, 3, 0, srv6.ICMPV6),
    (0x15, 0, 6, srv6.IPV4_IN_IPV6),  # anything else inside: refuse
    (0x28, 0, 0, srv6.OUTER_BYTES + 36),  # load the UDP destination port of the inner packet
    (0x15, 3, 4, ROCE_PORT),
    (0x30, 0, 0, srv6.ICMP_AT),  # load the type of the ICMPv6 message: take errors about packets
    (0x15, 1, 0, srv6.UNREACHABLE),
    (0x15, 0, 1, srv6.TIME_EXCEEDED),
    (0x06, 0, 0, 0x40000),  # take the whole frame
    (0x06, 0, 0, 0),
)
NOTHING: tuple[Instruction, ...] = ((0x06, 0, 0, 0),)


def attach_filter(sock: socket.socket, program: tuple[Instruction, ...]) -> None:
    """Attach a classic BPF program of (code, jump if true, jump if false, operand)."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("@HP", len(program), ctypes.addressof(buffer)))


def open_roce_socket(device: str) -> socket.socket:
    """Open a non-blocking raw socket on `device` that receives RoCEv2, MAC control and ICMPv6 errors."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    attach_filter(sock, ROCE_TO_HERE)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
    sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    sock.bind((device, ETH_P_ALL))
    sock.setblocking(False)
    return sock


def bind_roce_port(ip: str) -> socket.socket:
    """Bind UDP port 4791, so that the kernel sends no ICMP port unreachable, with a filter that drops all datagrams."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    attach_filter(sock, NOTHING)
    sock.bind((ip, ROCE_PORT))
    return sock


def socket_drops(sock: socket.socket) -> int:
    """Return the number of frames dropped since the last call because the socket's buffer was full."""
    return int(struct.unpack("=II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1])
