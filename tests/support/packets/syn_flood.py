"""Send SYNs of many clients outside of a VPC to a virtual IP, as the VPC's gateway would; a process in its namespace.

`python -m tests.support.packets.syn_flood INTERFACE MAC VTEP VNI VIP PORT SOURCES RATE SECONDS` sends VXLAN packets to
a MAC and a VTEP, with a new source address in each of SOURCES packets, then the same again. It prints how many it sent.
"""

import socket
import struct
import sys
import time
from ipaddress import IPv4Address

from heddle.dataplane.config.balancers import balancer_mac
from tests.oracles.inet_checksum import ones_complement
from tests.support.processes.balancer_processes import GATEWAY

SOURCE_NET, SYN, BATCH_S = 0x08000000, 2, 0.002


def frames(to_mac: str, vtep: str, vni: int, vip: str, port: int, sources: int) -> list[bytes]:
    """Return a frame for each source."""
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 40, 0, 0x4000, 64, 6, 0, 0, int(IPv4Address(vip)))
    outer = struct.pack("!BBHHHBBHII", 0x45, 0, 90, 0, 0x4000, 64, 17, 0, int(IPv4Address(GATEWAY)),
                        int(IPv4Address(vtep)))  # fmt: skip
    outer = outer[:10] + ones_complement(outer).to_bytes(2, "big") + outer[12:]
    head = bytes.fromhex(to_mac.replace(":", "")) + b"\x02\0\0\0\0\x20\x08\0" + outer
    head += struct.pack("!HHHH", 50000, 4789, 70, 0) + b"\x08\0\0\0" + vni.to_bytes(3, "big") + b"\0"
    head += balancer_mac(vni).to_bytes(6, "big") + b"\x02\0\0\0\0\x21\x08\0"
    sum_ip, length = _words(ip), struct.pack("!HH", 6, 20)
    found = []
    for number in range(sources):
        source = (SOURCE_NET + 1 + number).to_bytes(4, "big")
        ports = struct.pack("!HH", 1024 + number % 60_000, port)
        rest = struct.pack("!IIBBHHH", number, 0, 0x50, SYN, 0xFFFF, 0, 0)
        tcp_sum = _checksum(_words(source) + _words(ip[16:20]) + _words(length) + _words(ports) + _words(rest))
        ip_sum = _checksum(sum_ip + _words(source))
        found.append(head + ip[:10] + ip_sum + source + ip[16:] + ports + rest[:12] + tcp_sum + rest[14:])
    return found


def _words(content: bytes) -> int:
    return sum(struct.unpack(f"!{len(content) // 2}H", content))


def _checksum(total: int) -> bytes:
    total = (total & 0xFFFF) + (total >> 16)
    return (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2, "big")


def main() -> None:
    interface, mac, vtep, vni, vip, port, sources = sys.argv[1:8]
    rate, seconds = float(sys.argv[8]), float(sys.argv[9])
    made = frames(mac, vtep, int(vni), vip, int(port), int(sources))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        print("ready", flush=True)
        begun, sent = time.monotonic(), 0
        while (now := time.monotonic() - begun) < seconds:
            while sent < rate * now:
                out.send(made[sent % len(made)])
                sent += 1
            time.sleep(BATCH_S)
    print(sent, flush=True)


if __name__ == "__main__":
    main()
