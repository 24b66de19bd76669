"""Processor time of a hop by SRv6 beside plain routes and ECMP: the slope over chains of Linux routers on veth pairs.

A packet's whole way, from the sender's call to where the last device drops it, runs in the sender's thread, or in
ksoftirqd. What is not forwarding is the same for one router and for five, so the difference is four hops. The kinds
take turns, so that a busy machine is the same for all; the least of several rounds counts.
"""

import json
import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.srv6 import PORT_USIDS, address_of
from heddle.foundation.network_namespace import network_namespace

PACKETS, ROUNDS, PAYLOAD_BYTES = 4_000, 7, 1_024
HOPS = (1, 5)
BLOCK = 0xFCBB_0000
KINDS = ("IPv4 route", "IPv4 ECMP of 4", "IPv6 route", "SRv6 uN", "SRv6 uA")
FLAVOR = "flavors next-csid lblen 32 nflen 16"
GATEWAY = "fe80::1"
_SETTINGS = (
    "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.l.rp_filter=0",
    "net.ipv4.fib_multipath_hash_policy=1", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.all.seg6_enabled=1",
    "net.ipv6.conf.l.seg6_enabled=1",
)  # fmt: skip


def hop_costs() -> dict[str, float]:
    """Return by kind of forwarding the processor time of a hop, in µs; needs root."""
    least = {hops: _least(hops) for hops in HOPS}
    few, many = HOPS
    return {kind: (least[many][kind] - least[few][kind]) / (many - few) for kind in KINDS}


def _least(hops: int) -> dict[str, float]:
    """Return by kind the least processor time of a packet over so many routers, in µs."""
    with _chain(hops) as pids, network_namespace(pids[0]):
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sender.bind(("r", 0))
        with sender:
            frames = {kind: _frame(kind, hops) for kind in KINDS}
            found = dict.fromkeys(KINDS, float("inf"))
            for _ in range(ROUNDS):
                for kind, frame in frames.items():
                    before = _received(pids[-1])
                    found[kind] = min(found[kind], _sent_us(sender, frame))
                    if (arrived := _received(pids[-1]) - before) < PACKETS:
                        raise RuntimeError(f"{kind}: {arrived} of {PACKETS} packets arrived over {hops} routers")
    return found


def _sent_us(sender: socket.socket, frame: bytes) -> float:
    kernel, began = _softirq_s(), time.thread_time()
    for _ in range(PACKETS):
        sender.send(frame)
    return (time.thread_time() - began + _softirq_s() - kernel) / PACKETS * 1e6


def _softirq_s() -> float:
    """Return the processor time of all ksoftirqd."""
    names = (path.parent for path in Path("/proc").glob("[0-9]*/comm") if path.read_text().startswith("ksoftirqd"))
    return sum(int((path / "schedstat").read_text().split()[0]) for path in names) / 1e9


def _received(pid: int) -> int:
    done = subprocess.run(
        [*_entered(pid), "ip", "-s", "-j", "link", "show", "dev", "l"], capture_output=True, check=True
    )
    return int(json.loads(done.stdout)[0]["stats64"]["rx"]["packets"])


def _mac(node: int, side: int) -> str:
    return f"02:00:00:00:{node:02x}:{side:02x}"


def _entered(pid: int) -> tuple[str, ...]:
    return "nsenter", "-t", str(pid), "-n"


@contextmanager
def _chain(hops: int) -> Iterator[list[int]]:
    """Build sender, routers and receiver in a row, each in a process with a network namespace; yield the processes."""
    children = [subprocess.Popen(["unshare", "-n", "sleep", "infinity"]) for _ in range(hops + 2)]
    try:
        own = os.readlink("/proc/self/ns/net")
        for child in children:
            while os.readlink(f"/proc/{child.pid}/ns/net") == own:
                time.sleep(0.01)
        pids = [child.pid for child in children]
        links = [
            f"link add r mtu 9000 address {_mac(node, 1)} netns {pids[node]} type veth "
            f"peer name l mtu 9000 address {_mac(node + 1, 0)} netns {pids[node + 1]}"
            for node in range(hops + 1)
        ]
        _ip(links)
        for node, pid in enumerate(pids):
            _ip([f"link set dev {name} up" for name in ("l" * (node > 0), "r" * (node <= hops)) if name], pid)
            if 0 < node <= hops:
                subprocess.run([*_entered(pid), "sysctl", "-qw", *_SETTINGS], check=True)
                _ip(_router(node, _mac(node + 1, 0) if node < hops else "02:00:00:00:ff:ff"), pid)
        yield pids
    finally:
        for child in children:
            child.kill()
            child.wait()


def _router(node: int, far: str) -> list[str]:
    """Return the addresses, neighbours and routes of a router; the last one's neighbour is no one: it is dropped."""
    hops = " ".join(f"nexthop via 169.254.0.{100 + number} dev r onlink" for number in range(4))
    return [
        f"addr add 169.254.0.{node}/24 dev r",
        f"neigh replace {GATEWAY} lladdr {far} dev r nud permanent",
        *(f"neigh replace 169.254.0.{100 + number} lladdr {far} dev r nud permanent" for number in range(4)),
        "route replace 10.9.0.1/32 via 169.254.0.100 dev r onlink",
        f"route replace 10.9.0.2/32 {hops}",
        f"route replace fd09::1/128 via {GATEWAY} dev r",
        f"route replace {_prefix(PORT_USIDS + 1)} encap seg6local action End.X nh6 {GATEWAY} oif r {FLAVOR} dev r",
        f"route replace {_prefix(node)} encap seg6local action End {FLAVOR} dev r",
        f"route replace {_prefix(node + 1)} via {GATEWAY} dev r",
    ]


def _prefix(usid: int) -> str:
    return f"{ipv6_text(address_of(BLOCK, (usid,)))}/48"


def _ip(lines: list[str], pid: int = 0) -> None:
    words = [*(_entered(pid) if pid else ()), "ip", "-batch", "-"]
    done = subprocess.run(words, input="\n".join(lines), text=True, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(re.sub(r"\s+", " ", f"ip refuses: {done.stderr}"))


def _frame(kind: str, hops: int) -> bytes:
    """Return a packet of UDP from the first device over so many routers, as this kind forwards it."""
    macs = bytes.fromhex((_mac(1, 0) + _mac(0, 1)).replace(":", ""))
    udp = struct.pack("!HHHH", 50_000, 4791, 8 + PAYLOAD_BYTES, 0) + bytes(PAYLOAD_BYTES)
    if kind.startswith("IPv4"):
        target = int(ip_address("10.9.0.2" if "ECMP" in kind else "10.9.0.1"))
        words = [0x4500, 20 + len(udp), 0, 0x4000, 0x4011, 0, 0x0A09, 0x0064, target >> 16, target & 0xFFFF]
        total = sum(words)
        words[5] = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        return macs + b"\x08\x00" + struct.pack("!10H", *words) + udp
    usids = {"SRv6 uN": range(1, hops + 2), "SRv6 uA": [PORT_USIDS + 1] * hops + [0xEEEE]}
    target = address_of(BLOCK, usids[kind]) if kind in usids else int(ip_address("fd09::1"))
    source = ip_address("fd09::64").packed
    return macs + struct.pack("!HIHBB", 0x86DD, 6 << 28, len(udp), 17, 64) + source + target.to_bytes(16) + udp
