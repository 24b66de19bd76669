"""Reachability through a gateway, with the kernel's VXLAN, with Open vSwitch, and with both in one lab.

A controller programs everything, and every probe is real packets of ICMP, TCP and UDP, in both families. The
packets are held against a table written here by hand, and against what is computed from the gateway's tables.
"""

from collections.abc import Iterator

import pytest

from heddle.controller.model.error import PrerequisiteError
from heddle.dataplane.control.status_socket import read_status, socket_path
from heddle.mininet_topos.vpc.description import VPC_MTU_BYTES, network
from heddle.mininet_topos.vpc.reach import Row
from heddle.mininet_topos.vpc.served import ServedLab
from tests.support.packets.nic_pair import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

RED = {"10.0.0.1": "red1", "10.0.0.2": "red2", "10.0.1.3": "red3"}
BLUE = {"10.0.0.1": "blue1", "10.0.0.2": "blue2", "10.0.1.3": "blue3"}
SIX = {"fd00:10::1": "1", "fd00:10::2": "2"}
INTERNET, SITE, STORAGE, FLOATING, GREEN = "198.51.100.10", "172.16.0.10", "192.0.2.10", "203.0.113.20", "10.9.0.1"
ALL = frozenset({"ping", "ssh", "nfs", "dns", "roce"})
TRANSLATED = ALL - {"roce"}
Reached = dict[tuple[str, str], tuple[str, frozenset[str]]]
"""By source and target: the node that replies, and the services."""


def expected() -> Reached:
    found: Reached = {}
    for vpc, tenant in (("red", RED), ("blue", BLUE)):
        for source in tenant.values():
            found |= {(source, target): (by, ALL) for target, by in tenant.items() if by != source}
            found |= {(source, gate): ("gateway", frozenset({"ping"})) for gate in ("10.0.0.254", "10.0.1.254")}
            found[source, INTERNET] = ("internet", TRANSLATED)
            found[source, FLOATING] = ("red2", frozenset({"ssh"}))
        for number in ("1", "2"):
            found |= {(vpc + number, to): (vpc + end, ALL) for to, end in SIX.items() if end != number}
            found[vpc + number, "fd00:10::fe"] = ("gateway", frozenset({"ping"}))
    for source in RED.values():
        found[source, GREEN] = ("green1", frozenset({"ping"}))
        found[source, STORAGE] = ("storage", frozenset({"nfs"}))
    for source in BLUE.values():
        found[source, SITE] = ("site", ALL)
    found |= {("green1", target): (by, frozenset({"ping", "ssh"})) for target, by in RED.items()}
    found["green1", INTERNET] = ("internet", TRANSLATED)
    found["green1", FLOATING] = ("red2", frozenset({"ssh"}))
    found |= {("green1", gate): ("gateway", frozenset({"ping"})) for gate in ("10.9.0.254", "fd00:9::fe")}
    found |= {("site", target): (by, ALL) for target, by in BLUE.items()}
    found["internet", FLOATING] = ("red2", frozenset({"ssh"}))
    return found


def reached(rows: list[Row]) -> Reached:
    found: Reached = {}
    for row in rows:
        if row.packets:
            key = (row.probe.source, str(row.probe.target))
            by, services = found.get(key, (row.packets, frozenset()))
            assert by == row.packets, row
            found[key] = (by, services | {row.probe.service.name})
    return found


@pytest.fixture(scope="module", params=["kernel", "ovs", "mixed"])
def lab(request) -> Iterator[ServedLab]:
    with ServedLab(request.param) as lab:
        lab.apply(network())
        yield lab
        for name in ("gw1", "h1", "h2", "h3"):
            assert lab.processes[name].is_running
            assert "Traceback" not in lab.processes[name].log()


@pytest.fixture(scope="module")
def rows(lab) -> list[Row]:
    """Run all probes; those without a reply run again, since replies may be late on a busy machine."""
    first = lab.reach()
    again = {row.probe: row for row in lab.reach([row.probe for row in first if missing(row)])}
    return [again.get(row.probe, row) for row in first]


def missing(row: Row) -> bool:
    return not row.packets and not row.stray and bool(row.tables)


def test_reachability_is_exactly_as_intended(rows):
    assert reached(rows) == expected()


def test_packets_arrive_exactly_where_the_gateways_tables_say(rows):
    assert [row for row in rows if not row.agrees] == []


def test_the_tables_open_exactly_the_intended_paths(lab):
    report = lab.verdict(network())
    assert report.is_sound
    assert report.vpcs == 3


@pytest.mark.parametrize("source", ["red1", "red2", "blue2"])
def test_a_packet_of_four_kilobytes_is_routed_whole(lab, source):
    payload_bytes = str(VPC_MTU_BYTES - 28)
    said = lab.lab.net.run(
        source, "ping", "-c", "5", "-i", "0.2", "-W", "2", "-s", payload_bytes, "-M", "do", "10.0.1.3"
    )
    assert f"{VPC_MTU_BYTES - 20} bytes from 10.0.1.3" in said


def test_a_packet_above_the_mtu_gets_an_error_with_the_mtu(lab):
    run = lab.lab.net.run
    for source in ("red1", "blue2"):
        with pytest.raises(PrerequisiteError):
            run(source, "ping", "-c", "3", "-i", "0.2", "-W", "2", "-s", "2000", "-M", "do", INTERNET)
        assert "mtu 1500" in run(source, "ip", "route", "get", INTERNET)


def test_received_packets_are_transmitted_punted_or_dropped(lab, rows):
    def counters_agree() -> bool:
        found = read_status(socket_path(lab.directory, "gw1"))
        return found["received"] == found["ended"] > 0

    wait_for(counters_agree)  # a packet may be in flight
