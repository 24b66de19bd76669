"""Compile the kernels of a gateway or balancer in advance; set-up runs `python -m heddle.dataplane.warm [balancer]`.

The cache is valid for one state of the sources and one type of processor; with it a gateway starts in about a second.
"""

import gc
import sys
from ipaddress import IPv4Address, IPv4Network

import numpy as np

from heddle.dataplane.balancer import run as balancer
from heddle.dataplane.balancer.compiler.compile import compile_services
from heddle.dataplane.balancer.compiler.numbering import Numbering
from heddle.dataplane.balancer.graph import graph_of as balancer_graph
from heddle.dataplane.balancer.maglev import SLOTS, maglev_table, write_changes
from heddle.dataplane.balancer.memory.exchange import exchange as balancer_exchange
from heddle.dataplane.balancer.memory.state import empty_state as empty_balancer_state
from heddle.dataplane.config.balancers import BalancerConfig
from heddle.dataplane.config.local import Interface, Limits, LocalConfig, Side
from heddle.dataplane.config.network import Endpoint, NetworkConfig, Subnet, Vpc
from heddle.dataplane.elements.memory.exchange import ControlEnd, empty_exchange
from heddle.dataplane.engine.burst import new_rows
from heddle.dataplane.engine.clock import CLOCK_BYTES
from heddle.dataplane.engine.counters import make_counters
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.engine.rings import Injector, PuntReader, empty_ring
from heddle.dataplane.engine.sleep import sleepers
from heddle.dataplane.gateway.graph import graph_of
from heddle.dataplane.gateway.memory.exchange import exchange
from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.gateway.run import run
from heddle.dataplane.io.frames.in_memory import MemoryPorts
from heddle.dataplane.tables.compiler.compile import compile_tables

_LOCAL = LocalConfig(
    gateway_id="warm",
    interfaces=(Interface(name="u0", side=Side.UNDERLAY, mac=0x020000000001, address=IPv4Address("192.0.2.1")),),
    limits=Limits(connections=1 << 4, mappings=1 << 4, fragments=1 << 4),
)
_NETWORK = NetworkConfig(
    vpcs=(
        Vpc(
            id="warm",
            vni=1,
            subnets=(Subnet(prefix=IPv4Network("10.0.0.0/24"), gateway=IPv4Address("10.0.0.1")),),
            endpoints=(Endpoint(ip=IPv4Address("10.0.0.2"), mac=0x020000000002, vtep=IPv4Address("192.0.2.2")),),
        ),
    )
)


def warm() -> None:
    """Process one frame in a small in-memory gateway, which drops it, so that all kernels are compiled."""
    ports, rings = MemoryPorts(1), (empty_ring(1 << 10), empty_ring(1 << 10))
    tables = compile_tables(_LOCAL, _NETWORK, neighbours={}, generation=1)
    ports.put(0, bytes(60))
    state, between = empty_state(_LOCAL.limits), empty_exchange()
    run(
        ports.ports, arrays_of(graph_of(_LOCAL)), tables, state, make_counters(1), *rings,
        new_rows(), np.zeros(CLOCK_BYTES, np.uint8), sleepers([]), 1_000_000, 1,
    )  # fmt: skip
    ControlEnd(between).request_all()
    exchange(tables, state, between, 0)
    PuntReader(rings[0]).read()
    PuntReader(rings[0]).refused()
    Injector(rings[1]).send(bytes(60), 0)
    Injector(rings[1]).withdraw()


def warm_balancer() -> None:
    """Process one frame in a small in-memory balancer, which drops it."""
    ports, rings = MemoryPorts(1), (empty_ring(1 << 10), empty_ring(1 << 10))
    services = BalancerConfig(network=_NETWORK)
    made = compile_services(_LOCAL, services, down=frozenset(), before=Numbering(), neighbours={}, generation=1)
    slots = np.zeros((1, SLOTS), dtype=np.int32)
    write_changes(slots[0], maglev_table([(IPv4Address("10.0.0.2"), 80, 1)]))
    ports.put(0, bytes(60))
    tables, state = made.tables._replace(slots=slots), empty_balancer_state(_LOCAL.limits)
    balancer.run(
        ports.ports, arrays_of(balancer_graph(_LOCAL)), tables, state, make_counters(1), *rings, new_rows(),
        np.zeros(CLOCK_BYTES, np.uint8), sleepers([]), 1_000_000, 1,
    )  # fmt: skip
    balancer_exchange(tables, state, empty_exchange(), 0)


if __name__ == "__main__":
    gc.disable()  # a twelfth of the time to compile
    if sys.argv[1:] == ["balancer"]:
        warm_balancer()
    else:
        warm()
    print("dataplane: kernels compiled")
