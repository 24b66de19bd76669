"""Build and parse RoCEv2 frames of reliable connections, with the invariant CRC (ICRC).

    Ethernet 14 | IPv4 20 | UDP 8 (destination 4791) | BTH 12 | RETH 16, AETH 4, CNP 16 or none | payload | ICRC 4

Base transport header (InfiniBand Architecture Specification, volume 1, section 9.2):

     0                   1                   2                   3
     0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    +---------------+-+-+---+-------+-------------------------------+
    |    opcode     |S|M|pad| tver  |         partition key         |
    +---------------+-+-+---+-------+-------------------------------+
    |F|B| reserved  |             destination queue pair            |
    +-+-------------+-----------------------------------------------+
    |A|  reserved   |          packet sequence number (PSN)         |
    +-+-------------+-----------------------------------------------+

RETH (first packet of a write):  virtual address 64 | remote key 32 | DMA length 32
AETH (acknowledgement):          syndrome 8 | message sequence number 24
CNP (congestion notification):   16 reserved bytes, and B (backward notification) set in the BTH (annex A17.9.3)

The ICRC (annex A17) is CRC-32 over eight bytes of ones, then the packet from the IP header on, with the fields that
change in transit (type of service, TTL, both checksums, BTH's byte of F and B) replaced by ones; it is sent in
little-endian order. M (migration state) is 1, as real adapters send it. This module imports only struct, zlib, the
outer header and the table of traffic classes, so that a NIC process starts fast and stays small.
"""

import struct
import zlib
from typing import NamedTuple

from heddle.foundation.traffic_class import CNP as CNP_CLASS
from heddle.foundation.traffic_class import PRIORITY_OF_DSCP
from heddle.mininet_topos.wire.srv6 import Tunnel, wrapped

ROCE_PORT = 4791
PSN_MASK = 0xFFFFFF
PSN_HALF = 0x800000
DEFAULT_PARTITION_KEY = 0xFFFF
MIGRATED = 0x40

CNP_MARK = 0x40
"""B, in the byte before the destination queue pair."""

RC_SEND_FIRST = 0x00
RC_SEND_MIDDLE = 0x01
RC_SEND_LAST = 0x02
RC_SEND_ONLY = 0x04
RC_RDMA_WRITE_FIRST = 0x06
RC_RDMA_WRITE_MIDDLE = 0x07
RC_RDMA_WRITE_LAST = 0x08
RC_RDMA_WRITE_ONLY = 0x0A
RC_ACKNOWLEDGE = 0x11
CNP = 0x81
WRITE_OPCODES = (RC_RDMA_WRITE_FIRST, RC_RDMA_WRITE_MIDDLE, RC_RDMA_WRITE_LAST, RC_RDMA_WRITE_ONLY)
SEND_OPCODES = (RC_SEND_FIRST, RC_SEND_MIDDLE, RC_SEND_LAST, RC_SEND_ONLY)
DATA = frozenset(WRITE_OPCODES + SEND_OPCODES)
MESSAGE_ENDS = frozenset((RC_RDMA_WRITE_LAST, RC_RDMA_WRITE_ONLY, RC_SEND_LAST, RC_SEND_ONLY))

ECN_MASK = 0x03
CONGESTION_EXPERIENCED = 0x03
CNP_TRAFFIC_CLASS = CNP_CLASS.dscp << 2
"""Switches serve it before data; a CNP itself is not ECN-capable."""

ACK_SYNDROME = 0x1F
"""An ACK without end-to-end credits (section 9.7.5.1.2)."""
NAK_SEQUENCE_ERROR = 0x60
"""A NAK of code 0, PSN sequence error."""
NAK_KIND_MASK = 0x60

ETHERNET_BYTES, IP_BYTES, UDP_BYTES, BTH_BYTES, ICRC_BYTES = 14, 20, 8, 12, 4
BTH_AT = ETHERNET_BYTES + IP_BYTES + UDP_BYTES
EXTENSION_AT = BTH_AT + BTH_BYTES
MIN_FRAME_BYTES = EXTENSION_AT + ICRC_BYTES
CNP_RESERVED_BYTES = 16
RETH = struct.Struct(">QII")
AETH = struct.Struct(">I")
PAYLOAD_OF_ACK_AT = EXTENSION_AT + AETH.size
_HEADERS = struct.Struct(">12xHBBHHHBBHIIHHHHBBHII")
_EXTENSION_BYTES = {
    RC_RDMA_WRITE_FIRST: RETH.size,
    RC_RDMA_WRITE_ONLY: RETH.size,
    RC_ACKNOWLEDGE: AETH.size,
    CNP: CNP_RESERVED_BYTES,
}
_PRIORITIES = bytes(PRIORITY_OF_DSCP.get(dscp, dscp >> 3) for dscp in range(64))
_ONES = b"\xff" * 8


class Route(NamedTuple):
    """The headers that all packets of one direction of a queue pair share."""

    source_mac: bytes
    destination_mac: bytes
    source_ip: int
    destination_ip: int
    udp_source_port: int
    destination_qp: int
    traffic_class: int
    """The IPv4 type of service byte: DSCP in the upper six bits, ECN in the lower two."""


class Packet(NamedTuple):
    """The header fields of a received frame."""

    source_ip: int
    destination_ip: int
    udp_source_port: int
    traffic_class: int
    opcode: int
    destination_qp: int
    psn: int
    ack_request: bool
    syndrome: int
    message_sequence: int
    payload_bytes: int
    icrc_valid: bool
    selective: bytes = b""
    """The payload of an ACK, which only queue pairs that spray their packets send."""


class FrameWriter:
    """Builds the frames of one route from templates, one per opcode and size, in which only few fields change."""

    def __init__(self, route: Route, tunnel: Tunnel | None = None) -> None:
        """Use this route, and an outer header where there is a `tunnel`; templates are built on first use."""
        self._route, self.tunnel = route, tunnel
        self._shapes: dict[tuple[int, int], tuple[bytearray, int]] = {}

    @property
    def route(self) -> Route:
        """Return the present route."""
        return self._route

    def move(self, udp_source_port: int) -> None:
        """Use another UDP source port from the next frame on."""
        self._route = self._route._replace(udp_source_port=udp_source_port)
        self._shapes.clear()

    def lead(self, sid: str) -> None:
        """Name another path in the outer header from the next frame on."""
        if self.tunnel is not None:
            self.tunnel = self.tunnel.to(sid)

    def write(
        self, opcode: int, psn: int, ack_request: bool, payload_bytes: int, address: int = 0, length: int = 0
    ) -> bytearray:
        """Return a write or send packet with a payload of zeros; valid until the next one of the same opcode and size.

        `address` and `length` fill the RETH of a write's first or only packet: target address and message length.
        """
        frame, checksum = self._shape(opcode, payload_bytes)
        if opcode in _EXTENSION_BYTES:
            RETH.pack_into(frame, EXTENSION_AT, address, 0, length)
        return self._tunnelled(_finish(frame, checksum, psn, ack_request))

    def acknowledge(self, psn: int, syndrome: int, message_sequence: int, selective: bytes = b"") -> bytearray:
        """Return an ACK or NAK with a payload of whole words, if any; the buffer is valid until the next one."""
        frame, checksum = self._shape(RC_ACKNOWLEDGE, len(selective))
        AETH.pack_into(frame, EXTENSION_AT, syndrome << 24 | message_sequence & 0xFFFFFF)
        frame[PAYLOAD_OF_ACK_AT : PAYLOAD_OF_ACK_AT + len(selective)] = selective
        return self._tunnelled(_finish(frame, checksum, psn, False))

    def congestion_notification(self) -> bytearray:
        """Return a CNP to the route's queue pair; its PSN is zero and it has no acknowledgement."""
        frame, checksum = self._shape(CNP, 0)
        return self._tunnelled(_finish(frame, checksum, 0, False))

    def _tunnelled(self, frame: bytearray) -> bytearray:
        return frame if self.tunnel is None else wrapped(frame, self.tunnel)

    def _shape(self, opcode: int, payload_bytes: int) -> tuple[bytearray, int]:
        key = (opcode, payload_bytes)
        if key not in self._shapes:
            self._shapes[key] = _lay_out(self._route, opcode, payload_bytes)
        return self._shapes[key]


def parse(frame: bytearray | memoryview, length: int) -> Packet | None:
    """Parse a frame of `length` bytes; return None if it is not a whole RoCEv2 packet over IPv4 without options."""
    if length < MIN_FRAME_BYTES:
        return None
    (
        ethertype, version, traffic_class, ip_bytes, _, _, _, protocol, _, source, destination,
        source_port, port, _, _, opcode, flags, _, qp_word, psn_word,
    ) = _HEADERS.unpack_from(frame)  # fmt: skip
    if ethertype != 0x0800 or version != 0x45 or protocol != 17 or port != ROCE_PORT:
        return None
    end = ETHERNET_BYTES + ip_bytes
    extension = _EXTENSION_BYTES.get(opcode, 0)
    payload_bytes = end - EXTENSION_AT - extension - ICRC_BYTES - (flags >> 4 & 3)
    if end > length or payload_bytes < 0:
        return None
    is_ack = opcode == RC_ACKNOWLEDGE
    aeth = AETH.unpack_from(frame, EXTENSION_AT)[0] if is_ack else 0
    return Packet(
        source, destination, source_port, traffic_class, opcode, qp_word & 0xFFFFFF, psn_word & PSN_MASK,
        psn_word >> 31 == 1, aeth >> 24, aeth & 0xFFFFFF, payload_bytes,
        bytes(frame[end - ICRC_BYTES : end]) == _icrc(frame, end),
        bytes(frame[PAYLOAD_OF_ACK_AT : PAYLOAD_OF_ACK_AT + payload_bytes]) if is_ack and payload_bytes else b"",
    )  # fmt: skip


def priority(traffic_class: int) -> int:
    """Return the priority of a type of service byte: that of its class, else its DSCP's class selector (RFC 2474)."""
    return _PRIORITIES[traffic_class >> 2]


def wire_bytes(opcode: int, payload_bytes: int) -> int:
    """Return the frame size that pacing and shaping use: without preamble and frame check sequence."""
    return EXTENSION_AT + _EXTENSION_BYTES.get(opcode, 0) + payload_bytes + (-payload_bytes & 3) + ICRC_BYTES


def _lay_out(route: Route, opcode: int, payload_bytes: int) -> tuple[bytearray, int]:
    """Return a template with all fields but PSN, extension header and ICRC, and the CRC up to BTH's last word."""
    size = wire_bytes(opcode, payload_bytes)
    frame = bytearray(size)
    pad = -payload_bytes & 3
    traffic_class, marks = (CNP_TRAFFIC_CLASS, CNP_MARK) if opcode == CNP else (route.traffic_class, 0)
    _HEADERS.pack_into(
        frame, 0, 0x0800, 0x45, traffic_class, size - ETHERNET_BYTES, 0, 0x4000, 64, 17, 0, route.source_ip,
        route.destination_ip, route.udp_source_port, ROCE_PORT, size - ETHERNET_BYTES - IP_BYTES, 0,
        opcode, MIGRATED | pad << 4, DEFAULT_PARTITION_KEY, marks << 24 | route.destination_qp, 0,
    )  # fmt: skip
    frame[0:6], frame[6:12] = route.destination_mac, route.source_mac
    struct.pack_into(">H", frame, 24, _ip_checksum(frame))
    return frame, zlib.crc32(_masked_headers(frame)[:-4])


def _finish(frame: bytearray, checksum: int, psn: int, ack_request: bool) -> bytearray:
    struct.pack_into(">I", frame, BTH_AT + 8, ack_request << 31 | psn & PSN_MASK)
    with memoryview(frame) as view:
        icrc = zlib.crc32(view[BTH_AT + 8 : -ICRC_BYTES], checksum)
    struct.pack_into("<I", frame, len(frame) - ICRC_BYTES, icrc)
    return frame


def _icrc(frame: bytearray | memoryview, end: int) -> bytes:
    with memoryview(frame) as view:
        return zlib.crc32(view[EXTENSION_AT : end - ICRC_BYTES], zlib.crc32(_masked_headers(frame))).to_bytes(
            4, "little"
        )


def _masked_headers(frame: bytearray | memoryview) -> bytearray:
    """Return eight bytes of ones and the headers through BTH, with the fields that change in transit as ones."""
    masked = bytearray(_ONES)
    masked += frame[ETHERNET_BYTES:EXTENSION_AT]
    masked[9] = masked[16] = 0xFF
    masked[18:20] = masked[34:36] = b"\xff\xff"
    masked[40] = 0xFF
    return masked


def _ip_checksum(frame: bytearray) -> int:
    """Return the IPv4 header checksum (RFC 791) of a frame whose checksum field is zero."""
    total = sum(struct.unpack_from(">10H", frame, ETHERNET_BYTES))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
