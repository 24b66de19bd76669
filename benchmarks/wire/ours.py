"""Our own device: plain forwarding, VXLAN encapsulation with lookup, the whole gateway; a process on one core.

`python -m benchmarks.wire.ours KIND BACKEND [SLOTS]` opens `in` and `out` of its namespace, says `ready`, and at each
line on its standard input forwards until nothing has come for a while; then it prints a JSON line.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from typing import Any

import numpy as np

from benchmarks.wire import gateway
from benchmarks.wire.course import EGRESS, EGRESS_IP, EGRESS_MAC, INGRESS, SINK_IP, SINK_MAC
from benchmarks.wire.processor import soft_time_ns
from benchmarks.wire.traffic import TARGET_NET
from dataplane.config.local import Interface, LocalConfig, Side
from dataplane.config.network import Address, Endpoint, NetworkConfig, Subnet, Vpc
from dataplane.engine.burst import BURST, PACKET, drop
from dataplane.engine.clock import CLOCK_BYTES
from dataplane.engine.counters import Counters, make_counters
from dataplane.engine.reasons import Drop
from dataplane.gateway.compile import compile_tables, link_of
from dataplane.gateway.lookup import row3
from dataplane.gateway.output import leave
from dataplane.gateway.parse import read_headers
from dataplane.gateway.schema import EMPTY, Tables
from dataplane.io.forward import forward
from dataplane.io.layout import Ports
from dataplane.io.opening import Backend, open_ports
from dataplane.io.ports import receive, settle
from dataplane.io.settings import PortSettings, RingSizes
from dataplane.jit import Bytes, Rows, kernel

VNI, ENDPOINTS = 5, 4096
ROUNDS = 200
"""Of a call, each a burst at most: what Python does in between is not to be seen."""
QUIET_S = 0.05


@kernel
def encapsulate_burst(memory: Bytes, packets: Rows, count: int, vni: int, tables: Tables) -> None:
    """Read the headers of plain frames, find their endpoint, and put the outer headers in front."""
    for i in range(count):
        packet = packets[i]
        packet.l3 = packet.at + 14
        packet.node = 0
        packet.routed = 1
        packet.vni = vni
        read_headers(memory, packet)
        if packet.node == 0:
            row = row3(tables.endpoints, vni, packet.target_hi, packet.target_lo)
            if row == EMPTY:
                drop(packet, Drop.NO_ROUTE)
            else:
                leave(memory, packet, tables.next_hops[row], tables)


@kernel
def encapsulate(ports: Ports, packets: Rows, vni: int, tables: Tables, rounds: int, counters: Counters) -> int:
    """Do so with what arrives at port 0, for so many rounds; return how many frames."""
    frames = 0
    for _ in range(rounds):
        count = receive(ports, 0, packets, BURST, counters)
        if count:
            encapsulate_burst(ports.memory, packets, count, vni, tables)
            settle(ports, packets, count, counters)
            frames += count
    return frames


def tables_for_encapsulation() -> Tables:
    """Return tables in which the targets of the traffic are endpoints behind the sink's VTEP, among others."""
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
    packets, rounds = np.zeros(BURST, PACKET), ROUNDS
    if kind == "forward":
        to = np.array([1, -1])
        return lambda: forward(ports, packets, to, rounds, counters)
    if kind == "encapsulate":
        tables = tables_for_encapsulation()
        return lambda: encapsulate(ports, packets, VNI, tables, rounds, counters)
    if kind == "gateway":
        graph, tables, state = gateway.built()
        clock = np.zeros(CLOCK_BYTES, np.uint8)
        return lambda: gateway.gateway(ports, packets, graph, tables, state, rounds, clock, counters)
    raise SystemExit(f"no kind {kind}")


def main() -> None:
    kind, backend, slots = sys.argv[1], Backend(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 4096
    opened = open_ports(
        (PortSettings(interface=INGRESS), PortSettings(interface=EGRESS, receives=False)),
        notify=lambda line: print(line, file=sys.stderr), backend=backend, sizes=RingSizes(receive=slots),
    )  # fmt: skip
    counters = make_counters(2)
    step = _work(kind, opened.ports, counters)
    step()
    print("ready", flush=True)
    for _ in sys.stdin:
        for counted in (counters.ports, counters.drops, counters.punts):
            counted[:] = 0
        found = _measured(step, counters)
        opened.sample(counters)
        print(json.dumps({**found, "missed": int(counters.ports["rx_missed"].sum())}), flush=True)
    opened.drain(counters)
    opened.close()


def _measured(step: Callable[[], int], counters: Counters) -> dict[str, Any]:
    """Forward until told or idle; the processor time is that from the first to the last call that had frames."""
    frames, first, last = 0, 0, 0
    begun, quiet_since = time.perf_counter(), time.perf_counter()
    used, cpu = time.thread_time_ns(), min(os.sched_getaffinity(0))
    soft_ns = soft_time_ns(cpu)
    while True:
        soft_before = soft_time_ns(cpu) if not first else 0
        before = time.thread_time_ns()
        done = step()
        if done:
            if not first:
                first, soft_ns = before, soft_before
            last, quiet_since = time.thread_time_ns(), time.perf_counter()
            frames += done
        elif time.perf_counter() - quiet_since > QUIET_S and (first or time.perf_counter() - begun > 10):
            break
    ports, soft_ns = counters.ports, soft_time_ns(cpu) - soft_ns
    return {
        "frames": frames, "cpu_ns": last - first + soft_ns, "soft_ns": soft_ns,
        "all_cpu_ns": time.thread_time_ns() - used,
        "tx": int(ports["tx_packets"].sum()), "dropped": int(counters.drops.sum()),
        "drops": {Drop(i).name: int(n) for i, n in enumerate(counters.drops) if n},
        "empty_polls": int(ports["empty_polls"].sum()), "bursts": int(ports["bursts"].sum()),
    }  # fmt: skip


if __name__ == "__main__":
    main()
