"""The configuration changes again and again under steady traffic; flows that are not concerned lose nothing."""

import copy
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from heddle.mininet_topos.vpc.gateways import network_file
from tests.support.controllers.site_controller import ADDRESS, SiteController
from tests.support.pair.datagrams import Datagrams, datagrams
from tests.support.pair.gateways import MANY_MISSED, Gateways
from tests.support.pair.site import FLOATING, HOSTS, SERVER, Site, network
from tests.support.pair.streams import Route

# alone: a gateway that has no processor for a second loses what arrives meanwhile, whatever changes
pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(1500)]
RELOADS = 10
Content = dict[str, Any]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def routes(site: Site, *, floating_two_way: bool = True) -> list[Route]:
    pid, server = site.pid, str(SERVER)
    nat = [Route(name=f"{who} by NAT {n}", client=pid(who), server=pid("internet"), address=server, port=7101 + n,
                 listen=server)
           for n, who in enumerate(("red1", "red1", "blue1", "blue1", "green1"))]  # fmt: skip
    return [
        *nat,
        Route(
            name="floating IP",
            client=pid("internet"),
            server=pid("red2"),
            address=str(FLOATING),
            port=7120,
            two_way=floating_two_way,
        ),
        Route(name="peers", client=pid("red1"), server=pid("green1"), address="10.9.0.1", port=7130),
    ]


def warm(traffic: Datagrams) -> None:
    """Start traffic in both directions; packets sent before neighbours are resolved are not counted."""
    deadline = time.monotonic() + 60
    while not all(flow.arrived for flow in traffic.flows):
        assert time.monotonic() < deadline, [flow.name for flow in traffic.flows if not flow.arrived]
        time.sleep(0.05)
    traffic.settle()
    for flow in traffic.flows:
        flow.sent, flow.arrived = 0, bytearray()
    traffic.resume()


def figures(traffic: Datagrams) -> dict[str, tuple[int, int, int]]:
    """Return lost, duplicated and foreign packets by flow; empty if there are none."""
    found = {flow.name: (flow.lost, flow.doubled, flow.foreign) for flow in traffic.flows}
    return {name: row for name, row in found.items() if any(row)}


def balanced(gateways: Gateways) -> bool:
    statuses = [gateways.status(name) for name in ("gw1", "gw2")]
    return all(status["received"] == status["ended"] for status in statuses)


def vpc(content: Content, name: str) -> Content:
    return next(each for each in content["vpcs"] if each["id"] == name)


NEW = {
    "id": "new", "vni": 4000, "subnets": [{"cidr": "10.0.0.0/24", "gateway_ip": "10.0.0.254"}],
    "endpoints": [{"ip": "10.0.0.1", "mac": "02:00:00:00:00:01", "vtep_ip": str(HOSTS["host1"])}],
    "nat": {"public_ip": "203.0.113.77"},
}  # fmt: skip


def more_endpoints(content: Content) -> None:
    for number in range(50, 90):
        one = {"ip": f"10.0.0.{number}", "mac": f"02:00:00:00:01:{number:02x}", "vtep_ip": str(HOSTS["host2"])}
        vpc(content, "red")["endpoints"].append(one)


def another_rule(content: Content) -> None:
    rule = {"allow": False, "direction": "in", "protocol": "tcp", "remote_cidr": "203.0.113.128/25"}
    vpc(content, "green")["security_rules"].insert(0, rule)


def another_subnet(content: Content) -> None:
    vpc(content, "blue")["subnets"].append({"cidr": "10.44.0.0/16", "gateway_ip": "10.44.0.1"})


def another_floating_ip(content: Content) -> None:
    vpc(content, "green").setdefault("floating_ips", []).append(
        {"public_ip": "203.0.113.30", "endpoint_ip": "10.9.0.9"}
    )
    vpc(content, "green")["endpoints"].append(
        {"ip": "10.9.0.9", "mac": "02:00:00:00:02:09", "vtep_ip": str(HOSTS["host1"])}
    )


CHANGES: tuple[Callable[[Content], None], ...] = (more_endpoints, another_rule, another_subnet, another_floating_ip)


def test_changes_by_the_controller_cost_no_packet(site: Site, tmp_path: Path) -> None:
    controller, content = SiteController(site, tmp_path), network_file(network())
    try:
        controller.apply(content)
        gateways = Gateways(site, tmp_path, {"controller": ADDRESS}, missed=MANY_MISSED)
        try:
            gateways.until(gateways.in_step, "the pair is in step")
            with datagrams(routes(site)) as traffic:
                warm(traffic)
                changes = 0
                for change in CHANGES * 2:
                    changed = copy.deepcopy(content)
                    change(changed)
                    for each in (changed, content):
                        controller.apply(each)
                        changes += len(each["vpcs"]) + len(each["peerings"])
                for _ in range(2):
                    controller.apply({"vpcs": [NEW]})
                    controller.heddle("vpc", "delete", "new")
                    changes += 2
                assert gateways.status("gw1")["generation_in_use"] > 20
                traffic.settle()
                print(f"{changes} changes, {sum(flow.sent for flow in traffic.flows)} datagrams sent, "
                      f"lost, doubled, foreign: {figures(traffic) or 'none'}")  # fmt: skip
                assert figures(traffic) == {}
                gateways.until(lambda: balanced(gateways), "the books agree")
        finally:
            gateways.close()
    finally:
        controller.kill()


def test_withdrawing_a_permission_ends_its_connections_only(site: Site, tmp_path: Path) -> None:
    gateways, content = Gateways(site, tmp_path, missed=MANY_MISSED), network_file(network())
    try:
        gateways.until(gateways.in_step, "the pair is in step")
        # A connection opened by the endpoint is allowed, with its reverse path.
        with datagrams(routes(site, floating_two_way=False)) as traffic:
            warm(traffic)
            name = gateways.serving()
            before = denied(gateways, name)
            vpc(content, "red")["security_rules"] = []
            gateways.serve(content)
            gateways.until(lambda: denied(gateways, name) > before + 20, "it is denied")
            traffic.settle()
            gateways.until(lambda: balanced(gateways), "the books agree")
            found = figures(traffic)
            assert set(found) == {"floating IP up"}
            assert denied(gateways, name) - before == found["floating IP up"][0] > 20
    finally:
        gateways.close()


def test_reloads_by_a_signal_cost_no_packet(site: Site, tmp_path: Path) -> None:
    gateways, content = Gateways(site, tmp_path, missed=MANY_MISSED), network_file(network())
    try:
        gateways.until(gateways.in_step, "the pair is in step")
        with datagrams(routes(site)) as traffic:
            warm(traffic)
            for number in range(1, RELOADS + 1):
                changed = copy.deepcopy(content)
                CHANGES[number % len(CHANGES)](changed)
                gateways.serve(changed)
                gateways.until(partial(reread, gateways, number), "both have read it anew")
                time.sleep(0.2)
            traffic.settle()
            print(f"{RELOADS} reloads, {sum(flow.sent for flow in traffic.flows)} datagrams sent")
            assert figures(traffic) == {}
            gateways.until(lambda: balanced(gateways), "the books agree")
    finally:
        gateways.close()


def denied(gateways: Gateways, name: str) -> int:
    return int(gateways.status(name)["drops"].get("denied_in", 0))


def reread(gateways: Gateways, times: int) -> bool:
    return all(gateways.log_text(name).count("is served as read anew") >= times for name in ("gw1", "gw2"))
