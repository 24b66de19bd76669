"""ProbeService over gRPC: ports found through agents, and agents that are gone, silent or lie."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc
import pytest

from heddle.controller.probe_sessions import sending, sessions
from heddle.controller.probe_sessions.assembly import Lie
from heddle.controller.probe_sessions.finder import ProbeFinder
from heddle.controller.probe_sessions.sending import ProbeSender
from heddle.controller.probe_sessions.sessions import MAX_LIES
from heddle.foundation.identity import Role
from heddle.probing.flow import Wanted
from heddle.probing.probe import Question
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.fakes.probing.agent import FakeProbeAgent
from tests.fakes.probing.routers import ProbedFabric
from tests.support.certified_callers import certified
from tests.support.processes.probe_agents import until_attached
from tests.unit.api.conftest import running
from tests.unit.brain.driver import small_fabric

FABRIC = small_fabric()
HOSTS = [nic.host for nic in FABRIC.nics]
IP_OF = {nic.host: nic.ip for nic in FABRIC.nics}
WAYS = 2


def wanted(spine="spine1"):
    """Return a flow from every host to the one half of the hosts further, all over one spine."""
    flows, count = [], len(FABRIC.nics)
    port = {(cable.lower.switch, cable.upper.switch): cable for cable in FABRIC.cables}
    for number, src in enumerate(FABRIC.nics):
        dst = FABRIC.nics[(number + count // 2) % count]
        up, down = port[src.port.switch, spine], port[dst.port.switch, spine]
        path = (src.up_link, up.up_link, down.down_link, dst.down_link)
        flows.append(Wanted(src.host, src.ip, dst.ip, path))
    return flows


class Site:
    def __init__(self, controller):
        self.controller, self.routers = controller, ProbedFabric(FABRIC)
        self.agents = controller.application.attached.probe_agents
        sender = ProbeSender(self.agents, FABRIC, switch_pps=100_000, timeout_s=0.01)
        self.finder = ProbeFinder(sender, self.routers.link_at)
        self.attached = {}

    async def attach(self, hosts=HOSTS, answer=None, **hello):
        for host in hosts:
            answered = answer or self.routers.honest
            self.attached[host] = FakeProbeAgent(self.controller.channel, host, [IP_OF[host]], answered, **hello)
        await until_attached(self.agents, list(self.attached))

    def assert_led_by_spine1(self, found, hosts):
        for flow in wanted():
            if flow.flow_id in hosts:
                port = found.ports[flow.flow_id]
                seen = [self.routers.reply(flow.src_ip, Question(flow.dst_ip, port, hop)) for hop in (2, 3)]
                assert tuple(self.routers.link_at[address] for address in seen) == flow.path[1:3]

    def events_of(self, host):
        return [note for note in self.controller.application.feeds.telemetry.events.list(1000) if note.subject == host]


@asynccontextmanager
async def site():
    async with running() as controller:
        found = Site(controller)
        try:
            yield found
        finally:
            for agent in found.attached.values():
                await agent.close()


async def test_every_flow_gets_a_port_that_leads_over_its_path():
    async with site() as given:
        await given.attach()
        found = await given.finder.find(wanted(), WAYS)
        assert found.missing == {}
        given.assert_led_by_spine1(found, HOSTS)
        assert found.probes == sum(len(order.questions) for each in given.attached.values() for order in each.orders)
        assert sum(given.agents.replied.values()) == found.probes == round(sum(given.agents.expected.values()))


async def test_flows_of_a_host_without_an_agent_are_missing_and_the_others_are_found():
    async with site() as given:
        await given.attach(HOSTS[1:])
        found = await given.finder.find(wanted(), WAYS)
        assert found.missing == {"h1": "no probe agent at h1"}
        given.assert_led_by_spine1(found, HOSTS[1:])


async def test_an_agent_that_goes_away_in_a_search_leaves_its_flows_missing():
    async with site() as given:
        await given.attach(HOSTS[1:])

        def leave(order):
            given.attached["h1"].call.cancel()
            return []

        await given.attach(HOSTS[:1], leave)
        found = await given.finder.find(wanted(), WAYS)
        assert found.missing == {"h1": "the probe agent at h1 went away"}
        given.assert_led_by_spine1(found, HOSTS[1:])


async def test_an_agent_that_never_reports_is_given_up(monkeypatch):
    monkeypatch.setattr(sessions, "GRACE_S", 0.2)
    async with site() as given:
        await given.attach(HOSTS[:1], lambda order: [])
        found = await given.finder.find(wanted()[:1], WAYS)
        assert found.missing["h1"].startswith("the probe agent at h1 did not report within")
        assert given.agents.counts["orders_overdue"] == 1


async def test_an_agent_that_sends_hardly_any_probes_a_second_keeps_no_search_of_others_waiting(monkeypatch):
    monkeypatch.setattr(sending, "MAX_SLOW_S", 1.0)
    async with site() as given:
        await given.attach(HOSTS[1:])
        await given.attach(HOSTS[:1], rate_pps=1)
        found = await asyncio.wait_for(given.finder.find(wanted(), WAYS), 60)
        assert found.missing == {"h1": "the probe agent at h1 sends 1 probes a second, too few for this search"}
        given.assert_led_by_spine1(found, HOSTS[1:])


async def test_an_agent_that_refuses_is_quoted():
    async with site() as given:
        await given.attach(HOSTS[:1], lambda order: [pb.ProbeReplies(order_id=order.order_id, refused="busy")])
        found = await given.finder.find(wanted()[:1], WAYS)
        assert found.missing == {"h1": "the probe agent at h1 refuses: busy"}


async def test_silent_routers_are_unknown_and_the_reason_names_the_remedy():
    async with site() as given:
        await given.attach(answer=lambda order: [pb.ProbeReplies(order_id=order.order_id, sent=len(order.questions))])
        found = await given.finder.find(wanted(), WAYS)
        assert found.ports == {}
        assert all("no router replied to" in reason for reason in found.missing.values())


async def test_replies_from_a_loopback_are_unknown_and_the_reason_names_the_remedy():
    def from_loopback(order):
        replies = [pb.ProbeReply(question=asked, router_ip="192.0.2.1") for asked in order.questions]
        return [pb.ProbeReplies(order_id=order.order_id, sent=len(replies), replies=replies)]

    async with site() as given:
        await given.attach(HOSTS[:1], from_loopback)
        found = await given.finder.find(wanted()[:1], WAYS)
        assert "192.0.2.1, which is no port of the fabric" in found.missing["h1"]
        assert "icmp_errors_use_inbound_ifaddr" in found.missing["h1"]


def lying(routers, lie):
    """Return an agent's answers, which add one kind of lie to what it sees."""
    address = {link: str(pb_ip(ip)) for ip, link in routers.link_at.items()}
    elsewhere = next(ip for link, ip in address.items() if link.startswith("spine1:") and ">leaf4:" in link)

    def answer(order):
        (honest,) = routers.honest(order)
        asked = order.questions[0]
        if lie is Lie.UNASKED_ORDER:
            return [honest, honest]
        if lie is Lie.SURPLUS:
            return [pb.ProbeReplies(order_id=order.order_id, sent=1, replies=[*honest.replies] * 2)]
        if lie is Lie.WRONG_HOP:
            del honest.replies[:]
            honest.replies.extend(pb.ProbeReply(question=each, router_ip=elsewhere) for each in order.questions)
        elif lie is Lie.MALFORMED:
            honest.replies[0].router_ip = "here"
        elif lie is Lie.UNASKED_QUESTION:
            honest.replies[0].question.port ^= 0x3FFF
        elif lie is Lie.CONTRADICTION and len(honest.replies) > 1:
            honest.replies[1].CopyFrom(pb.ProbeReply(question=asked, router_ip="192.0.2.1"))
        return [honest]

    return answer


def pb_ip(ip):
    return ".".join(str(ip >> shift & 255) for shift in (24, 16, 8, 0))


@pytest.mark.parametrize("lie", Lie)
async def test_a_lie_is_counted_and_ignored_and_its_agent_is_named_once(lie, caplog):
    async with site() as given:
        await given.attach(HOSTS[1:])
        await given.attach(HOSTS[:1], lying(given.routers, lie))
        for _ in range(2):
            found = await given.finder.find(wanted(), 4 * WAYS)
            given.assert_led_by_spine1(found, set(found.ports))
            assert set(found.ports) >= set(HOSTS[1:])
        async with asyncio.timeout(20):  # the last report may be on its way
            while not given.agents.lies[lie]:
                await asyncio.sleep(0.01)
        assert set(given.agents.lies) == {lie}
        named = [record for record in caplog.records if "probe agent reports what cannot be so" in record.getMessage()]
        assert Counter(record.args[0] for record in named) == {"h1": 1}


async def test_a_storm_of_reports_ends_the_session_of_its_agent_alone():
    async with site() as given:
        await given.attach()
        storm = given.attached["h1"]
        for number in range(MAX_LIES):
            await storm.call.write(pb.ProbeReport(replies=pb.ProbeReplies(order_id=10_000 + number)))
        await asyncio.wait_for(asyncio.shield(storm.task), 20)
        assert "of this session cannot be so" in storm.error.details()
        await until_attached(given.agents, HOSTS[1:])
        found = await given.finder.find(wanted(), WAYS)
        assert set(found.missing) == {"h1"}


async def test_a_late_report_is_no_lie(monkeypatch):
    monkeypatch.setattr(sessions, "GRACE_S", 0.1)
    async with site() as given:
        await given.attach(HOSTS[:1], lambda order: [])
        await given.finder.find(wanted()[:1], WAYS)
        agent = given.attached["h1"]
        await agent.call.write(pb.ProbeReport(replies=pb.ProbeReplies(order_id=agent.orders[0].order_id)))
        async with asyncio.timeout(20):
            while not given.agents.counts["reports_late"]:
                await asyncio.sleep(0.01)
        assert not given.agents.lies


async def test_a_second_session_of_a_host_ends_the_first():
    async with site() as given:
        await given.attach(HOSTS[:1])
        first = given.attached["h1"]
        await given.attach(HOSTS[:1])
        await asyncio.wait_for(asyncio.shield(first.task), 20)
        assert "another session attached for the same host" in first.error.details()
        found = await given.finder.find(wanted()[:1], WAYS)
        assert set(found.ports) == {"h1"}


@pytest.mark.parametrize(
    ("hello", "code", "text"),
    [
        (pb.ProbeHello(host="h1"), "INVALID_ARGUMENT", "must have 1 to"),
        (pb.ProbeHello(host="h1", nics=[pb.ProbeNic(ip="x")]), "INVALID_ARGUMENT", "nics[0].ip: 'x' is no IPv4"),
        (pb.ProbeHello(host="h1", nics=[pb.ProbeNic(ip="192.0.2.1")]), "INVALID_ARGUMENT", "no NIC of this fabric"),
        (
            pb.ProbeHello(host="h1", nics=[pb.ProbeNic(ip=pb_ip(IP_OF["h2"]))]),
            "PERMISSION_DENIED",
            "is of another host than 'h1'",
        ),
        (None, "INVALID_ARGUMENT", "the first message of a session must be a hello"),
    ],
)
async def test_a_hello_that_is_no_host_of_the_fabric_is_refused(hello, code, text):
    async with running() as controller:
        call = rpc.ProbeServiceStub(controller.channel).Attach()
        await call.write(pb.ProbeReport(hello=hello) if hello else pb.ProbeReport(replies=pb.ProbeReplies()))
        assert await call.code() is grpc.StatusCode[code]
        assert text in await call.details()


async def test_an_agent_with_a_certificate_speaks_for_its_own_host_alone(tmp_path, monkeypatch):
    async with certified(tmp_path, monkeypatch) as callers, running(replace(FABRIC, name="small")) as controller:
        channel = callers.channel(Role.AGENT, "h1")
        own = FakeProbeAgent(channel, "h1", [IP_OF["h1"]], lambda order: [])
        await until_attached(controller.application.attached.probe_agents, ["h1"])
        other = FakeProbeAgent(channel, "h2", [IP_OF["h2"]], lambda order: [])
        await asyncio.wait_for(asyncio.shield(other.task), 20)
        assert isinstance(other.error, grpc.aio.AioRpcError)
        assert other.error.code() is grpc.StatusCode.PERMISSION_DENIED
        await own.close()
