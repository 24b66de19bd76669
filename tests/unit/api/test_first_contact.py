"""First contact by probe agents: jobs run from leaves that can be steered; others are refused with the remedy."""

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import IPv4Address

import grpc
import pytest

from heddle.controller.dashboard.steering_metrics import steering_lines
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.probe_sessions import sessions
from heddle.probing.check.questions import Round, Variation
from heddle.probing.probe import Question
from heddle.v1 import heddle_pb2 as pb
from tests.fakes.checked_fabric import CheckedFabric
from tests.fakes.probing.agent import FakeProbeAgent
from tests.unit.api.conftest import running
from tests.unit.brain.driver import small_fabric

BARE = small_fabric(spines=4)
ADDRESSES = tuple(CheckedFabric(BARE).address_of.items())
FABRIC = replace(BARE, steered_by=SteeredBy.HASH, port_addresses=ADDRESSES)
NIC = {nic.host: nic for nic in FABRIC.nics}
HOSTS = list(NIC)


class Site:
    """A controller and its fabric's routers; `orders` are those that agents got."""

    def __init__(self, controller, routers):
        self.controller, self.routers, self.attached = controller, routers, {}
        self.agents, self.probing = (
            controller.application.attached.probe_agents,
            controller.application.port_search.probing,
        )
        self.contact = self.probing.first_contact

    def answer(self, order):
        src_ip, replies = int(IPv4Address(order.src_ip)), []
        asked_as = Round(Variation.FIRST, order.qpn, order.dscp, {})
        for each in order.questions:
            question = Question(int(IPv4Address(each.dst_ip)), each.port, each.ttl)
            address = self.routers.reply(src_ip, question, asked_as)
            if address is not None:
                replies.append(pb.ProbeReply(question=each, router_ip=str(IPv4Address(address))))
        return [pb.ProbeReplies(order_id=order.order_id, sent=len(order.questions), replies=replies)]

    async def attach(self, hosts=HOSTS, answer=None):
        before = dict(self.agents.by_host)
        for host in hosts:
            if host in self.attached:
                await self.attached[host].close()
            answered = answer or self.answer
            self.attached[host] = FakeProbeAgent(self.controller.channel, host, [NIC[host].ip], answered)
        async with asyncio.timeout(60):
            while any(self.agents.by_host.get(host) in (None, before.get(host)) for host in hosts):
                await asyncio.sleep(0.01)

    async def checked(self, *leaves):
        async with asyncio.timeout(60):
            while any(self.contact.leaves[leaf].task is not None for leaf in leaves):
                await asyncio.sleep(0.01)

    async def submit(self, job_id, *hosts):
        """Submit a job in which each host sends to the next one of the list, the last to the first."""
        pairs = [pb.RankPair(src_rank=rank, dst_rank=(rank + 1) % len(hosts)) for rank in range(len(hosts))]
        once = pb.Collective(kind=pb.Collective.SEND_RECV, bytes=1000, pairs=pairs)
        ranks = [NIC[host].id for host in hosts]
        job = pb.SubmitJobRequest(job_id=job_id, ranks=ranks, collectives=[once])
        return await self.controller.jobs.SubmitJob(job, timeout=60)

    def metrics(self):
        return "".join(steering_lines(self.probing))


@asynccontextmanager
async def site(fabric=FABRIC, **faults):
    async with running(fabric, probes_per_switch_pps=100_000) as controller:
        found = Site(controller, CheckedFabric(fabric, **faults))
        try:
            yield found
        finally:
            for agent in found.attached.values():
                await agent.close()


def notes(caplog, leaf):
    lines = [record.getMessage() for record in caplog.records]
    return [line.removeprefix(f"{leaf}: ") for line in lines if line.startswith(f"{leaf}: ")]


async def test_a_job_runs_once_the_leaves_that_it_sends_from_were_found_fit(caplog):
    caplog.set_level(logging.INFO)
    async with site() as given:
        await given.attach()
        plan = await given.submit("a", "h1", "h3", "h5", "h7")
        assert plan.certificate.paths_confirmed == 4
        assert {leaf: contact.check.is_fit for leaf, contact in given.contact.leaves.items()} == dict.fromkeys(
            FABRIC.leaves, True
        )
        (text,) = notes(caplog, "leaf1")
        assert text.startswith("fit for steering by source ports: source ports matter: yes, repeats agree: yes, ")
        assert 'heddle_leaf_fit{leaf="leaf1"} 1' in given.metrics()
        assert 'heddle_leaf_answers{leaf="leaf1",question="dscp_hashed",answer="no"} 1' in given.metrics()


async def test_a_check_takes_some_hundred_probes_of_a_leaf_and_loads_all_switches_alike():
    async with site() as given:
        await given.attach()
        await given.checked(*FABRIC.leaves)
        replied = given.agents.replied
        assert given.routers.probes == sum(replied.values())
        assert given.routers.probes <= 330 * len(FABRIC.leaves)
        leaves = [replied[leaf] for leaf in FABRIC.leaves]
        assert max(leaves) == min(leaves)


@pytest.mark.parametrize(
    ("fault", "finding", "remedy"),
    [
        ("addresses_only", "leaf1 sends every source port of two NICs over one next hop", "hash layer-4 ports"),
        ("spraying", "ports take another path probed again", "turn off packet spraying"),
        ("qpn_hashed", "ports take another path with another queue pair number", "take the queue pair number"),
        ("dscp_hashed", "ports take another path with another DSCP", "take DSCP out of the switches' hash"),
    ],
)
async def test_a_job_from_a_leaf_that_is_not_fit_is_refused_with_the_remedy_and_others_run(
    fault, finding, remedy, caplog
):
    async with site(**{fault: {"leaf1"}}) as given:
        await given.attach()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await given.submit("a", "h1", "h3")
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        line = refused.value.details()
        assert line.startswith("leaf1 cannot be steered by source ports: ")
        assert finding in line
        assert remedy in line
        assert "\n" not in line
        assert (await given.submit("b", "h3", "h5")).certificate.probed
        assert (await given.submit("c", "h1", "h2")).certificate.probed  # stays on its leaf
        assert 'heddle_leaf_fit{leaf="leaf1"} 0' in given.metrics()
        assert any(finding in text and remedy in text for text in notes(caplog, "leaf1"))


async def test_routers_that_never_reply_make_a_leaf_unknown_which_refuses_its_jobs():
    async with site(silent={switch.id for switch in FABRIC.switches}) as given:
        await given.attach(["h1"])
        with pytest.raises(grpc.aio.AioRpcError, match="let switches reply to expired packets") as refused:
            await given.submit("a", "h1", "h3")
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert 'heddle_leaf_answers{leaf="leaf1",question="qpn_hashed",answer="unknown"} 1' in given.metrics()


async def test_loopbacks_are_no_lies_and_refuse_the_leaf():
    async with site(loopbacks={switch.id for switch in FABRIC.switches}) as given:
        await given.attach(["h1"])
        with pytest.raises(grpc.aio.AioRpcError, match="unknown addresses reply, at the ends of"):
            await given.submit("a", "h1", "h3")
        assert not given.agents.lies


async def test_a_leaf_that_was_not_fit_is_checked_again_when_an_agent_attaches_anew():
    faulty = {"leaf1"}
    async with site(addresses_only=faulty) as given:
        await given.attach()
        with pytest.raises(grpc.aio.AioRpcError):
            await given.submit("a", "h1", "h3")
        faulty.clear()
        with pytest.raises(grpc.aio.AioRpcError):
            await given.submit("a", "h1", "h3")
        await given.checked(*given.contact.leaves)
        checks = {leaf: contact.checks for leaf, contact in given.contact.leaves.items()}
        await given.attach(["h1", "h3"])
        assert (await given.submit("a", "h1", "h3")).certificate.probed
        again = {leaf: contact.checks - checks[leaf] for leaf, contact in given.contact.leaves.items()}
        assert again == {"leaf1": 1, "leaf2": 0, "leaf3": 0, "leaf4": 0}


async def test_while_one_leaf_is_being_checked_the_jobs_of_others_run():
    async with site() as given:
        await given.attach(["h1"], lambda order: [])
        await given.attach(HOSTS[2:])
        waits = asyncio.create_task(given.submit("a", "h1", "h3"))
        assert (await given.submit("b", "h3", "h5")).certificate.probed
        assert given.contact.leaves["leaf1"].task is not None
        assert not waits.done()
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)


async def test_agents_that_fail_leave_a_leaf_unchecked_and_its_jobs_are_to_be_tried_again(monkeypatch):
    monkeypatch.setattr(sessions, "GRACE_S", 0.05)
    async with site() as given:
        await given.attach(["h1"], lambda order: [pb.ProbeReplies(order_id=order.order_id, refused="busy")])
        with pytest.raises(grpc.aio.AioRpcError, match=r"leaf1 could not be checked .* refuses: busy") as no:
            await given.submit("a", "h1", "h3")
        assert no.value.code() is grpc.StatusCode.UNAVAILABLE
