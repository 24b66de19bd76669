"""The headers that every generated frame begins with: Ethernet, IPv4 and UDP."""

import struct

from heddle.benchmarks.gateway.wire.course import GENERATOR_MAC


def frame_head(length: int, source: int, target: int, port: int, to_mac: str) -> bytes:
    ethernet = bytes.fromhex((to_mac + GENERATOR_MAC).replace(":", "")) + b"\x08\x00"
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, length - 14, 0, 0x4000, 64, 17, 0, source, target)
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    udp = struct.pack("!HHHH", port, 9000, length - 34, 0)
    return ethernet + ip[:10] + struct.pack("!H", checksum) + ip[12:] + udp
