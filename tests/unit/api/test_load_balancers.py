"""Load balancers over gRPC: applied whole or refused, sent to all concerned, and listed with their health."""

import asyncio
from ipaddress import IPv4Address

import grpc
import pytest

from heddle.dataplane.config.balancers import balancer_mac, pool_mac
from heddle.dataplane.config.wire import MORE_FOLLOWS
from heddle.foundation.address import mac_text
from heddle.v1 import heddle_pb2 as pb
from tests.unit.api.test_gateway_service import attached, started
from tests.unit.api.test_vpc_service import INVALID, blue, refusal

ENDS = [pb.Endpoint(ip=f"10.1.0.{last}", mac=f"02:00:00:00:00:{last:02x}", vtep_ip="10.0.0.1") for last in (5, 6, 7)]


def vpc(**fields):
    return blue(**{"endpoints": ENDS, **fields})


def web(**fields):
    return pb.LoadBalancer(
        **{
            "id": "web", "tenant": "t1", "vpc_id": "blue", "vip": "10.1.0.100", "port": 80, "protocol": "tcp",
            "mode": "direct_return", "backends": [pb.Backend(ip="10.1.0.6", weight=2), pb.Backend(ip="10.1.0.7")],
            "health_check": pb.HealthCheck(kind="http", path="/"), **fields,
        }
    )  # fmt: skip


def translating(**fields):
    return web(id="nat", mode="full_nat", port=81, backends=[pb.Backend(ip="10.1.0.6", port=8080)], **fields)


def pools(*ips, vpc_id="blue"):
    return [pb.SourcePool(vpc_id=vpc_id, ips=ips)]


async def listed(controller, tenant=""):
    reply = await controller.vpcs.ListLoadBalancers(pb.ListVpcsRequest(tenant=tenant))
    return reply.load_balancers


async def test_a_load_balancer_is_applied_with_defaults_listed_by_tenant_replaced_and_deleted():
    async with started() as controller:
        await controller.vpcs.ApplyVpc(vpc())
        reply = await controller.vpcs.ApplyLoadBalancer(web(protocol="", mode=""))
        assert [(end.port, end.weight, end.healthy) for end in reply.backends] == [(80, 2, False), (80, 1, False)]
        assert (reply.protocol, reply.mode, reply.health_check.interval_ms) == ("tcp", "direct_return", 1000)
        assert list(await listed(controller)) == list(await listed(controller, "t1")) == [reply]
        assert not await listed(controller, "t2")
        await controller.vpcs.ApplyLoadBalancer(web(port=8080))
        assert [each.port for each in await listed(controller)] == [8080]
        await controller.vpcs.DeleteLoadBalancer(pb.DeleteLoadBalancerRequest(id="web"))
        assert not await listed(controller)
        code, _ = await refusal(controller.vpcs.DeleteLoadBalancer(pb.DeleteLoadBalancerRequest(id="web")))
        assert code is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (web(vip="10.1.0.5"), "load balancer web: vip: 10.1.0.5 is in use in blue, by an endpoint"),
        (web(vip="10.1.0.1"), "vip: 10.1.0.1 is in use in blue, as a gateway's address"),
        (web(vip="10.9.0.1"), "vip: 10.9.0.1 is in no subnet of blue"),
        (web(vip="10.1.0.x"), "vip: '10.1.0.x' is no IP address"),
        (web(id="other"), "load balancer other: vip: 10.1.0.100 port 80 of vpc blue is served by web already"),
        (web(id=""), "id: must be 1 to 128 letters"),
        (web(port=0), "port: 0 is not within 1 to 65535"),
        (web(port=65536), "port: 65536 is not within 1 to 65535"),
        (web(protocol="sctp"), "protocol: 'sctp' is none of tcp, udp, roce"),
        (web(mode="nat"), "mode: 'nat' is none of"),
        (web(protocol="roce", port=4791, mode="full_nat"), "RoCEv2 in direct return only"),
        (web(backends=[pb.Backend(ip="10.1.0.6", weight=1001)]), "backends[0].weight: 1001 is not within 0 to 1000"),
        (web(backends=[]), "backends: 0; 1 to 1000"),
        (web(backends=[pb.Backend(ip="10.1.0.100")]), "backends[0].ip: 10.1.0.100 is the virtual IP itself"),
        (web(backends=[pb.Backend(ip="10.1.0.99")]), "backends[0].ip: 10.1.0.99 is no endpoint of blue"),
        (web(backends=[pb.Backend(ip="10.1.0.6", port=81)]), "with direct return a back end has the port 80 itself"),
        (web(vpc_id="green"), "vpc_id: there is no vpc 'green'"),
        (web(health_check=pb.HealthCheck(kind="icmp")), "health_check.kind: 'icmp' is none of"),
    ],
)
async def test_an_invalid_load_balancer_is_refused_and_changes_nothing(wrong, words):
    async with started() as controller:
        await controller.vpcs.ApplyVpc(vpc())
        await controller.vpcs.ApplyLoadBalancer(web())
        before = await listed(controller)
        code, details = await refusal(controller.vpcs.ApplyLoadBalancer(wrong))
        assert (code, words in details) == (INVALID, True), details
        assert await listed(controller) == before


async def test_a_weight_of_0_means_no_new_connections_and_an_absent_one_is_1():
    async with started() as controller:
        balancer = controller.attach("lb1", "10.0.0.2", kind="balancer")
        await controller.status(attached("lb1"))
        await controller.vpcs.ApplyVpc(vpc())
        ends = [pb.Backend(ip="10.1.0.6", weight=0), pb.Backend(ip="10.1.0.7")]
        reply = await controller.vpcs.ApplyLoadBalancer(web(backends=ends))
        assert [end.weight for end in reply.backends] == [0, 1]
        assert [end.weight for end in balancer.replica.desired.load_balancers[0].back_ends] == [0, 1]


async def test_a_vpc_keeps_what_its_load_balancers_need():
    async with started() as controller:
        await controller.vpcs.ApplyVpc(vpc())
        await controller.vpcs.ApplyLoadBalancer(web())
        code, details = await refusal(controller.vpcs.ApplyVpc(vpc(endpoints=ENDS[:2])))
        assert (code, "10.1.0.7 is no endpoint of blue" in details) == (INVALID, True), details
        taken = pb.Endpoint(ip="10.1.0.100", mac="02:00:00:00:00:64", vtep_ip="10.0.0.1")
        assert (await refusal(controller.vpcs.ApplyVpc(vpc(endpoints=[*ENDS, taken]))))[0] is INVALID
        code, details = await refusal(controller.vpcs.DeleteVpc(pb.DeleteVpcRequest(id="blue")))
        assert (code, "web" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        await controller.vpcs.ApplyVpc(vpc(tenant="new"))


async def test_a_floating_ip_leads_to_a_virtual_ip_that_stays():
    floating = vpc(floating_ips=[pb.FloatingIp(public_ip="203.0.113.9", endpoint_ip="10.1.0.100")])
    async with started() as controller:
        code, details = await refusal(controller.vpcs.ApplyVpc(floating))
        assert (code, "10.1.0.100 is no endpoint and no virtual IP" in details) == (INVALID, True), details
        await controller.vpcs.ApplyVpc(vpc())
        await controller.vpcs.ApplyLoadBalancer(web())
        await controller.vpcs.ApplyVpc(floating)
        code, details = await refusal(controller.vpcs.ApplyLoadBalancer(web(vip="10.1.0.99")))
        assert (code, "10.1.0.100 is no endpoint and no virtual IP" in details) == (INVALID, True), details
        code, _ = await refusal(controller.vpcs.DeleteLoadBalancer(pb.DeleteLoadBalancerRequest(id="web")))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        await controller.vpcs.ApplyVpc(vpc())
        await controller.vpcs.DeleteLoadBalancer(pb.DeleteLoadBalancerRequest(id="web"))


async def test_passive_checks_reach_the_balancer_and_are_off_by_default():
    async with started() as controller:
        balancer = controller.attach("lb1", "10.0.0.3", kind="balancer", source_pools=pools("10.1.0.201"))
        await controller.status(attached("lb1"))
        await controller.vpcs.ApplyVpc(vpc())
        reply = await controller.vpcs.ApplyLoadBalancer(translating(health_check=pb.HealthCheck(passive=True)))
        assert reply.health_check.passive
        reply = await controller.vpcs.ApplyLoadBalancer(web())
        assert not reply.health_check.passive
        checks = {each.id: each.health.passive for each in balancer.replica.desired.load_balancers}
        assert checks == {"nat": True, "web": False}


async def test_a_balancer_gets_its_services_and_acknowledges_them():
    async with started() as controller:
        balancer = controller.attach("lb1", "10.0.0.1", kind="balancer", answers=False)
        await controller.status(attached("lb1"))
        await controller.vpcs.ApplyVpc(vpc(), metadata=(MORE_FOLLOWS,))
        applying = asyncio.ensure_future(controller.vpcs.ApplyLoadBalancer(web()))
        await balancer.until(lambda s: s.network is not None)
        assert [each.id for each in balancer.replica.desired.load_balancers] == ["web"]
        assert [each.id for each in balancer.network.vpcs] == ["blue"]
        assert not applying.done()
        await balancer.acknowledge()
        await applying
        reply = await controller.status()
        assert reply.gateways[0].hello.kind == "balancer"
        assert reply.gateways[0].acknowledged_generation == reply.generation


async def test_hosts_spread_a_virtual_ip_over_the_attached_balancers():
    async with started() as controller:
        host = controller.attach("h1", "10.0.0.1", kind="host")
        for name, vtep, pool in (("lb1", "10.0.0.2", "10.1.0.201"), ("lb2", "10.0.0.3", "10.1.0.202")):
            controller.attach(name, vtep, kind="balancer", source_pools=pools(pool))
        await controller.status(attached("h1", "lb1", "lb2"))
        await controller.vpcs.ApplyVpc(vpc())
        await controller.vpcs.ApplyLoadBalancer(web())
        await controller.vpcs.ApplyLoadBalancer(translating())

        def group(session):
            found = session.replica.desired.virtual_ips
            return [list(map(str, each.vteps)) for each in found]

        assert group(host) == [["10.0.0.2", "10.0.0.3"]]
        assert [str(ip) for ip in host.replica.desired.virtual_ips[0].back_ends] == ["10.1.0.6", "10.1.0.7"]
        ends = {str(end.ip): (end.mac, str(end.vtep)) for end in host.network.vpcs[0].endpoints}
        for ip, vtep in (("10.1.0.201", "10.0.0.2"), ("10.1.0.202", "10.0.0.3")):
            assert ends[ip] == (pool_mac(IPv4Address(vtep)), vtep)
        await controller.sessions[1].close()
        await host.until(lambda s: group(s) == [["10.0.0.3"]])
        await controller.sessions[2].close()
        await controller.status(attached("h1"))
        await asyncio.sleep(0)
        assert group(host)[0], "without any balancer attached the last ones stay"


async def test_a_gateway_sends_to_a_virtual_ip_as_to_an_endpoint_at_a_balancer():
    async with started() as controller:
        gateway = controller.attach("gw1", "10.0.0.9")
        controller.attach("lb1", "10.0.0.2", kind="balancer")
        await controller.status(attached("gw1", "lb1"))
        await controller.vpcs.ApplyVpc(vpc())
        await controller.vpcs.ApplyLoadBalancer(web())
        (end,) = [end for end in gateway.network.vpcs[0].endpoints if str(end.ip) == "10.1.0.100"]
        assert (mac_text(end.mac), str(end.vtep)) == (mac_text(balancer_mac(100)), "10.0.0.2")
        assert not gateway.replica.desired.load_balancers
        await controller.vpcs.DeleteLoadBalancer(pb.DeleteLoadBalancerRequest(id="web"))
        assert len(gateway.network.vpcs[0].endpoints) == len(ENDS)


async def test_full_nat_is_served_by_balancers_with_source_addresses_alone():
    async with started() as controller:
        without = controller.attach("lb1", "10.0.0.2", kind="balancer")
        await controller.status(attached("lb1"))
        await controller.vpcs.ApplyVpc(vpc())
        code, details = await refusal(controller.vpcs.ApplyLoadBalancer(translating()))
        assert (code, "full_nat needs source addresses of IPv4" in details) == (INVALID, True)
        able = controller.attach("lb2", "10.0.0.3", kind="balancer", source_pools=pools("10.1.0.201"))
        await controller.status(attached("lb1", "lb2"))
        await controller.vpcs.ApplyLoadBalancer(translating())
        assert [each.id for each in able.replica.desired.load_balancers] == ["nat"]
        assert without.replica.desired is None or not without.replica.desired.load_balancers


async def test_a_balancer_whose_source_addresses_are_in_use_is_refused():
    async with started() as controller:
        await controller.vpcs.ApplyVpc(vpc())
        for name, pool, words in (
            ("lb1", "10.1.0.5", "10.1.0.5 is an address of the pool"),
            ("lb2", "x", "'x' is no IP"),
        ):
            refused = controller.attach(name, "10.0.0.2", kind="balancer", source_pools=pools(pool))
            await refused.ended()
            assert refused.error.code() is INVALID
            assert words in refused.error.details()
        controller.attach("lb3", "10.0.0.2", kind="balancer", source_pools=pools("10.1.0.201"))
        await controller.status(attached("lb3"))
        taken = pb.Endpoint(ip="10.1.0.201", mac="02:00:00:00:00:64", vtep_ip="10.0.0.1")
        assert (await refusal(controller.vpcs.ApplyVpc(vpc(endpoints=[*ENDS, taken]))))[0] is INVALID


def health(**up):
    states = [
        pb.BackEndState(load_balancer_id="web", ip=f"10.1.0.{name[1:]}", port=80, up=is_up)
        for name, is_up in up.items()
    ]
    return pb.GatewayReport(health=pb.BackEndHealth(states=states))


async def test_health_is_listed_and_its_changes_are_events():
    async with started() as controller:
        one = controller.attach("lb1", "10.0.0.2", kind="balancer")
        two = controller.attach("lb2", "10.0.0.3", kind="balancer")
        await controller.status(attached("lb1", "lb2"))
        await controller.vpcs.ApplyVpc(vpc())
        await controller.vpcs.ApplyLoadBalancer(web())

        async def shown(*wanted):
            async with asyncio.timeout(20):
                while [end.healthy for end in (await listed(controller))[0].backends] != list(wanted):
                    await asyncio.sleep(0.02)

        await one.call.write(health(b6=True, b7=True))
        await shown(True, True)
        await two.call.write(health(b6=True, b7=False))
        await shown(True, False)
        await one.call.write(health(b6=False, b7=False))
        await shown(False, False)
        stub = controller.telemetry
        events = [event async for event in stub.WatchEvents(pb.WatchEventsRequest(history_only=True))]
        found = [(event.severity, event.text) for event in events if event.subject == "web" and event.kind != "audit"]
        assert found == [
            ("info", "back end 10.1.0.6 port 80 is up at lb1"),
            ("info", "back end 10.1.0.7 port 80 is up at lb1"),
            ("info", "back end 10.1.0.6 port 80 is up at lb2"),
            ("warning", "back end 10.1.0.6 port 80 is down at lb1"),
            ("warning", "back end 10.1.0.7 port 80 is down at lb1"),
            ("error", "all back ends are down at lb1; new connections are refused"),
        ]
