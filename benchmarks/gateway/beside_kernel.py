"""A tenant's traffic to the internet through the whole gateway, and through Linux's VXLAN and NAT on the same veths.

client: kernel VXLAN, 10.0.0.10 ── underlay ── the device: `heddle gateway`, or VXLAN and nftables ── wan ── server

Clients and servers are sockets of the kernel (iperf for TCP), without offloads. Processor time is that of everything
that carries the bytes, since on veth a packet is delivered in the sender's time.
"""

import json
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import yaml

from heddle.benchmarks.gateway.wire.processor import soft_interrupts
from heddle.dataplane.config.addresses import gateway_mac
from heddle.foundation.address import mac_text
from tests.support.packets import nat_clients
from tests.support.packets.namespaces import Namespace, join

VNI, VTEP, HOST, CLIENT, SERVER, PUBLIC = 100, "192.0.2.1", "192.0.2.10", "10.0.0.10", "203.0.113.1", "203.0.113.10"
CLIENT_MAC, UNDERLAY_MTU_BYTES, VXLAN_BYTES = "02:00:00:00:00:10", 4300, 50
SECONDS, ROUNDS, READY_S, ECHOES = 4, 3, 900, 2000
ECHO_PORT, UDP_PORT = 7, 5000
LINUX = "Linux VXLAN and nftables"
ECHO = (
    "import socket,sys\nend = socket.create_server((sys.argv[1], int(sys.argv[2])))\nprint(flush=True)\nwhile True:\n"
    "  one, _ = end.accept()\n  one.setsockopt(6, 1, 1)\n  while data := one.recv(64): one.sendall(data)\n"
)
PING_PONG = (
    "import socket,sys,time\nend = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
    "end.setsockopt(6, 1, 1)\nfor _ in range(int(sys.argv[3])):\n  before = time.perf_counter_ns()\n"
    "  end.sendall(b'x')\n  end.recv(1)\n  print(time.perf_counter_ns() - before)\n"
)


class Traffic(NamedTuple):
    """What the client sends: TCP streams, or datagrams of a size at a rate."""

    name: str
    streams: int = 0
    datagram_bytes: int = 0
    bit_s: int = 0


TRAFFIC = (
    Traffic("TCP, 1 stream", streams=1),
    Traffic("TCP, 8 streams", streams=8),
    Traffic("UDP, 8,000 B at 200 Mbit/s", datagram_bytes=8000, bit_s=200_000_000),
    Traffic("UDP, 60 B at 40,000/s", datagram_bytes=60, bit_s=40_000 * 60 * 8),
)


@dataclass(frozen=True, slots=True)
class Carried:
    """What one kind of traffic cost through one device."""

    device: str
    traffic: str
    gbit_s: float
    lost_percent: float
    own_s: float
    """Seconds of processor time per GB of payload: the gateway's processes; Linux has none."""
    whole_s: float
    """Of client, server, gateway and ksoftirqd."""
    rtt_ms: float
    """Median of a byte and its echo by TCP."""


class Course:
    """Client, place of the device, and server, each a namespace."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stack = folder, ExitStack()
        self.client, self.device, self.server = (self._space() for _ in range(3))
        join(self.client, "underlay", self.device, "underlay", UNDERLAY_MTU_BYTES)
        join(self.device, "wan", self.server, "wan")
        self.client.run("ip", "addr", "add", f"{HOST}/24", "dev", "underlay")
        self.tunnel(self.client, CLIENT_MAC, HOST, VTEP, f"{CLIENT}/24")
        self.client.run("ip", "neigh", "add", "10.0.0.1", "lladdr", mac_text(gateway_mac(VNI)), "dev", "vx")
        self.client.run("ip", "route", "add", "default", "via", "10.0.0.1")
        self.server.run("ip", "addr", "add", f"{SERVER}/24", "dev", "wan")
        self.servers = [self._served("iperf", "-s"), self._served(sys.executable, "-c", ECHO, SERVER, str(ECHO_PORT))]

    def _space(self) -> Namespace:
        made = Namespace()
        self.stack.callback(made.close)
        return made

    def _served(self, *command: str) -> int:
        process = self.server.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        return process.pid

    def tunnel(self, space: Namespace, mac: str, own: str, other: str, address: str) -> None:
        """Give a namespace a VXLAN device of the tenant's network."""
        space.run("ip", "link", "add", "vx", "address", mac, "mtu", str(UNDERLAY_MTU_BYTES - VXLAN_BYTES), "type",
                  "vxlan", "id", str(VNI), "local", own, "remote", other, "dev", "underlay", "dstport", "4789",
                  "nolearning")  # fmt: skip
        space.run("ip", "addr", "add", address, "dev", "vx")
        space.run("ip", "link", "set", "vx", "up")
        off = [word for feature in ("tx", "rx", "sg", "tso", "gso", "gro") for word in (feature, "off")]
        space.run("ethtool", "-K", "vx", *off)


@contextmanager
def linux(course: Course) -> Iterator[tuple[int, ...]]:
    """Let the kernel decapsulate, route and translate."""
    run = course.device.run
    run("ip", "addr", "add", f"{VTEP}/24", "dev", "underlay")
    run("ip", "addr", "add", "203.0.113.2/24", "dev", "wan")
    run("ip", "addr", "add", f"{PUBLIC}/32", "dev", "wan")
    course.tunnel(course.device, mac_text(gateway_mac(VNI)), VTEP, HOST, "10.0.0.1/24")
    run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    chain = "type nat hook postrouting priority srcnat"
    run("nft", "-f", "-", given=f'table ip t {{\n chain c {{\n {chain};\n oifname "wan" snat to {PUBLIC}\n }}\n}}\n')
    try:
        yield ()
    finally:
        run("nft", "delete", "table", "ip", "t")
        run("sysctl", "-qw", "net.ipv4.ip_forward=0")
        run("ip", "link", "del", "vx")
        for device in ("underlay", "wan"):
            run("ip", "addr", "flush", "dev", device)


@contextmanager
def heddle(course: Course, backend: str) -> Iterator[tuple[int, ...]]:
    """Run `heddle gateway`."""
    endpoint = {"ip": CLIENT, "mac": CLIENT_MAC, "vtep_ip": HOST}
    vpc = {"id": "red", "vni": VNI, "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.1"}],
           "endpoints": [endpoint], "nat": {"public_ip": PUBLIC}}  # fmt: skip
    sides = [
        {"name": "underlay", "side": "underlay", "address": VTEP, "network": "192.0.2.0/24",
         "mtu_bytes": UNDERLAY_MTU_BYTES},
        {"name": "wan", "side": "external", "address": "203.0.113.2", "network": "203.0.113.0/24", "router": SERVER},
    ]  # fmt: skip
    config, network = course.folder / "gateway.yaml", course.folder / "network.yaml"
    names = {"gateway_id": "gw", "runtime_dir": str(course.folder), "backend": backend}
    config.write_text(yaml.safe_dump({**names, "interfaces": sides}))
    network.write_text(yaml.safe_dump({"vpcs": [vpc]}))
    words = ("gateway", "--config", str(config), "--network", str(network))
    with (course.folder / "log").open("w") as log:
        process = course.device.start(
            sys.executable, "-m", "heddle.programs.console.main", *words, stdout=subprocess.PIPE, stderr=log
        )
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], READY_S)[0] or not json.loads(process.stdout.readline()):
            raise RuntimeError(f"the gateway is not ready: {(course.folder / 'log').read_text()}")
        yield (process.pid, *(int(child) for child in _children(process.pid)))
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _children(pid: int) -> list[str]:
    return [child for each in Path(f"/proc/{pid}/task").glob("*/children") for child in each.read_text().split()]


DEVICES = {
    "heddle af-xdp": lambda course: heddle(course, "af-xdp"),
    "heddle af-packet": lambda course: heddle(course, "af-packet"),
    LINUX: linux,
}


def carried(seconds: int = SECONDS, rounds: int = ROUNDS) -> list[Carried]:
    """Measure all devices in turns; each row is the median of the rounds. Raises RuntimeError if nothing passes."""
    found: dict[tuple[str, str], list[Carried]] = {}
    with TemporaryDirectory() as folder, ExitStack() as stack:
        course = Course(Path(folder))
        stack.push(course.stack.pop_all())
        for _ in range(rounds):
            for name, opener in DEVICES.items():
                with opener(course) as pids:
                    rtt_ms = _rtt_ms(course)
                    for traffic in TRAFFIC:
                        row = _measured(course, traffic, pids, seconds)
                        found.setdefault((traffic.name, name), []).append(replace(row, device=name, rtt_ms=rtt_ms))
    names = ("gbit_s", "lost_percent", "own_s", "whole_s", "rtt_ms")
    medians = [
        replace(each[0], **{name: statistics.median(getattr(one, name) for one in each) for name in names})
        for each in found.values()
    ]
    order = [traffic.name for traffic in TRAFFIC]
    return sorted(medians, key=lambda row: order.index(row.traffic))


def _rtt_ms(course: Course) -> float:
    """Return the median round trip of a byte by TCP; waits until the device forwards."""
    deadline = time.monotonic() + 20
    while not course.client.pings(SERVER, count=1):
        if time.monotonic() > deadline:
            raise RuntimeError("nothing passes the device")
    done = course.client.run(sys.executable, "-c", PING_PONG, SERVER, str(ECHO_PORT), str(ECHOES))
    return statistics.median(map(int, done.stdout.split())) / 1e6


def _measured(course: Course, traffic: Traffic, pids: tuple[int, ...], seconds: int) -> Carried:
    soft = [thread for cpu in range(os.cpu_count() or 1) if (thread := soft_interrupts(cpu)) is not None]
    everything = (*pids, *course.servers, *soft)
    before = _spent_s(pids), _spent_s(everything), _children_s()
    bytes_, gbit_s, lost = (_streams if traffic.streams else _datagrams)(course, traffic, seconds)
    own_s, whole_s = _spent_s(pids) - before[0], _spent_s(everything) - before[1] + _children_s() - before[2]
    if not bytes_:
        raise RuntimeError(f"{traffic.name}: nothing arrived")
    gb = bytes_ / 1e9
    return Carried("", traffic.name, gbit_s, lost, own_s / gb, whole_s / gb, 0.0)


def _streams(course: Course, traffic: Traffic, seconds: int) -> tuple[int, float, float]:
    """Send by TCP; return bytes, Gbit/s, and 0 for what is lost."""
    words = ("-t", str(seconds), "-P", str(traffic.streams), "-y", "C")
    return streams_of(course.client.run("iperf", "-c", SERVER, *words).stdout)


def streams_of(text: str) -> tuple[int, float, float]:
    """Return bytes, Gbit/s, and 0 for what is lost, from iperf's line of values for each stream."""
    rows = [line.split(",") for line in text.split()]
    found = sum(int(row[7]) for row in rows)
    first, last = zip(*(map(float, row[6].split("-")) for row in rows), strict=True)
    return found, found * 8e-9 / (max(last) - min(first)), 0.0


def _datagrams(course: Course, traffic: Traffic, seconds: int) -> tuple[int, float, float]:
    """Send datagrams without DF; return bytes that arrived, Gbit/s, and the percentage of datagrams that were lost."""
    client = (sys.executable, nat_clients.__file__)
    count = course.server.start(*client, "count", str(UDP_PORT), "1", stdout=subprocess.PIPE)
    assert count.stdout is not None
    count.stdout.readline()
    words = ("stream", SERVER, str(UDP_PORT), str(traffic.datagram_bytes), str(traffic.bit_s), str(seconds))
    sent = json.loads(course.client.run(*client, *words).stdout)["sent"]
    received = json.loads(count.communicate(timeout=30)[0])["received"]
    bytes_ = received * traffic.datagram_bytes
    return bytes_, bytes_ * 8e-9 / seconds, 100 * (1 - received / sent)


def _spent_s(pids: Sequence[int]) -> float:
    """Return the processor time of processes, with all threads that they had (proc(5), utime and stime)."""
    fields = (Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in pids)
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def _children_s() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system
