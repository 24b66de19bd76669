"""The generated traffic of a balancer: VXLAN packets with TCP segments of many clients' connections to a virtual IP.

Connections are numbered: LIVE of them are established before anything is measured, and NEW further ones are opened by
SYNs. Both are sent in an order drawn at random, so that no two consecutive packets share a cache line of the table.
"""

import struct
from ipaddress import IPv4Address

import numpy as np
from numpy.typing import NDArray

from heddle.benchmarks.gateway.wire.course import GENERATOR_IP, INGRESS_IP, INGRESS_MAC
from heddle.benchmarks.gateway.wire.head import frame_head
from heddle.dataplane.config.balancers import balancer_mac

CLIENTS = 4096
LIVE = NEW = 1 << 20
VNI, CLIENT_NET, VIP = 7, 0x0A000000, 0x0A0100FE
DIRECT_PORT, NAT_PORT = 80, 443
SYN, ACK = 2, 16
OUTER_BYTES, MIN_BYTES, FLAGS_AT, SEED = 50, 64, 97, 3
"""Bytes of the outer headers; least length of an inner frame; offset of TCP's flags in a packet; of the order."""
Frames = NDArray[np.uint8]


def live(port: int) -> str:
    """Return the form of traffic on established connections to a port of the virtual IP."""
    return f"live-{port}"


def opening(port: int) -> str:
    """Return the form of traffic that opens a connection with each packet."""
    return f"opening-{port}"


def is_balanced(form: str) -> bool:
    return form.startswith(("live-", "opening-"))


def shaped(length: int, form: str) -> Frames:
    """Return all packets of a form, one for each connection; `length` is that of the inner frame."""
    kind, port = form.split("-")
    order = np.random.default_rng(SEED).permutation(LIVE if kind == "live" else NEW)
    return segments(length, order if kind == "live" else LIVE + order, int(port), ACK if kind == "live" else SYN)


def segments(length: int, connections: NDArray[np.int64], port: int, flags: int) -> Frames:
    """Return a VXLAN packet for each connection number, with a TCP segment and correct checksums.

    Raises:
        ValueError: the inner frame is too short for TCP.
    """
    if length < MIN_BYTES:
        raise ValueError(f"{length} bytes: an inner frame has at least {MIN_BYTES}")
    rows = np.tile(np.frombuffer(_template(length, port, flags), np.uint8), (len(connections), 1))
    clients, ports = connections % CLIENTS, 1024 + connections // CLIENTS
    source = (CLIENT_NET + 1 + clients).astype(">u4")
    rows[:, 76:80] = source.view(np.uint8).reshape(-1, 4)
    rows[:, 84:86] = ports.astype(">u2").view(np.uint8).reshape(-1, 2)
    _set_checksum(rows, 74, rows[:, 64:84])
    pseudo = np.zeros((len(rows), 4), np.uint8)
    pseudo[:, 1], pseudo[:, 2:4] = 6, np.frombuffer(struct.pack("!H", length - 34), np.uint8)
    _set_checksum(rows, 100, rows[:, 76:84], pseudo, rows[:, 84:])
    return rows


def _set_checksum(rows: Frames, at: int, *covered: Frames) -> None:
    """Write the Internet checksum (RFC 1071) of some columns, which are zero at the checksum itself."""
    total = sum(np.ascontiguousarray(part).view(">u2").sum(axis=1, dtype=np.int64) for part in covered)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    rows[:, at : at + 2] = (~np.asarray(total) & 0xFFFF).astype(">u2").view(np.uint8).reshape(-1, 2)


def _template(length: int, port: int, flags: int) -> bytes:
    outer = bytearray(
        frame_head(length + OUTER_BYTES, int(IPv4Address(GENERATOR_IP)), int(IPv4Address(INGRESS_IP)), 50000,
                   INGRESS_MAC)
    )  # fmt: skip
    outer[36:38] = (4789).to_bytes(2, "big")
    vxlan = b"\x08\0\0\0" + VNI.to_bytes(3, "big") + b"\0"
    ethernet = balancer_mac(VNI).to_bytes(6, "big") + b"\x02\0\0\x01\0\x01" + b"\x08\0"
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, length - 14, 0, 0x4000, 64, 6, 0, 0, VIP)
    tcp = struct.pack("!HHIIBBHHH", 0, port, 1, 1 if flags & ACK else 0, 0x50, flags, 0xFFFF, 0, 0)
    return bytes(outer) + vxlan + ethernet + ip + tcp + bytes(length - 54)
