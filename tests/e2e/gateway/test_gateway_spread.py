"""Hosts that spread over both gateways of an active-active pair: either serves every connection, at any time.

The gateway's MAC has an entry of its own in the host's table then: one VTEP, or a nexthop group of both, among which
the kernel chooses by the hash of the inner flow (equal-cost multipath; ip-nexthop(8), `fdb`).
"""

import time
from collections.abc import Iterator

import pytest

from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.vtep.bridge_ports import device_of
from heddle.foundation.address import mac_text
from tests.support.packets.live_streams import assert_streams_continue
from tests.support.pair.gateways import MANY_MISSED, Death, Gateways
from tests.support.pair.site import GATEWAYS, HOSTS, MACHINES, SERVER, VNIS, Site
from tests.support.pair.streams import Route, Streams
from tests.support.pair.takeover import EACH, Plan, kill, running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SPREAD = {"host1": ("gw1", "gw2"), "host2": ("gw1", "gw2")}
WATCHED_S = 1.0
NEW = 12
"""Connections that are opened while hosts spread: by chance all would go by one gateway once in 2,000 times."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateways, Streams]]:
    plan = Plan(name="spread", mode="active-active", death=Death.BOTH, vteps_of=EACH)
    partner = {"preempt": True, "hold_s": 1, "missed": MANY_MISSED}
    with running(plan, tmp_path_factory.mktemp("pair"), **partner) as (gateways, streams):
        gateways.until(lambda: both_serve(gateways), "each serves its own share")
        yield gateways, streams


def both_serve(gateways: Gateways) -> bool:
    return all(gateways.serving(name) == name for name in GATEWAYS)


def send(site: Site, host: str, *gateways: str) -> None:
    """Make a host send gateway traffic to one of the two, or to both by the flow's hash."""
    space = site.spaces[host]
    for number, (gateway, vtep) in enumerate(GATEWAYS.items(), 1):
        assert gateway in GATEWAYS
        space.run("ip", "nexthop", "replace", "id", str(number), "via", str(vtep), "fdb")
    space.run("ip", "nexthop", "replace", "id", "10", "group", "1/2", "fdb")
    path = ("dst", str(GATEWAYS[gateways[0]])) if len(gateways) == 1 else ("nhid", "10")
    for vni in {VNIS[machine.vpc] for machine in MACHINES if machine.host == host}:
        entry = (mac_text(gateway_mac(vni)), "dev", device_of(vni), "self", "permanent")
        space.run(
            "bridge", "fdb", "del", *entry[:4], check=False
        )  # a nexthop group cannot replace an address, nor the reverse
        space.run("bridge", "fdb", "add", *entry[:3], *path, *entry[3:])


def arrived(gateways: Gateways) -> dict[str, int]:
    """Return the number of packets from hosts by gateway."""
    return {name: gateways.status(name)["ports"]["under0"]["rx_packets"] for name in GATEWAYS}


def assert_all_talk(gateways: Gateways, streams: Streams) -> None:
    """Assert that every connection continues for a while without a wrong byte."""
    time.sleep(WATCHED_S)  # time in which a fault would show
    assert_streams_continue(gateways, streams)


def test_a_connection_goes_on_at_whichever_gateway_its_packets_arrive(pair):
    gateways, streams = pair
    for host, path in (("host1", "gw2"), ("host2", "gw1"), ("host1", "gw1"), ("host2", "gw2"), ("host1", "gw2")):
        before = arrived(gateways)
        send(gateways.site, host, path)
        assert_all_talk(gateways, streams)
        assert arrived(gateways)[path] > before[path]


def test_flows_that_hosts_spread_over_both_gateways_by_their_hash_are_served_by_either(pair):
    gateways, streams = pair
    for host in HOSTS:
        send(gateways.site, host, *SPREAD[host])
    assert_all_talk(gateways, streams)
    before, pid = arrived(gateways), gateways.site.pid
    for number in range(NEW):
        who = ("red1", "green1")[number % 2]
        streams.open(Route(name=f"{who} new {number}", client=pid(who), server=pid("internet"),
                           address=str(SERVER), port=7100 + number))  # fmt: skip
    assert_all_talk(gateways, streams)
    after = arrived(gateways)
    assert all(after[name] - before[name] > 50 for name in GATEWAYS), (before, after)


def test_connections_of_hosts_that_spread_outlive_one_of_the_two(pair):
    gateways, streams = pair
    for host in HOSTS:
        send(gateways.site, host, *SPREAD[host])
    assert_all_talk(gateways, streams)
    kill(gateways, streams, Death.BOTH)
    gateways.until(lambda: both_serve(gateways), "each serves its own share")
    assert_all_talk(gateways, streams)
