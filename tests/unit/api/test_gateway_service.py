"""GatewayService over gRPC: sessions, generations, waiting callers, and reading tables."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest

from heddle.dataplane.config.wire import MORE_FOLLOWS
from heddle.dataplane.vtep.agent import gateways_by_vni
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.gateway.gateway_session import GatewaySession
from tests.unit.api.conftest import running
from tests.unit.api.test_vpc_service import blue, red, refusal


class Controller:
    def __init__(self, running_controller):
        self.channel, self.target = running_controller.channel, running_controller.addresses["grpc"]
        self.vpcs = rpc.VpcServiceStub(self.channel)
        self.gateways = rpc.GatewayServiceStub(self.channel)
        self.telemetry = running_controller.telemetry
        self.sessions = []

    def attach(self, *arguments, **options):
        session = GatewaySession(self.channel, *arguments, **options)
        self.sessions.append(session)
        return session

    async def status(self, holds=lambda reply: True):
        async with asyncio.timeout(20):
            while True:
                reply = await self.gateways.ListGateways(pb.ListGatewaysRequest())
                if holds(reply):
                    return reply
                await asyncio.sleep(0.02)


@asynccontextmanager
async def started(**config):
    async with running(**config) as found:
        controller = Controller(found)
        try:
            yield controller
        finally:
            for session in controller.sessions:
                await session.close()


def attached(*names):
    return lambda reply: [g.hello.gateway_id for g in reply.gateways if g.attached] == list(names)


async def test_a_gateway_gets_everything_and_then_changes():
    async with started() as controller:
        await controller.vpcs.ApplyVpc(blue())
        session = controller.attach()
        await session.until(lambda s: s.network and s.network.vpcs)
        await controller.vpcs.ApplyVpc(red())
        assert [vpc.id for vpc in session.network.vpcs] == ["blue", "red"]
        await controller.vpcs.ApplyPeering(pb.Peering(vpc_a="blue", vpc_b="red"))
        await controller.vpcs.ApplyVpc(blue(tenant="new"))
        whole = [(message.whole, [vpc.id for vpc in message.vpcs]) for message in session.messages]
        assert whole == [(True, ["blue"]), (False, ["red"]), (False, []), (False, ["blue"])]
        reply = await controller.status()
        assert reply.gateways[0].acknowledged_generation == reply.generation == session.network.generation


async def test_a_change_gets_its_reply_when_every_attached_gateway_acknowledged_it():
    async with started() as controller:
        prompt, slow = controller.attach("gw1"), controller.attach("gw2", "10.0.0.2", answers=False)
        await controller.status(attached("gw1", "gw2"))
        applying = asyncio.ensure_future(controller.vpcs.ApplyVpc(blue()))
        await slow.until(lambda s: s.network is not None)
        await prompt.until(lambda s: s.network is not None)
        assert not applying.done()
        await slow.acknowledge()
        assert await applying == blue()


async def test_a_restarted_controller_publishes_a_network_once_all_of_it_is_applied():
    async with started() as controller:
        session = controller.attach(generation=77)
        await controller.status(attached("gw1"))
        await controller.vpcs.ApplyVpc(blue(), metadata=(MORE_FOLLOWS,))
        await controller.vpcs.ApplyVpc(red(), metadata=(MORE_FOLLOWS,))
        assert session.messages == []
        await controller.vpcs.ApplyPeering(pb.Peering(vpc_a="blue", vpc_b="red"))
        assert [[vpc.id for vpc in message.vpcs] for message in session.messages] == [["blue", "red"]]
        assert len(session.network.peerings) == 1
        await controller.vpcs.ApplyVpc(blue(tenant="new"), metadata=(MORE_FOLLOWS,))
        assert len(session.messages) == 2  # after the first publication each change is published at once


async def test_a_part_that_was_not_published_is_published_when_it_is_applied_again():
    async with started() as controller:
        session = controller.attach()
        await controller.vpcs.ApplyVpc(blue(), metadata=(MORE_FOLLOWS,))
        await controller.vpcs.ApplyVpc(blue())
        assert [vpc.id for vpc in session.network.vpcs] == ["blue"]


async def test_a_gateway_that_does_not_acknowledge_in_time_is_named_and_the_change_is_kept():
    async with started(gateway_timeout_ms=100) as controller:
        session = controller.attach(answers=False)
        await controller.status(attached("gw1"))
        code, details = await refusal(controller.vpcs.ApplyVpc(blue()))
        assert (code, "gw1" in details) == (grpc.StatusCode.UNAVAILABLE, True)
        assert [vpc.id for vpc in (await controller.vpcs.ListVpcs(pb.ListVpcsRequest())).vpcs] == ["blue"]
        session.answers = True
        await session.acknowledge()
        assert await controller.vpcs.ApplyVpc(blue()) == blue()


async def test_a_gateway_that_refuses_is_named_with_its_reason():
    async with started() as controller:
        session = controller.attach(answers=False)
        await controller.status(attached("gw1"))
        applying = asyncio.ensure_future(controller.vpcs.ApplyVpc(blue()))
        await session.until(lambda s: s.network is not None)
        await session.acknowledge(refused="no room")
        code, details = await refusal(applying)
        assert (code, "gateway gw1 refused it: no room" in details) == (grpc.StatusCode.UNAVAILABLE, True)
        assert (await controller.status()).gateways[0].refused == "no room"


async def test_a_gateway_that_detaches_is_not_waited_for_and_gets_everything_when_it_attaches_again():
    async with started(gateway_timeout_ms=60_000) as controller:
        session = controller.attach(answers=False)
        await controller.status(attached("gw1"))
        applying = asyncio.ensure_future(controller.vpcs.ApplyVpc(blue()))
        await session.until(lambda s: s.network is not None)
        await session.close()
        assert await applying == blue()
        await controller.vpcs.ApplyVpc(red())
        again = controller.attach()
        await again.until(lambda s: s.network is not None)
        assert {vpc.id for vpc in again.network.vpcs} == {"blue", "red"}
        assert again.messages[0].whole


async def test_changes_coalesce_while_a_gateway_is_busy():
    async with started(gateway_timeout_ms=100) as controller:
        session = controller.attach(answers=False)
        await controller.status(attached("gw1"))
        for vni in (1, 2, 3):  # each waits for the gateway until the next tick, a second
            await refusal(controller.vpcs.ApplyVpc(blue(vni=vni)))
        assert [message.vpcs[0].vni for message in session.messages] == [1]
        await session.acknowledge()
        await session.until(lambda s: len(s.messages) == 2)
        assert session.network.vpcs[0].vni == 3


async def test_an_unchanged_network_makes_no_new_generation():
    async with started() as controller:
        await controller.vpcs.ApplyVpc(blue())
        before = (await controller.status()).generation
        assert await controller.vpcs.ApplyVpc(blue()) == blue()
        assert (await controller.status()).generation == before


async def test_nothing_is_published_before_the_first_change_of_vpcs():
    async with started() as controller:
        session = controller.attach()
        await controller.status(attached("gw1"))
        await controller.gateways.ListGateways(pb.ListGatewaysRequest())
        assert session.messages == []


async def test_a_second_session_of_a_gateway_ends_the_first():
    async with started() as controller:
        first = controller.attach()
        await controller.status(attached("gw1"))
        await controller.vpcs.ApplyVpc(blue())
        second = controller.attach()
        await first.ended()
        assert first.error.code() is grpc.StatusCode.UNAVAILABLE
        await second.until(lambda s: s.network is not None)
        assert (await controller.status()).gateways[0].attached


async def test_no_caller_waits_for_a_host_that_a_change_does_not_concern():
    async with started() as controller:
        controller.attach()
        host = controller.attach("h1", "10.0.0.1", "host")
        await controller.status(attached("gw1", "h1"))
        await controller.vpcs.ApplyVpc(blue())
        await controller.vpcs.ApplyVpc(red())
        before = len(host.messages)
        await controller.vpcs.ApplyPeering(pb.Peering(vpc_a="blue", vpc_b="red"))
        assert await controller.vpcs.ApplyVpc(blue()) == blue()
        assert len(host.messages) == before
        await controller.status(lambda r: all(g.acknowledged_generation == r.generation for g in r.gateways))


async def test_hosts_send_to_the_address_that_a_pair_serves_and_never_to_a_standbys_own():
    async with started() as controller:
        controller.attach("gw1", "10.0.0.8")
        standby = controller.attach("gw2", "10.0.0.9", host_vtep_ip="10.0.0.8")
        host = controller.attach("h1", "10.0.0.1", "host")
        await controller.status(attached("gw1", "gw2", "h1"))
        await controller.vpcs.ApplyVpc(blue())
        await host.until(lambda s: s.network and s.network.vpcs)
        sent = {name: str(vtep) for name, vtep in host.replica.desired.gateways.items()}
        assert sent == {"gw1": "10.0.0.8", "gw2": "10.0.0.8"}
        assert str(standby.replica.desired.gateways["gw2"]) == "10.0.0.9"
        for vni in range(1, 4):
            network = replace(host.network, vpcs=(replace(host.network.vpcs[0], vni=vni),))
            targets = gateways_by_vni(replace(host.replica.desired, network=network))
            assert {str(vtep) for vtep in targets.values()} == {"10.0.0.8"}


async def test_a_host_gets_its_own_vpcs_and_the_gateways_alone():
    async with started() as controller:
        gateway = controller.attach("gw1", "10.0.0.8")
        host = controller.attach("h1", "10.0.0.1", "host")
        await controller.status(attached("gw1", "h1"))
        await controller.vpcs.ApplyVpc(blue())
        await controller.vpcs.ApplyVpc(red())
        await gateway.until(lambda s: len(s.network.vpcs) == 2)
        assert [vpc.id for vpc in host.network.vpcs] == ["blue"]
        assert {name: str(vtep) for name, vtep in host.replica.desired.gateways.items()} == {"gw1": "10.0.0.8"}
        assert len(host.messages) == 1


def green(**fields):
    """Return a VPC with the addresses of `blue`."""
    return blue(**{"id": "green", "vni": 300, "endpoints": [], **fields})


def at(ip="10.1.0.5", vtep="10.0.0.1"):
    return [pb.Endpoint(ip=ip, mac="02:00:00:00:00:05", vtep_ip=vtep)]


OVERLAPPING = [pb.Subnet(cidr="10.2.0.0/16", gateway_ip="10.2.0.1")]
TO_UNKNOWN_VPC = pb.Border(rules=[pb.BorderRule(allow=True, vpc="x", network="storage", remote_cidr="10.9.0.0/16")])
REFUSED = [
    ("ApplyPeering", pb.Peering(vpc_a="red", vpc_b="green"), "overlaps"),
    ("ApplyVpc", blue(subnets=OVERLAPPING, endpoints=[]), "overlaps"),
    ("ApplyVpc", green(id="fourth", vni=100), "vni: 100 is used by vpc blue already"),
    ("ApplyVpc", blue(vni=200), "vni: 200 is used by vpc red already"),
    ("ApplyVpc", blue(endpoints=at("10.9.0.5")), "endpoints[0].ip: 10.9.0.5 is in no subnet"),
    ("ApplyVpc", blue(endpoints=[*at(), *at("10.1.1.6")]), "endpoints[1].ip: 10.1.1.6 is in no subnet"),
    ("ApplyVpc", blue(endpoints=at(vtep="203.0.113.9")), "endpoints[0].vtep_ip: 203.0.113.9 is no VTEP"),
    ("ApplyVpc", green(endpoints=[*at(), *at("10.1.0.6", "203.0.113.9")]), "endpoints[1].vtep_ip"),
    ("ApplyBorder", TO_UNKNOWN_VPC, "rules[0].vpc"),
]


async def test_what_is_refused_leaves_the_state_and_every_attached_gateway_as_they_were():
    async with started() as controller:
        vpcs, sessions = (
            controller.vpcs,
            [controller.attach("gw1", "10.0.0.8"), controller.attach("h1", kind="host")],
        )
        await controller.status(attached("gw1", "h1"))
        for vpc in (blue(), red(), green()):
            await vpcs.ApplyVpc(vpc)
        await vpcs.ApplyPeering(pb.Peering(vpc_a="blue", vpc_b="red"))

        async def everything():
            reply = await controller.status()
            state = (await vpcs.ListVpcs(pb.ListVpcsRequest()), await vpcs.GetBorder(pb.GetBorderRequest()))
            counts = [len(session.messages) for session in sessions]
            return state, reply.generation, [g.acknowledged_generation for g in reply.gateways], counts

        await controller.status(lambda r: all(g.acknowledged_generation for g in r.gateways))
        before = await everything()
        for method, request, words in REFUSED:
            code, details = await refusal(getattr(vpcs, method)(request))
            assert (code, words in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), details
            assert await everything() == before
        await vpcs.ApplyVpc(blue(tenant="new"))
        assert (await everything())[3][0] == before[3][0] + 1


async def test_a_removed_gateway_is_removed_from_all_others():
    async with started() as controller:
        gone, stays = controller.attach("gw1", "10.0.0.8"), controller.attach("gw2", "10.0.0.9")
        host = controller.attach("h1", "10.0.0.1", "host")
        await controller.status(attached("gw1", "gw2", "h1"))
        await controller.vpcs.ApplyVpc(blue())
        forgetting = pb.ForgetGatewayRequest(gateway_id="gw1")
        code, details = await refusal(controller.gateways.ForgetGateway(forgetting))
        assert (code, "gw1 is attached" in details) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        await gone.close()
        await controller.status(attached("gw2", "h1"))
        before = (await controller.status()).generation
        await controller.gateways.ForgetGateway(forgetting)
        await host.until(lambda s: len(s.messages) == 2)
        for session in (stays, host):
            assert list(session.replica.desired.gateways) == ["gw2"]
        reply = await controller.status()
        assert ([each.hello.gateway_id for each in reply.gateways], reply.generation > before) == (["gw2", "h1"], True)
        code, details = await refusal(controller.gateways.ForgetGateway(forgetting))
        assert (code, "'gw1'" in details) == (grpc.StatusCode.NOT_FOUND, True)


async def test_before_the_first_change_of_vpcs_a_gateway_is_forgotten_silently():
    async with started() as controller:
        gone, stays = controller.attach("gw1", "10.0.0.8"), controller.attach("gw2", "10.0.0.9")
        await controller.status(attached("gw1", "gw2"))
        await gone.close()
        await controller.status(attached("gw2"))
        await controller.gateways.ForgetGateway(pb.ForgetGatewayRequest(gateway_id="gw1"))
        assert ((await controller.status()).generation, stays.messages) == (0, [])


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (pb.GatewayReport(ack=pb.GatewayAck()), "the first message of a session must be a hello"),
        (pb.GatewayReport(hello=pb.GatewayHello(gateway_id="a b", vtep_ip="10.0.0.1")), "gateway_id: 'a b' is no id"),
        (pb.GatewayReport(hello=pb.GatewayHello(gateway_id="a", vtep_ip="x")), "vtep_ip: 'x' is no IPv4 address"),
        (pb.GatewayReport(hello=pb.GatewayHello(gateway_id="a", vtep_ip="10.0.0.1", kind="x")), "kind: 'x' is none of"),
    ],
)
async def test_a_session_without_a_valid_hello_is_refused(report, words):
    async with started() as controller:
        call = controller.gateways.Attach()
        await call.write(report)
        code, details = await refusal(call.read())
        assert (code, words in details) == (grpc.StatusCode.INVALID_ARGUMENT, True), details


async def test_a_generation_that_was_not_sent_is_not_acknowledged():
    async with started() as controller:
        session = controller.attach(answers=False)
        await controller.status(attached("gw1"))
        await session.call.write(pb.GatewayReport(ack=pb.GatewayAck(generation=1 << 62)))
        await session.ended()
        assert session.error.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_counters_are_shown_as_last_reported():
    async with started() as controller:
        session = controller.attach()
        await controller.status(attached("gw1"))
        for packets in (1, 2):
            counters = pb.GatewayCounters(active=True, drops={"NO_ROUTE": packets})
            await session.call.write(pb.GatewayReport(counters=counters))
        reply = await controller.status(lambda r: r.gateways[0].counters.drops.get("NO_ROUTE") == 2)
        assert reply.gateways[0].counters.active
        assert reply.gateways[0].last_seen_unix_ms > 0


async def test_a_gateways_notice_is_an_event_and_a_flood_of_them_is_not():
    async with started() as controller:
        session = controller.attach()
        await controller.status(attached("gw1"))
        events = rpc.TelemetryServiceStub(controller.channel).WatchEvents(pb.WatchEventsRequest(since_unix_ns=1))
        for number in range(20):
            notice = pb.GatewayNotice(text=f"red 10.0.0.5: full {number}\n" + "x" * 10_000)
            await session.call.write(pb.GatewayReport(notice=notice))
        found = []
        async with asyncio.timeout(20):
            async for event in events:
                if "full" in event.text:
                    found.append(event)
                    break
        events.cancel()
        assert (found[0].subject, found[0].severity) == ("gw1", "warning")
        assert found[0].text.startswith("red 10.0.0.5: full 0\\n")
        assert len(found[0].text) < 500
        assert session.error is None
