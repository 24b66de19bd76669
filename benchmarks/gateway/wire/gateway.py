"""A whole gateway as device under test: VXLAN packets from one tenant to another, by NAT and floating IP.

Endpoints of the VPC `blue` behind the generator's VTEP send to a public address, the floating IP of an endpoint
of `red` behind the sink's VTEP. The gateway removes the outer headers, checks the source, finds the connection,
decrements the TTL, translates both addresses and the source port, updates the checksums, and adds outer headers. It is
the run loop of the real data process, with an additional external port that receives nothing.
"""

import os
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

import numpy as np

from heddle.benchmarks.gateway.wire.course import (
    ASIDE,
    ASIDE_MAC,
    EGRESS,
    EGRESS_IP,
    EGRESS_MAC,
    GENERATOR_IP,
    GENERATOR_MAC,
    INGRESS,
    INGRESS_IP,
    INGRESS_MAC,
    SINK_IP,
    SINK_MAC,
)
from heddle.benchmarks.gateway.wire.traffic import BLUE, PUBLIC_NET, SOURCE_NET, SOURCES, TARGET_NET, TARGETS
from heddle.dataplane.config.local import Interface, Limits, LocalConfig, Side
from heddle.dataplane.config.network import (
    Address,
    Direction,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Protocol,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.dataplane.control.process.data_process import CALL_NS, SLEEP_MS
from heddle.dataplane.engine.burst import new_rows
from heddle.dataplane.engine.clock import CLOCK_BYTES
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.engine.rings import empty_ring
from heddle.dataplane.engine.sleep import sleepers
from heddle.dataplane.gateway.graph import graph_of
from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.gateway.run import run
from heddle.dataplane.io.frames.layout import KIND, TAP, Ports
from heddle.dataplane.tables.compiler.compile import compile_tables, link_of

RED = 6
NAT_IP, ASIDE_IP = "203.0.113.1", "203.0.113.254"
RING_BYTES = 1 << 20


def configuration() -> tuple[LocalConfig, NetworkConfig]:
    """Return the configuration: underlay ports to generator and sink, and two tenants."""
    allow = SecurityRule(
        allow=True, direction=Direction.IN, protocol=Protocol.UDP, remote=ip_network(f"{NAT_IP}/32"),
        port_min=9000, port_max=9000,
    )  # fmt: skip
    blue = Vpc(
        id="blue", vni=BLUE, nat=IPv4Address(NAT_IP), endpoints=_endpoints(SOURCE_NET, SOURCES, GENERATOR_IP),
        subnets=(Subnet(prefix=ip_network("10.0.0.0/16"), gateway=ip_address("10.0.255.254")),),
    )  # fmt: skip
    red = Vpc(
        id="red", vni=RED, rules=(allow,), endpoints=_endpoints(TARGET_NET, TARGETS, SINK_IP),
        subnets=(Subnet(prefix=ip_network("10.1.0.0/16"), gateway=ip_address("10.1.255.254")),),
        floating_ips=tuple(
            FloatingIp(public=IPv4Address(PUBLIC_NET + 1 + n), endpoint=IPv4Address(TARGET_NET + 1 + n))
            for n in range(TARGETS)
        ),
    )  # fmt: skip
    mtu = 9000
    interfaces = (
        Interface(name=INGRESS, side=Side.UNDERLAY, mac=_number(INGRESS_MAC), address=IPv4Address(INGRESS_IP),
                  network=IPv4Network(f"{INGRESS_IP}/24", strict=False), mtu_bytes=mtu),
        Interface(name=EGRESS, side=Side.UNDERLAY, mac=_number(EGRESS_MAC), address=IPv4Address(EGRESS_IP),
                  network=IPv4Network(f"{EGRESS_IP}/24", strict=False), mtu_bytes=mtu),
        Interface(name=ASIDE, side=Side.EXTERNAL, mac=_number(ASIDE_MAC), address=IPv4Address(ASIDE_IP), mtu_bytes=mtu),
    )  # fmt: skip
    local = LocalConfig(gateway_id="bench", interfaces=interfaces, limits=Limits(connections=1 << 14))
    return local, NetworkConfig(generation=1, vpcs=(blue, red))


def gateway(ports: Ports, counters: Counters, *, sleeping: bool = False) -> Callable[[], int]:
    """Return a function that forwards for CALL_NS per call.

    With `sleeping` an idle call waits for packets in poll(2); otherwise it polls the rings without pause.
    """
    local, network = configuration()
    known: dict[tuple[int, Address], int] = {
        (link_of(0), IPv4Address(GENERATOR_IP)): _number(GENERATOR_MAC),
        (link_of(1), IPv4Address(SINK_IP)): _number(SINK_MAC),
    }
    tables = compile_tables(local, network, neighbours=known, generation=1)
    graph, state = arrays_of(graph_of(local)), empty_state(local.limits)
    punts, injects = empty_ring(RING_BYTES), empty_ring(RING_BYTES)
    packets, clock = new_rows(), np.zeros(CLOCK_BYTES, np.uint8)
    files = ports.taps["rx_fd"] if ports.pool[KIND] == TAP else ports.queues["fd"]
    wakers, sleep_ms = sleepers([os.eventfd(0), *map(int, files)]), SLEEP_MS if sleeping else 0
    return lambda: run(ports, graph, tables, state, counters, punts, injects, packets, clock, wakers, CALL_NS, sleep_ms)


def _endpoints(network: int, count: int, vtep: str) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(ip=IPv4Address(network + 1 + n), mac=0x0200_0001_0000 + n, vtep=IPv4Address(vtep))
        for n in range(count)
    )


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)
