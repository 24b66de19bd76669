"""A whole balancer as device under test: VXLAN packets of clients to the back ends of a virtual IP.

Clients are endpoints behind the generator's VTEP, back ends are behind the sink's. Before it is measured, LIVE
connections are opened and established by the run loop itself, on ports in memory. It is the run loop of the real data
process, with tables and state of the sizes that a balancer has for so many connections.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import numpy as np

from heddle.benchmarks.gateway.wire.balancer_packets import (
    ACK,
    CLIENT_NET,
    CLIENTS,
    DIRECT_PORT,
    LIVE,
    MIN_BYTES,
    NAT_PORT,
    SYN,
    VIP,
    VNI,
    segments,
)
from heddle.benchmarks.gateway.wire.course import (
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
from heddle.dataplane.balancer.compiler.compile import compile_services
from heddle.dataplane.balancer.compiler.numbering import Numbering
from heddle.dataplane.balancer.graph import graph_of
from heddle.dataplane.balancer.maglev import SLOTS, write_changes
from heddle.dataplane.balancer.memory.connections import ESTABLISHED
from heddle.dataplane.balancer.memory.state import REPLY, SEEN_REPLY, Count, layout, state_of
from heddle.dataplane.balancer.run import run
from heddle.dataplane.config.balancers import BackEnd, BalancerConfig, LoadBalancer, Mode, Site
from heddle.dataplane.config.local import Interface, Limits, LocalConfig, Side
from heddle.dataplane.config.network import Address, Endpoint, NetworkConfig, Vpc
from heddle.dataplane.control.process.data_process import CALL_NS
from heddle.dataplane.control.process.segment import Shape, make
from heddle.dataplane.engine.burst import new_rows
from heddle.dataplane.engine.clock import CLOCK_BYTES
from heddle.dataplane.engine.counters import Counters, imbalance, make_counters
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.engine.rings import empty_ring
from heddle.dataplane.engine.sleep import sleepers
from heddle.dataplane.io.frames.in_memory import MemoryPorts, collect, offer
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.jit import Bytes, kernel
from heddle.dataplane.tables.compiler.compile import link_of

BACK_ENDS, POOL_SIZE, CONNECTIONS = 100, 16, 2 * LIVE
BACK_END_NET, POOL_NET = 0x0A010000, 0x0A020000
RING_BYTES, BATCH = 1 << 20, 1 << 14
DIRECT, NAT = "balancer-direct", "balancer-nat"
PORT_OF = {DIRECT: DIRECT_PORT, NAT: NAT_PORT}


def configuration() -> tuple[LocalConfig, BalancerConfig]:
    """Return the configuration: two services of one virtual IP, with direct return and full NAT."""
    interfaces = tuple(
        Interface(name=name, side=Side.UNDERLAY, mac=_number(mac), address=IPv4Address(address),
                  network=IPv4Network(f"{address}/24", strict=False), mtu_bytes=9000)
        for name, mac, address in ((INGRESS, INGRESS_MAC, INGRESS_IP), (EGRESS, EGRESS_MAC, EGRESS_IP))
    )  # fmt: skip
    vpc = Vpc(
        id="bench", vni=VNI, endpoints=_endpoints(CLIENT_NET, CLIENTS, GENERATOR_IP)
        + _endpoints(BACK_END_NET, BACK_ENDS, SINK_IP),
    )  # fmt: skip
    ends = tuple(IPv4Address(BACK_END_NET + 1 + n) for n in range(BACK_ENDS))
    services = tuple(
        LoadBalancer(id=f"port-{port}", vpc="bench", vip=IPv4Address(VIP), port=port, mode=mode,
                     back_ends=tuple(BackEnd(ip=end, port=port) for end in ends))
        for port, mode in ((DIRECT_PORT, Mode.DIRECT_RETURN), (NAT_PORT, Mode.FULL_NAT))
    )  # fmt: skip
    pool = tuple(IPv4Address(POOL_NET + 1 + n) for n in range(POOL_SIZE))
    return (
        LocalConfig(gateway_id="bench", interfaces=interfaces, limits=Limits(connections=CONNECTIONS)),
        BalancerConfig(network=NetworkConfig(generation=1, vpcs=(vpc,)), balancers=services,
                       sites=(Site(vpc="bench", pool=pool),)),
    )  # fmt: skip


class Balancer:
    """Tables and state of a balancer, and its run loop on any ports."""

    def __init__(self) -> None:
        local, config = configuration()
        known: dict[tuple[int, Address], int] = {
            (link_of(0), IPv4Address(GENERATOR_IP)): _number(GENERATOR_MAC),
            (link_of(1), IPv4Address(SINK_IP)): _number(SINK_MAC),
        }
        made = compile_services(local, config, down=frozenset(), before=Numbering(), neighbours=known, generation=1)
        slots = np.full((len(config.balancers), SLOTS), -1, np.int32)
        for row, wanted in made.slots.items():
            write_changes(slots[row], wanted)
        self.tables: Any = made.tables._replace(slots=slots)
        # In shared memory, as that of the data process: its pages are small ones.
        shapes = {name: Shape(*each) for name, each in layout(local.limits).items()}
        self.state: Any = state_of(make("state", shapes).arrays)
        self._graph = arrays_of(graph_of(local))
        self._rings = empty_ring(RING_BYTES), empty_ring(RING_BYTES)
        self._packets, self._clock, self._sleepers = new_rows(), np.zeros(CLOCK_BYTES, np.uint8), sleepers([])

    def step(self, ports: Ports, counters: Counters, *, sleep_ms: int = 0) -> int:
        """Forward for CALL_NS; with `sleep_ms` return once nothing has arrived for that time."""
        return run(ports, self._graph, self.tables, self.state, counters, *self._rings, self._packets, self._clock,
                   self._sleepers, CALL_NS, sleep_ms)  # fmt: skip

    def count(self, which: int) -> int:
        return int(self.state.counters[which])

    def establish(self, port: int) -> None:
        """Open LIVE connections to a port of the virtual IP; raises RuntimeError unless all are established."""
        io, counters = MemoryPorts(2, buffers=4 * BATCH, ring=2 * BATCH), make_counters(2)
        scratch = np.zeros(2048, np.uint8)
        for first in range(0, LIVE, BATCH):
            numbers = np.arange(first, first + BATCH)
            for flags in (SYN, ACK):
                frames = segments(MIN_BYTES, numbers, port, flags)
                offer_all(io.ports, frames.reshape(-1), frames.shape[1], BATCH)
                before = int(counters.ports["rx_packets"].sum())
                while int(counters.ports["rx_packets"].sum()) < before + BATCH:
                    self.step(io.ports, counters, sleep_ms=1)
                _reply_to_all(self.state)
                if collect_all(io.ports, scratch) != BATCH or imbalance(counters):
                    raise RuntimeError(f"not every segment was forwarded: {counters.drops}")
        rows = LIVE * (2 if port == NAT_PORT else 1)
        if self.count(Count.STATES + ESTABLISHED) != rows:
            raise RuntimeError(f"{self.count(Count.STATES + ESTABLISHED)} of {rows} rows are established")


def balancer(kind: str, ports: Ports, counters: Counters) -> Callable[[], int]:
    """Return a function that forwards for CALL_NS per call, with LIVE connections in its table."""
    made = Balancer()
    made.establish(PORT_OF[kind])
    return lambda: made.step(ports, counters)


def _reply_to_all(state: Any) -> None:
    """Record a reply of the back end on each connection of full NAT, as its SYN-ACK does."""
    flows = state.flows
    clients = (flows["pair"] > 0) & (flows["flags"] & REPLY == 0)
    flows["flags"][clients] |= SEEN_REPLY


@kernel
def offer_all(ports: Ports, source: Bytes, length: int, count: int) -> int:
    """Let frames arrive at port 0; return how many had room."""
    done = 0
    while done < count and offer(ports, 0, source, done * length, length):
        done += 1
    return done


@kernel
def collect_all(ports: Ports, scratch: Bytes) -> int:
    """Take all frames that left by any port; return their number."""
    done = 0
    for port in range(ports.ports.size):
        while collect(ports, port, scratch) > 0:
            done += 1
    return done


def _endpoints(network: int, count: int, vtep: str) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(ip=IPv4Address(network + 1 + n), mac=0x0200_0000_0000 | network + n, vtep=IPv4Address(vtep))
        for n in range(count)
    )


def _number(mac: str) -> int:
    return int(mac.replace(":", ""), 16)
