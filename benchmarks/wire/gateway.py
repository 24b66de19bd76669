"""A whole gateway on the course: from one tenant's VXLAN packet to another's, by NAT and floating IP.

Endpoints of the VPC `blue` behind the generator's VTEP talk to a public address, which is the floating IP of an
endpoint of `red` behind the sink's: outer headers off, source checked, connection found, TTL, both addresses and the
source port translated, checksums mended, outer headers on.
"""

from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

from benchmarks.wire.course import (
    ASIDE,
    EGRESS,
    EGRESS_IP,
    EGRESS_MAC,
    GENERATOR_IP,
    INGRESS,
    INGRESS_IP,
    INGRESS_MAC,
    SINK_IP,
    SINK_MAC,
)
from benchmarks.wire.traffic import BLUE, PUBLIC_NET, SOURCE_NET, SOURCES, TARGET_NET, TARGETS
from dataplane.config.local import Interface, Limits, LocalConfig, Side
from dataplane.config.network import (
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
from dataplane.engine.burst import BURST, DROPPED
from dataplane.engine.clock import now_ns
from dataplane.engine.counters import Counters
from dataplane.engine.graph import GraphArrays, arrays_of
from dataplane.engine.reasons import Drop
from dataplane.gateway.admit import admit
from dataplane.gateway.check_source import check_source
from dataplane.gateway.compile import compile_tables, link_of
from dataplane.gateway.connections import release_ended
from dataplane.gateway.forward import forward
from dataplane.gateway.graph import graph_of
from dataplane.gateway.output import output
from dataplane.gateway.parse import parse
from dataplane.gateway.rewrite import rewrite
from dataplane.gateway.schema import Tables
from dataplane.gateway.state import State, empty_state
from dataplane.gateway.track import track
from dataplane.gateway.underlay import underlay
from dataplane.io.layout import Ports
from dataplane.io.ports import receive, settle
from dataplane.jit import Bytes, Rows, kernel

RED = 6
BAD_STATE = int(Drop.BAD_STATE)
NAT_IP, ASIDE_IP = "203.0.113.1", "203.0.113.254"


@kernel
def gateway(
    ports: Ports, packets: Rows, graph: GraphArrays, tables: Tables, state: State, rounds: int, clock: Bytes,
    counters: Counters,
) -> int:  # fmt: skip
    """Take what arrives at port 0 through the gateway's elements; return how many frames."""
    frames, memory = 0, ports.memory
    for _ in range(rounds):
        count = receive(ports, 0, packets, BURST, counters)
        if count == 0:
            continue
        now = now_ns(clock)
        for i in range(count):
            packets[i].node = 0
            packets[i].start = packets[i].at
        underlay(0, packets, count, memory, graph, tables, state, now)
        parse(2, packets, count, memory, graph, tables, state, now)
        check_source(3, packets, count, memory, graph, tables, state, now)
        track(4, packets, count, memory, graph, tables, state, now)
        admit(5, packets, count, memory, graph, tables, state, now)
        forward(6, packets, count, memory, graph, tables, state, now)
        rewrite(7, packets, count, memory, graph, tables, state, now)
        output(8, packets, count, memory, graph, tables, state, now)
        for i in range(count):
            if packets[i].node >= 0:
                packets[i].node = DROPPED
                packets[i].reason = BAD_STATE
        settle(ports, packets, count, counters)
        release_ended(state)
        frames += count
    return frames


def configuration() -> tuple[LocalConfig, NetworkConfig]:
    """Return the gateway with an underlay port towards each end, and its two tenants."""
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
        Interface(name=ASIDE, side=Side.EXTERNAL, mac=0x02AA, address=IPv4Address(ASIDE_IP), mtu_bytes=mtu),
    )  # fmt: skip
    local = LocalConfig(gateway_id="bench", interfaces=interfaces, limits=Limits(connections=1 << 14))
    return local, NetworkConfig(generation=1, vpcs=(blue, red))


def built() -> tuple[GraphArrays, Tables, State]:
    """Return what the kernel needs."""
    local, network = configuration()
    known: dict[tuple[int, Address], int] = {
        (link_of(0), IPv4Address(GENERATOR_IP)): 0x02_0000_0000_01,
        (link_of(1), IPv4Address(SINK_IP)): _number(SINK_MAC),
    }
    tables = compile_tables(local, network, neighbours=known, generation=1)
    graph = arrays_of(graph_of(local))
    return graph, tables, empty_state(local.limits)


def _endpoints(network: int, count: int, vtep: str) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(ip=IPv4Address(network + 1 + n), mac=0x0200_0001_0000 + n, vtep=IPv4Address(vtep))
        for n in range(count)
    )


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)
