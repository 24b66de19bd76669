"""Our device under test, a process on one core: plain forwarding, encapsulation, a whole gateway or a whole balancer.

`python -m heddle.benchmarks.gateway.wire.ours KIND BACKEND SLOTS` opens the ports `in` and `out` of its namespace and
prints `ready`. A line on standard input starts forwarding, the next line stops it; then it prints its counters as a
JSON line.
"""

import json
import select
import sys
from collections.abc import Callable
from dataclasses import asdict
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

import numpy as np

from heddle.benchmarks.gateway.wire.balancer_device import balancer
from heddle.benchmarks.gateway.wire.course import ASIDE, EGRESS, EGRESS_IP, EGRESS_MAC, INGRESS, SINK_IP, SINK_MAC
from heddle.benchmarks.gateway.wire.drain import Accounting
from heddle.benchmarks.gateway.wire.gateway import gateway
from heddle.benchmarks.gateway.wire.traffic import TARGET_NET
from heddle.dataplane.config.local import Interface, LocalConfig, Side
from heddle.dataplane.config.network import Address, Endpoint, NetworkConfig, Subnet, Vpc
from heddle.dataplane.elements.headers.parse import read_headers
from heddle.dataplane.elements.leave import leave
from heddle.dataplane.engine.burst import BURST, drop, new_rows
from heddle.dataplane.engine.counters import Counters, imbalance, make_counters
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.io.forward import forward
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.io.opening import Backend, open_ports
from heddle.dataplane.io.ports import receive, settle
from heddle.dataplane.io.settings import PortSettings, RingSizes
from heddle.dataplane.jit import Bytes, Rows, kernel
from heddle.dataplane.tables.compiler.compile import compile_tables, link_of
from heddle.dataplane.tables.lookup import row3
from heddle.dataplane.tables.schema import EMPTY, Tables

VNI, ENDPOINTS = 5, 4096
ROUNDS = 200
"""Bursts per call, so that the time of Python in between is negligible."""


@kernel
def encapsulate_burst(memory: Bytes, packets: Rows, count: int, vni: int, tables: Tables) -> None:
    """Parse plain frames, look up their endpoints, and add the outer headers."""
    for i in range(count):
        packet = packets[i]
        packet.l3 = packet.at + 14
        packet.node = 0
        packet.routed = 1
        packet.vni = vni
        read_headers(memory, packet, 0)
        if packet.node == 0:
            row = row3(tables.endpoints, vni, packet.target_hi, packet.target_lo)
            if row == EMPTY:
                drop(packet, Drop.NO_ROUTE)
            else:
                leave(memory, packet, tables.next_hops[row], tables)


@kernel
def encapsulate(ports: Ports, packets: Rows, vni: int, tables: Tables, rounds: int, counters: Counters) -> int:
    """Encapsulate frames received at port 0 for a number of rounds; return the number of frames."""
    frames = 0
    for _ in range(rounds):
        count = receive(ports, 0, packets, BURST, counters)
        if count:
            encapsulate_burst(ports.memory, packets, count, vni, tables)
            settle(ports, packets, count, counters)
            frames += count
    return frames


def tables_for_encapsulation() -> Tables:
    """Return tables with the traffic's targets, and others, as endpoints behind the sink's VTEP."""
    subnet = Subnet(prefix=ip_network("10.1.0.0/16"), gateway=ip_address("10.1.255.254"))
    endpoints = tuple(
        Endpoint(ip=IPv4Address(TARGET_NET + 1 + number), mac=0x0200_0001_0000 + number, vtep=IPv4Address(SINK_IP))
        for number in range(ENDPOINTS)
    )
    mac = int(EGRESS_MAC.replace(":", ""), 16)
    underlay = Interface(
        name=EGRESS, side=Side.UNDERLAY, mac=mac, address=IPv4Address(EGRESS_IP), mtu_bytes=9000,
        network=IPv4Network(f"{EGRESS_IP}/24", strict=False),
    )  # fmt: skip
    inside = Interface(name=INGRESS, side=Side.CUSTOMER, mac=mac + 1)
    local = LocalConfig(gateway_id="bench", interfaces=(inside, underlay))
    vpc = Vpc(id="bench", vni=VNI, subnets=(subnet,), endpoints=endpoints)
    known: dict[tuple[int, Address], int] = {(link_of(1, 0), IPv4Address(SINK_IP)): int(SINK_MAC.replace(":", ""), 16)}
    return compile_tables(local, NetworkConfig(generation=1, vpcs=(vpc,)), neighbours=known, generation=1)


def _work(kind: str, ports: Ports, counters: Counters) -> Callable[[], int]:
    packets, rounds = new_rows(), ROUNDS
    if kind == "forward":
        to = np.array([1, -1])
        return lambda: forward(ports, packets, to, rounds, counters)
    if kind == "encapsulate":
        tables = tables_for_encapsulation()
        return lambda: encapsulate(ports, packets, VNI, tables, rounds, counters)
    if kind.startswith("gateway"):
        return gateway(ports, counters, sleeping=kind == "gateway-sleeping")
    if kind.startswith("balancer"):
        return balancer(kind, ports, counters)
    raise SystemExit(f"no kind {kind}")


def main() -> None:
    kind, backend, slots = sys.argv[1], Backend(sys.argv[2]), int(sys.argv[3])
    is_whole = kind.startswith(("gateway", "balancer"))
    wanted = [PortSettings(interface=INGRESS), PortSettings(interface=EGRESS, receives=is_whole)]
    if kind.startswith("gateway"):
        wanted.append(PortSettings(interface=ASIDE))
    opened = open_ports(
        wanted, notify=lambda line: print(line, file=sys.stderr), backend=backend, sizes=RingSizes(receive=slots)
    )
    counters = make_counters(len(wanted))
    step = _work(kind, opened.ports, counters)
    step()
    print("ready", flush=True)
    lines = open(0, "rb", buffering=0)  # noqa: SIM115 - unbuffered: select must see unread lines
    while lines.readline():
        for counted in (counters.ports, counters.drops, counters.punts):
            counted[:] = 0
        while not select.select([lines], [], [], 0)[0]:
            step()
        lines.readline()
        opened.sample(counters)
        print(json.dumps(asdict(_accounting(counters))), flush=True)
    opened.drain(counters)
    opened.close()


def _accounting(counters: Counters) -> Accounting:
    """Return the counts; raises RuntimeError unless every received frame was counted exactly once."""
    if imbalance(counters):
        raise RuntimeError(f"{imbalance(counters)} frames were counted more or less than once")
    ports = counters.ports
    return Accounting(
        received=int(ports["rx_packets"].sum()), missed=int(ports["rx_missed"].sum()),
        transmitted=int(ports["tx_packets"].sum()), dropped=int(counters.drops.sum() + counters.punts.sum()),
        why={Drop(i).name: int(n) for i, n in enumerate(counters.drops) if n}
        | {f"punted: {Punt(i).name}": int(n) for i, n in enumerate(counters.punts) if n},
    )  # fmt: skip


if __name__ == "__main__":
    main()
