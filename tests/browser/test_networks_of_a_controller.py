"""The networks view of a whole controller: VPCs, gateways and load balancers as the gRPC API lists them."""

import asyncio

from heddle.v1 import heddle_pb2 as pb
from tests.browser.test_page_of_a_controller import ROWS
from tests.support.processes.browser import Browser
from tests.unit.api.conftest import running
from tests.unit.api.test_gateway_service import Controller, attached
from tests.unit.api.test_load_balancers import pools, translating, vpc, web
from tests.unit.api.test_vpc_service import red


async def test_the_networks_view_shows_what_the_services_list(browser: Browser):
    async with running() as found:
        controller = Controller(found)
        try:
            await filled(controller)
            with browser.page() as page:
                await asyncio.to_thread(page.open, f"http://{found.addresses['http']}/networks")
                await asyncio.to_thread(page.wait_for_text, "up", "[aria-label=Balancers]")
                await shows_what_is_listed(controller, await asyncio.to_thread(page.run, ROWS))
                await controller.sessions[0].close()
                await asyncio.to_thread(page.wait_for_text, "detached", "[aria-label=Gateways]")
                await controller.vpcs.DeleteLoadBalancer(pb.DeleteLoadBalancerRequest(id="web"))
                await asyncio.to_thread(page.wait_for, "!document.querySelector('#view').innerText.includes('.100:80')")
                assert page.errors == []
        finally:
            for session in controller.sessions:
                await session.close()


async def filled(controller: Controller) -> None:
    """Two VPCs, a gateway with counters, one that refuses its tables, and a balancer with a back end that is up."""
    await controller.vpcs.ApplyVpc(vpc())
    await controller.vpcs.ApplyVpc(red())
    gateway = controller.attach("gw1", partner="gw2")
    partner = controller.attach("gw2", "10.0.0.2", partner="gw1")
    balancer = controller.attach("lb1", "10.0.0.11", kind="balancer", source_pools=pools("10.1.0.200"))
    await controller.status(attached("gw1", "gw2", "lb1"))
    for wanted in (web(), translating()):
        await controller.vpcs.ApplyLoadBalancer(wanted)
    counters = pb.GatewayCounters(
        active=True, connections=1_200, connections_limit=65_536, nat_mappings=90, nat_mappings_limit=100
    )
    await gateway.call.write(pb.GatewayReport(counters=counters))
    up = pb.BackEndState(load_balancer_id="web", ip="10.1.0.6", port=80, up=True)
    await balancer.call.write(pb.GatewayReport(health=pb.BackEndHealth(states=[up])))
    await partner.until(lambda session: session.network is not None and session.network.vpcs)
    await partner.acknowledge(refused="no room")
    await controller.status(lambda reply: reply.gateways[1].refused == "no room")


async def shows_what_is_listed(controller: Controller, rows: list[list[str]]) -> None:
    vpcs = await controller.vpcs.ListVpcs(pb.ListVpcsRequest())
    balancers = await controller.vpcs.ListLoadBalancers(pb.ListVpcsRequest())
    assert_listed(rows, vpcs, await controller.status(), balancers)
    shown = {row[0]: row[1:] for row in rows}
    assert shown["gw1"][4:6] == ["1,200 of 65,536", "90 of 100"]
    assert all(row[2] == "lb1" for name, row in shown.items() if name in ("web", "nat"))


def assert_listed(
    rows: list[list[str]], vpcs: pb.ListVpcsReply, gateways: pb.ListGatewaysReply, balancers: pb.ListLoadBalancersReply
) -> None:
    """Assert that the rows of the view's tables are those of the services' replies."""
    shown = {row[0]: row[1:] for row in rows}
    serving = [each for each in gateways.gateways if each.hello.kind != "host"]
    assert len(shown) == len(rows) == len(vpcs.vpcs) + len(serving) + len(balancers.load_balancers)
    for each, isolation in zip(vpcs.vpcs, vpcs.isolation, strict=True):
        subnets = ", ".join(subnet.cidr for subnet in each.subnets)
        assert shown[each.id][1:] == [each.tenant, f"{each.vni} ({each.network})", subnets, str(len(each.endpoints))]
        assert shown[each.id][0].startswith("not verified" if isolation.verdict == "unknown" else isolation.verdict)
        assert all(text in shown[each.id][0] for text in isolation.why[:3])
    for gateway in serving:
        hello = gateway.hello
        state, tables, role, pair, *_ = shown[hello.gateway_id + (" (balancer)" if hello.kind == "balancer" else "")]
        assert state == ("attached" if gateway.attached else "detached")
        assert tables == (f"refused: {gateway.refused}" if gateway.refused else "newest")
        assert pair == (hello.partner or "–")
        known = ("active" if gateway.counters.active else "standby") if hello.partner else "single"
        assert role == (known if gateway.HasField("counters") else "–")
    for balancer in balancers.load_balancers:
        vpc_id, address, _, ends = shown[balancer.id]
        assert (vpc_id, address) == (balancer.vpc_id, f"{balancer.vip}:{balancer.port}")
        assert ends.split("\n") == [
            f"{end.ip}:{end.port} weight {end.weight} {'up' if end.healthy else 'down'}" for end in balancer.backends
        ]
