"""Linux as a NAT gateway: connection tracking and nftables in a namespace, raw sockets at both of its ends."""

import socket
import struct

from heddle.mininet_topos.host.namespace import network_namespace
from tests.support.packets.namespaces import Namespace, join

INSIDE_MAC, OUTSIDE_MAC = "02:00:00:00:0a:01", "02:00:00:00:0a:02"
ROUTER_MACS = (bytes.fromhex("020000000b01"), bytes.fromhex("020000000b02"))
SETTINGS = (
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.send_redirects=0",
    "net.ipv6.conf.all.disable_ipv6=1",
)
TRACKING = ("net.netfilter.nf_conntrack_tcp_loose=0", "net.netfilter.nf_conntrack_checksum=0")
RULES = """
table ip nat_gateway {
  chain arriving {
    type nat hook prerouting priority dstnat;
    ip daddr 203.0.113.20 dnat to 10.0.0.10
  }
  chain leaving {
    type nat hook postrouting priority srcnat;
    oifname "out0" ip saddr 10.0.0.10 snat to 203.0.113.20
    oifname "out0" ip saddr 10.0.0.0/24 snat to 203.0.113.10
  }
  chain passing {
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    ct state invalid drop
    iifname "in0" accept
    ct status dnat udp dport 5000-5999 accept
    ct status dnat tcp dport 443 accept
    ct status dnat icmp type echo-request accept
  }
}
"""
MARK = b"the packet behind the others"


class KernelNat:
    """A NAT router in a namespace: packets sent at one end are returned as received at the other."""

    def __init__(self):
        self._router, self._far = Namespace(), Namespace()
        join(self._router, "in0", self._far, "inside")
        join(self._router, "out0", self._far, "outside")
        for space in (self._router, self._far):
            space.run("sysctl", "-qw", *SETTINGS)
        router = self._router.run
        for device, address, mac in zip(("in0", "out0"), ("10.0.0.1/24", "203.0.113.2/24"), ROUTER_MACS, strict=True):
            router("ip", "link", "set", device, "address", mac.hex(":"))
            router("ip", "addr", "add", address, "dev", device)
        for number in (10, 11, 12, 99):
            router("ip", "neigh", "add", f"10.0.0.{number}", "lladdr", INSIDE_MAC, "dev", "in0", "nud", "permanent")
        router("ip", "neigh", "add", "203.0.113.1", "lladdr", OUTSIDE_MAC, "dev", "out0", "nud", "permanent")
        router("ip", "route", "add", "default", "via", "203.0.113.1")
        router("nft", "-f", "-", given=RULES)
        router("sysctl", "-qw", *TRACKING)
        with network_namespace(self._far.pid):
            self._ends = [_opened(name) for name in ("inside", "outside")]

    def inside(self, *packets):
        """Send packets inside; return the IP packets received outside."""
        return self._pass(0, packets, _udp("10.0.0.99", "198.51.100.99", 9, 9))

    def outside(self, *packets):
        """Send packets outside; return the IP packets received inside."""
        return self._pass(1, packets, _udp("198.51.100.99", "203.0.113.20", 9, 5999))

    def _pass(self, end, packets, last):
        for packet in (*packets, last):
            self._ends[end].send(ROUTER_MACS[end] + bytes(6) + b"\x08\x00" + bytes(packet))
        got = []
        while True:
            frame = self._ends[1 - end].recv(65536)  # packets of a veth pair keep their order
            total = int.from_bytes(frame[16:18], "big")
            packet = frame[14 : 14 + total]
            if packet.endswith(MARK):
                return got
            if frame[12:14] == b"\x08\x00":
                got.append(packet)

    def close(self):
        """Close the namespaces and sockets."""
        for end in self._ends:
            end.close()
        self._router.close()
        self._far.close()


def _opened(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
    sock.bind((name, 3))  # ETH_P_ALL
    sock.settimeout(60)
    return sock


def _udp(source, target, source_port, target_port):
    """Return a UDP packet without a checksum."""
    udp = struct.pack("!HHHH", source_port, target_port, 8 + len(MARK), 0) + MARK
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0)
    header = bytearray(ip + socket.inet_aton(source) + socket.inet_aton(target))
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF)
    return bytes(header) + udp
