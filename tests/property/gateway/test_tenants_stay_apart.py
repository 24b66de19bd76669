"""A million crafted packets of two tenants with equal addresses: none crosses.

Planted faults in the tables show that the test detects crossings.
"""

from dataclasses import replace
from ipaddress import IPv4Network

import numpy as np
import pytest

from heddle.dataplane.config.local import Limits
from heddle.dataplane.config.network import Direction, SecurityRule
from heddle.dataplane.engine.burst import BURST
from heddle.dataplane.engine.counters import make_counters
from heddle.dataplane.tables.compiler.index import indexed
from heddle.dataplane.tables.schema import FLOATING_VNI
from tests.fakes.gateway import tenant_traffic as traffic
from tests.fakes.gateway.compiled_packets import started
from tests.fakes.gateway.gateway_loop import GatewayLoop
from tests.fakes.gateway.gateway_tables import wide, words
from tests.fakes.gateway.tenant_traffic import SCENES, crowd, judge
from tests.fakes.gateway.two_tenants import BLUE, GREEN, HOSTS, LOCAL, NETWORK, RED, tenants_tables

PACKETS = 1_000_000
LIMITS = Limits(connections=1 << 13, mappings=1 << 11, fragments=1 << 9)
STEP_NS = 200_000_000
ONE_ROUND_NS = 1
"""Of a call of the run loop: it ends after its first round of the ports."""
STRANGERS = SecurityRule(allow=False, direction=Direction.IN, remote=IPv4Network("203.0.113.0/24"))
APART = replace(NETWORK, vpcs=tuple(replace(vpc, rules=(STRANGERS, *vpc.rules)) for vpc in NETWORK.vpcs))
"""What is published to the world is so to the other tenant: here not, so that nothing at all may pass."""
SPOOFED = ("spoofed VNI", "spoofed VTEP", "spoofed VNI and VTEP", "spoofed inner source", "ARP under a spoofed VNI")


class Tally:
    """Counted packets, by scene, tenant and port: 4 underlay, external, customer, provider, and punted."""

    def __init__(self) -> None:
        self.passed = np.zeros((len(SCENES), 3, 5), np.int64)
        self.crossed = np.zeros(len(SCENES), np.int64)
        self.seen = np.zeros(len(SCENES) + 1, np.int64)
        self.counters = make_counters(4, 3)

    def passed_in(self, scene):
        return self.passed[SCENES.index(scene)]


def run(tables, packets, seed=1):
    """Send packets through a gateway; three of four bursts arrive on the underlay."""
    tally, chance, done = Tally(), started(seed), 0
    loop = GatewayLoop(replace(LOCAL, limits=LIMITS), tables, ring_bytes=1 << 18)
    loop.counters, ports, frame = tally.counters, loop.io.ports, np.zeros(1 << 16, np.uint8)
    scenes, senders = np.zeros(BURST, np.int64), np.zeros(BURST, np.int64)
    turn = 0
    while done < packets:
        port = np.int64((0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 3)[turn % 12])
        count = np.int64(min(BURST, packets - done))
        assert crowd(ports, frame, scenes, senders, port, count, chance) == count
        loop.let_pass(STEP_NS)
        loop.forward(ONE_ROUND_NS)
        judge(ports, loop.packets, count, scenes, senders, frame, tally.passed, tally.crossed, tally.seen)
        for _ in loop.punts.read():
            pass
        turn, done = turn + 1, done + int(count)
    assert loop.received() == loop.ended() == packets
    return tally


@pytest.fixture(scope="module")
def tally():
    return run(tenants_tables(network=APART), PACKETS)


pytestmark = pytest.mark.timeout(900)  # the first run compiles the kernels


def test_of_a_million_packets_none_crosses(tally):
    assert tally.seen[:-1].sum() == PACKETS
    assert dict(zip(SCENES, tally.crossed.tolist(), strict=True)) == dict.fromkeys(SCENES, 0)
    assert tally.seen[-1] > PACKETS // 20  # payloads that were checked


def test_every_packet_has_one_fate(tally):
    counters = tally.counters
    assert counters.ports["rx_packets"].sum() == PACKETS
    assert counters.ports["tx_packets"].sum() + counters.drops.sum() + counters.punts.sum() == PACKETS
    assert tally.passed[:, :, :4].sum() == counters.ports["tx_packets"].sum()


@pytest.mark.parametrize("scene", SPOOFED)
def test_no_spoofed_packet_passes(tally, scene):
    assert tally.seen[SCENES.index(scene)] > PACKETS // 40
    assert not tally.passed_in(scene).any()


@pytest.mark.parametrize("tenant", [traffic.RED_T, traffic.BLUE_T])
def test_both_tenants_are_served_in_both_directions_on_all_sides(tally, tenant):
    assert tally.passed_in("to an endpoint")[tenant, 0] > PACKETS // 200
    assert tally.passed_in("to the world")[tenant, 1] > PACKETS // 200
    assert tally.passed_in("to the customer")[tenant, 2] > PACKETS // 200
    assert tally.passed_in("to the storage")[tenant, 3] > PACKETS // 1000
    for scene in ("from the world", "from the customer", "from the storage"):
        assert tally.passed_in(scene)[tenant, 0] > 100


def test_only_peers_reach_each_other(tally):
    assert tally.passed_in("to an endpoint")[traffic.GREEN_T, 0] > PACKETS // 1000


def _endpoint_row(tables, vni, address):
    key = (vni, *words(wide(address)))
    return next(row for row in tables.endpoints if tuple(row[:3]) == key and row[3] >= 0)


def _in_the_wrong_network(tables):
    """Map the key of one of red's endpoints to blue's."""
    _endpoint_row(tables, RED, "10.0.0.11")[3] = _endpoint_row(tables, BLUE, "10.0.0.11")[3]
    return tables


def _at_any_vtep(tables):
    """Accept blue's addresses from red's host."""
    everywhere = [(vni, int(host)) for vni in (RED, BLUE, GREEN) for host in HOSTS.values()]
    tables = tables._replace(vteps=indexed(np.array(everywhere), np.zeros(len(everywhere), np.int64)))
    tables.endpoint_vteps[_endpoint_row(tables, BLUE, "10.0.0.10")[3]] = int(HOSTS[RED])
    return tables


def _translated_for_another(tables):
    """Translate a floating IP of blue to red."""
    row = tables.floating[tables.floating[:, FLOATING_VNI] == BLUE][0]
    red = tables.floating[tables.floating[:, FLOATING_VNI] == RED][0]
    tables.floating[tables.floating[:, FLOATING_VNI] == BLUE] = (row[0], *red[1:])
    return tables


@pytest.mark.parametrize("plant", [_in_the_wrong_network, _at_any_vtep, _translated_for_another])
def test_a_planted_fault_in_the_tables_is_detected(plant):
    assert run(plant(tenants_tables(network=APART)), 60_000).crossed.sum() > 0
