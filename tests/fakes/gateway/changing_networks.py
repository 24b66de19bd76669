"""VPCs with all that connections belong to, which come and go; and gateways that are sent them, in memory."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import numpy as np

from heddle.dataplane.config.incarnations import Incarnated, succeeding
from heddle.dataplane.config.local import Limits, PortShare
from heddle.dataplane.config.network import (
    DirectConnect,
    Direction,
    FloatingIp,
    NetworkConfig,
    Peering,
    Protocol,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.dataplane.elements.memory.state import RECORD
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.connections import free_ended_pairs
from heddle.dataplane.gateway.memory.partner import apply_records, collect
from heddle.dataplane.gateway.memory.state import STARTED_NS
from heddle.dataplane.jit import kernel
from heddle.dataplane.tables.compiler.compile import compile_tables
from tests.fakes.gateway import gateway_site as site
from tests.fakes.gateway.gateway_site import HOST_A, endpoint
from tests.fakes.gateway.state_bench import StateBench

LIMITS = Limits(connections=1 << 9, mappings=1 << 8, fragments=1 << 6, vpc_percent=100, endpoint_ports_percent=100)
ALL_PORTS = PortShare()
OPEN = 80
"""The port that every VPC's rules open to everyone, for TCP."""
CUSTOMERS = IPv4Network("10.99.0.0/16")
RULES = (
    SecurityRule(
        allow=True,
        direction=Direction.IN,
        protocol=Protocol.TCP,
        remote=IPv4Network("0.0.0.0/0"),
        port_min=OPEN,
        port_max=OPEN,
    ),
)


def vpc(name, vni, *, third=0, nat="", floating=(), vlans=(), tenant="", rules=RULES):
    """Return a VPC 10.0.THIRD.0/24 with endpoints .10 and .11; `floating` are pairs of public address and endpoint."""
    return Vpc(
        id=name,
        tenant=tenant,
        vni=vni,
        subnets=(Subnet(prefix=IPv4Network(f"10.0.{third}.0/24"), gateway=IPv4Address(f"10.0.{third}.1")),),
        endpoints=tuple(endpoint(f"10.0.{third}.{last}", 0x020000000000 + last, HOST_A) for last in (10, 11)),
        rules=rules,
        nat=IPv4Address(nat) if nat else None,
        floating_ips=tuple(FloatingIp(public=IPv4Address(a), endpoint=IPv4Address(b)) for a, b in floating),
        direct_connects=tuple(
            DirectConnect(vlan=vlan, customer=CUSTOMERS, next_hop=site.CUSTOMER_ROUTER) for vlan in vlans
        ),
    )


class Wanted:
    """The networks of a controller: each change is a generation, with the incarnations that follow from it."""

    def __init__(self):
        self._now, self.generation = Incarnated({}, frozenset()), 0

    @property
    def vpcs(self):
        return self._now.vpcs

    @property
    def peerings(self):
        return self._now.peerings

    @property
    def network(self):
        return NetworkConfig(generation=self.generation, vpcs=tuple(self.vpcs.values()), peerings=self.peerings)

    def put(self, *vpcs, remove=(), peerings=None):
        """Create or replace VPCs, or remove some by id; return the network. `peerings` are all pairs of ids."""
        kept = {name: each for name, each in self.vpcs.items() if name not in remove}
        pairs = self.peerings if peerings is None else frozenset(Peering(a=a, b=b) for a, b in peerings)
        pairs = frozenset(each for each in pairs if not {each.a, each.b} & set(remove))
        self.generation += 1
        self._now = succeeding(self._now, kept | {each.id: each for each in vpcs}, pairs, self.generation)
        return self.network

    def without(self, name):
        return self.put(remove=(name,))


@kernel
def _age(tables, state, now_ns):
    age(tables, state, now_ns)
    free_ended_pairs(state)


class ChangingGateway(StateBench):
    """One gateway with a state that outlives its tables; it started long ago, unless `started_s` says otherwise."""

    def __init__(self, network, *, limits=LIMITS, ports=ALL_PORTS, started_s=1000):
        self.local = replace(site.LOCAL, limits=limits, nat_ports=ports)
        super().__init__(self._compiled(network, 1), limits)
        self.state.counts[STARTED_NS] = self.now_ns - started_s * 10**9
        self.age()

    def _compiled(self, network, generation):
        return compile_tables(self.local, network, neighbours=site.NEIGHBOURS, generation=generation)

    def take(self, network, *, sweeps=True):
        """Use another network; without `sweeps` its first packets come before the time between two bursts."""
        self.tables = self._compiled(network, int(self.tables.generation[0]) + 1)
        if sweeps:
            self.age()

    def age(self):
        _age(self.tables, self.state, self.now_ns)

    def wait(self, seconds):
        """Let time pass, in steps between which the gateway has no packets."""
        for _ in range(-(-seconds // 4)):
            self.now_ns += 4 * 10**9
            self.age()

    @property
    def live(self):
        """The number of connections."""
        return int((self.state.connections["key"] != 0).sum()) // 2

    def used(self):
        """Return how much connections, mappings and fragments take: rows, accounts and ports."""
        return {
            "connections": self.live,
            "mappings": int((self.state.mappings["key"] != 0).sum()),
            "accounts": int(self.state.accounts["count"].clip(0).sum()),
        }


def replicate(left, right):
    """Apply all records of one gateway at the other; return how many were refused."""
    records, refused = np.zeros(64, dtype=RECORD), 0
    while count := collect(left.state, records, left.now_ns):
        refused += apply_records(right.tables, right.state, records, count, right.now_ns)
    return refused
