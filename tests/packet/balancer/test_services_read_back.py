"""A balancer's tables as others read them: packed, explained and verified, against what packets really do."""

from functools import partial
from ipaddress import IPv4Address as V4
from ipaddress import IPv6Address as V6
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6

from heddle.dataplane.balancer.compiler.archive import packed, unpacked
from heddle.dataplane.config.balancers import HealthCheck
from heddle.dataplane.verify import services as read
from heddle.dataplane.verify.services import Flow, service_findings, services_of
from tests.fakes.balancer_site import BALANCERS, CONFIG, RED, VIP, VIP6, BalancerLoop, changed, name_of, tunnelled

ENDS = BALANCERS[0].back_ends
chosen: Any = read.chosen


@pytest.fixture
def loop():
    return BalancerLoop()


def findings(loop):
    return [str(each) for each in service_findings(loop.tables, CONFIG.network, CONFIG.balancers)]


def test_an_explained_flow_goes_where_the_packet_goes(loop):
    services = services_of(unpacked(packed(loop.tables)))
    v4, v6 = IP(src="10.0.0.10", dst=str(VIP)), IPv6(src="fd00::10", dst=str(VIP6))
    for port in range(40_000, 40_024):
        cases = (
            (VIP, 80, read.TCP, V4("10.0.0.10"), v4 / TCP(sport=port, dport=80)),
            (VIP, 53, read.UDP, V4("10.0.0.10"), v4 / UDP(sport=port, dport=53)),
            (VIP, 4791, read.UDP, V4("10.0.0.10"), v4 / UDP(sport=port, dport=4791)),
            (VIP6, 80, read.TCP, V6("fd00::10"), v6 / TCP(sport=port, dport=80)),
        )
        for vip, service, protocol, client, packet in cases:
            choice = chosen(services, Flow(RED, vip, service, protocol, client, port))
            (sent,) = loop.through(tunnelled(packet))
            assert choice.back_end.mac == int(sent["VXLAN"].payload.dst.replace(":", ""), 16)


def test_a_flow_to_a_service_without_back_ends_is_refused_and_one_to_no_service_unknown(loop):
    loop.configure(changed(b0={"health": HealthCheck()}), down=frozenset(map(partial(name_of, BALANCERS[0]), ENDS)))
    services = services_of(loop.tables)
    assert chosen(services, Flow(RED, VIP, 80, read.TCP, V4("10.0.0.10"), 1)).back_end is None
    assert chosen(services, Flow(RED, VIP, 81, read.TCP, V4("10.0.0.10"), 1)) is None


def test_the_tables_of_the_intended_services_have_no_finding(loop):
    assert findings(loop) == []


def test_a_service_that_leads_to_another_tenant_is_a_leak(loop):
    rows = {each.vni: each.back_ends for each in services_of(loop.tables) if each.port == 80 and each.vip == VIP}
    (mine, *_), (other, *_) = rows[RED], rows[200]
    loop.tables.back_ends["next_hop"][mine] = loop.tables.back_ends["next_hop"][other]
    assert any(line.startswith("leak: ") and "is reached in VNI 200" in line for line in findings(loop))


def test_slots_of_another_service_and_missing_services_are_findings(loop):
    service = next(each for each in services_of(loop.tables) if each.vni == 200)
    other = next(each for each in services_of(loop.tables) if each.vni == RED and each.port == 80)
    service.slots[7] = next(iter(other.back_ends))
    loop.tables.services[:, 3] = [row if row != 0 else -1 for row in loop.tables.services[:, 3].tolist()]
    lines = findings(loop)
    assert any("slots name back ends of other services" in line for line in lines)
    assert any(line.startswith("missing: ") and "no service is installed" in line for line in lines)


def test_damaged_tables_are_refused(loop):
    tables = loop.tables._replace(back_ends=loop.tables.back_ends.copy())
    tables.back_ends["next_hop"][tables.back_ends["number"] >= 0] = 1 << 20
    with pytest.raises(ValueError, match="back_ends leads to a row that is not there"):
        unpacked(packed(tables))
