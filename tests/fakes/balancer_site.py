"""A small balancer: two tenants with equal addresses and virtual IPs, and the whole data path on ports in memory."""

from dataclasses import replace
from ipaddress import IPv4Address as V4
from ipaddress import IPv4Network as Net4
from ipaddress import IPv6Address as V6
from typing import Any

import numpy as np
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

from heddle.dataplane.balancer.compiler.compile import compile_services
from heddle.dataplane.balancer.compiler.numbering import BackEndName, Numbering, service_name
from heddle.dataplane.balancer.graph import graph_of
from heddle.dataplane.balancer.maglev import write_changes
from heddle.dataplane.balancer.memory.connections import HALF_OPEN, STREAM, TICKS
from heddle.dataplane.balancer.memory.state import Count, empty_state
from heddle.dataplane.balancer.run import run
from heddle.dataplane.config.balancers import BackEnd, BalancerConfig, LoadBalancer, Mode, Service, Site, balancer_mac
from heddle.dataplane.config.check_balancers import balancer_problems
from heddle.dataplane.config.local import Interface, Limits, LocalConfig, Side
from heddle.dataplane.config.network import Endpoint, NetworkConfig, Vpc
from heddle.dataplane.engine.burst import new_rows
from heddle.dataplane.engine.clock import CLOCK_BYTES
from heddle.dataplane.engine.counters import imbalance, make_counters
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.engine.rings import Injector, PuntReader, empty_ring
from heddle.dataplane.engine.sleep import sleepers
from heddle.dataplane.io.frames.in_memory import MemoryPorts
from heddle.foundation.address import mac_text

PORT_MAC = 0x020000000001
VTEP, HOST_A, HOST_B, GATEWAY = V4("192.168.0.1"), V4("192.168.0.11"), V4("192.168.0.12"), V4("192.168.0.20")
MACS = {HOST_A: 0x02AA00000011, HOST_B: 0x02AA00000012, GATEWAY: 0x02AA00000020, V4("192.168.0.31"): 0x02AA00000031}
RED, BLUE = 100, 200
VIP, VIP6 = V4("10.0.0.100"), V6("fd00::100")
POOL, POOL6 = (V4("10.0.0.201"), V4("10.0.0.202")), (V6("fd00::201"),)
LOCAL = LocalConfig(
    gateway_id="lb-1",
    interfaces=(
        Interface(
            name="u0", side=Side.UNDERLAY, mac=PORT_MAC, address=VTEP, network=Net4("192.168.0.0/24"), mtu_bytes=4300
        ),
    ),
    limits=Limits(connections=1 << 10, fragments=64),
)


def address(text):
    return V6(text) if ":" in text else V4(text)


def mac_of(vni, last):
    return 0x020000000000 | vni << 16 | last


def _vpc(name, vni):
    """Clients .10 to .13 at HOST_A, back ends .51 to .54 at HOST_B, in both families."""
    ends = [(last, HOST_A) for last in (10, 11, 12, 13)] + [(last, HOST_B) for last in (51, 52, 53, 54)]
    endpoints = [
        Endpoint(ip=address(f"{prefix}{last}"), mac=mac_of(vni, last), vtep=vtep)
        for last, vtep in ends
        for prefix in ("10.0.0.", "fd00::")
    ]
    return Vpc(id=name, vni=vni, endpoints=tuple(endpoints))


def balancer(vip=VIP, port=80, *, vpc="red", ends=(51, 52, 53), to=None, **more):
    prefix = "10.0.0." if vip.version == 4 else "fd00::"
    back_ends = tuple(BackEnd(ip=address(f"{prefix}{last}"), port=to or port) for last in ends)
    name = f"{vpc}-{vip}-{port}-{more.get('protocol', 'tcp')}".replace(":", ".")
    return LoadBalancer(id=name, vpc=vpc, vip=vip, port=port,
                        **{"back_ends": back_ends, **more})  # fmt: skip


IN_IP = tuple(BackEnd(ip=V4("192.168.0.31"), port=8080) for _ in range(1))
NAT = {"mode": Mode.FULL_NAT}
BALANCERS = (
    balancer(),
    balancer(port=53, protocol=Service.UDP),
    balancer(port=4791, protocol=Service.ROCE),
    balancer(VIP6),
    balancer(vpc="blue", ends=(54,)),
    balancer(port=8080, mode=Mode.IP_IN_IP, back_ends=IN_IP),
    balancer(VIP6, 8080, mode=Mode.IP_IN_IP, back_ends=IN_IP),
    balancer(port=443, to=8443, **NAT),
    balancer(VIP6, 443, to=8443, **NAT),
    balancer(port=123, to=1123, protocol=Service.UDP, **NAT),
)
CONFIG = BalancerConfig(
    network=NetworkConfig(generation=1, vpcs=(_vpc("red", RED), _vpc("blue", BLUE))),
    balancers=BALANCERS,
    sites=(Site(vpc="red", pool=POOL + POOL6),),
    gateways=(GATEWAY,),
)
NEIGHBOURS: Any = {(0, host): mac for host, mac in MACS.items()}


def name_of(each, end):
    return BackEndName(service_name(each), end.ip, end.port)


class BalancerLoop:
    """A balancer without processes: `through` is one call of the run loop."""

    def __init__(self, config=CONFIG, *, local=LOCAL, buffers=1024, ring=256, ring_bytes=1 << 16):
        self.local, self.numbering, self.generation = local, Numbering(), 0
        self.graph, self.state = arrays_of(graph_of(local)), empty_state(local.limits)
        self.slots = np.full((len(config.balancers) + 4, 65_537), -1, np.int32)
        self.io = MemoryPorts(1, buffers=buffers, ring=ring)
        self.counters = make_counters(1, vpcs=16)
        self._punts, self._injects = empty_ring(ring_bytes), empty_ring(ring_bytes)
        self.punts, self.injector = PuntReader(self._punts), Injector(self._injects)
        self._packets, self._clock, self._sleepers = new_rows(), np.zeros(CLOCK_BYTES, np.uint8), sleepers([])
        self.configure(config)

    def configure(self, config, down=frozenset(), neighbours: Any = None):
        """Switch to another configuration; return how many slots were written."""
        assert balancer_problems(config) == ()
        self.generation += 1
        made = compile_services(
            self.local, config, down=down, before=self.numbering,
            neighbours=NEIGHBOURS if neighbours is None else neighbours, generation=self.generation,
        )  # fmt: skip
        self.numbering = made.numbering
        self.tables = made.tables._replace(slots=self.slots)
        return sum(int(write_changes(self.slots[row], wanted)) for row, wanted in made.slots.items())

    def forward(self, call_ns=1_000_000_000, sleep_ms=1):
        run(self.io.ports, self.graph, self.tables, self.state, self.counters, self._punts, self._injects,
            self._packets, self._clock, self._sleepers, call_ns, sleep_ms)  # fmt: skip

    def through(self, *frames):
        """Let frames arrive; return those that left, dissected by scapy."""
        for frame in frames:
            assert self.io.put(0, bytes(frame))
        self.forward()
        assert imbalance(self.counters) == 0
        return [Ether(frame) for frame in self.io.take(0)]

    def let_pass(self, seconds):
        """Let time pass for the connections, and have all of them checked by the next call."""
        words, ticks = self.state.words, int(seconds * 1e9) >> 28
        words[:] = np.where(words, words & ~TICKS | (words - ticks) & TICKS, 0)
        self.state.counters[Count.SWEPT_NS] = 0

    def drops(self):
        return {reason: int(self.counters.drops[reason]) for reason in Drop if self.counters.drops[reason]}

    def punted(self):
        return {reason: int(self.counters.punts[reason]) for reason in Punt if self.counters.punts[reason]}

    def count(self, which):
        return int(self.state.counters[which])

    def rows_by_state(self):
        return {state: self.count(Count.STATES + state) for state in range(HALF_OPEN, STREAM + 1)}

    def state_faults(self):
        """Yield the inconsistencies of the connection table."""
        words, flows = self.state.words, self.state.flows
        states = words >> 29 & 7
        for state, count in self.rows_by_state().items():
            if count != int((states == state).sum()):
                yield f"{count} rows of state {state} are counted, {(states == state).sum()} there are"
        for row in np.flatnonzero((words != 0) & (flows["pair"] > 0)):
            pair = int(flows[row]["pair"]) - 1
            if words[pair] == 0 or flows[pair]["pair"] != row + 1:
                yield f"row {row} names row {pair}, which does not name it"


def tunnelled(packet, *, vni=RED, host=HOST_A, last=10, target=None):
    """Return an underlay frame with a tenant's packet, as a host's VTEP sends it to the balancer."""
    inner = Ether(src=mac_text(mac_of(vni, last)), dst=mac_text(target or balancer_mac(vni))) / packet
    outer = IP(src=str(host), dst=str(VTEP), flags="DF") / UDP(sport=54321, dport=4789, chksum=0)
    return Ether(src=mac_text(MACS[host]), dst=mac_text(PORT_MAC)) / outer / VXLAN(flags=8, vni=vni) / inner


def changed(config=CONFIG, **by_id):
    """Return the configuration with fields of load balancers replaced, by position: `b0={...}`."""
    balancers = list(config.balancers)
    for name, fields in by_id.items():
        balancers[int(name[1:])] = replace(balancers[int(name[1:])], **fields)
    return replace(config, balancers=tuple(balancers))
