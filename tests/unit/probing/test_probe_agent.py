"""The agent's session over gRPC: it refuses what is not its own, attaches again, and follows the leader."""

import asyncio
import socket
import threading
from contextlib import asynccontextmanager

import grpc
import pytest
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP as IPv4

from heddle.foundation.backoff import Backoff
from heddle.foundation.leader_address import LEADER
from heddle.probing.agent.agent import MAX_WAITING, ProbeAgent
from heddle.probing.agent.devices import DeviceError, address_of, probers
from heddle.probing.prober import Prober
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

IP, ROUTER = 0x0A000001, 0x64400001


class FakeProber(Prober):
    """Replies to every question with one router, once `may_reply` is set."""

    def __init__(self):
        self.sent = self.unsent = 0
        self.may_reply = threading.Event()
        self.may_reply.set()

    def once(self, questions, pace, qpn=0, goes_on=lambda: True, dscp=0):
        while goes_on() and not self.may_reply.wait(0.01):
            pass
        self.sent += len(questions)
        return dict.fromkeys(questions, ROUTER)


class WireProber(Prober):
    """Keeps the bytes of its probes in `packets`, to which no router replies."""

    def __init__(self):
        self.sent = self.unsent = self._identification = 0
        self.packets, self._src_ip = [], IP
        self._out = self  # type: ignore[assignment]
        self._in, self._other = socket.socketpair()
        self._in.setblocking(False)

    def sendto(self, packet, address):
        self.packets.append(packet)

    def close(self):
        self._in.close()
        self._other.close()


class FakeController(rpc.ProbeServiceServicer):
    """Sends what is put into `orders`; `reports` are what the agent sends."""

    def __init__(self):
        self.orders, self.reports, self.sessions = asyncio.Queue(), asyncio.Queue(), 0
        self.leader = ""

    async def Attach(self, reports, context):
        if self.leader:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not the leader", ((LEADER, self.leader),))
        self.sessions += 1
        await context.send_initial_metadata(())
        reading = asyncio.create_task(self._read(reports))
        try:
            while (order := await self.orders.get()) is not None:
                yield order
        finally:
            reading.cancel()

    async def _read(self, reports):
        async for report in reports:
            await self.reports.put(report)

    async def report(self):
        async with asyncio.timeout(20):
            return await self.reports.get()


@asynccontextmanager
async def served():
    controller, server = FakeController(), grpc.aio.server()
    rpc.add_ProbeServiceServicer_to_server(controller, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield controller, f"127.0.0.1:{port}"
    finally:
        await controller.orders.put(None)
        await server.stop(0)


@asynccontextmanager
async def agent_of(address, prober=None):
    prober = prober or FakeProber()
    fast = Backoff(first_s=0.01, max_s=0.02)
    agent = ProbeAgent(address, "h1", {IP: ("eth0", prober)}, rate_pps=500, backoff=fast)
    running = asyncio.create_task(agent.run())
    try:
        yield agent, prober
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def order(number=1, src_ip="10.0.0.1", **more):
    asked = [pb.ProbeQuestion(dst_ip="10.0.0.2", port=50_000, ttl=2)]
    return pb.ProbeOrder(order_id=number, src_ip=src_ip, questions=asked, rate_pps=100, timeout_ms=100, **more)


async def test_an_agent_says_who_it_is_and_reports_what_it_saw():
    async with served() as (controller, address), agent_of(address):
        hello = (await controller.report()).hello
        assert (hello.host, [(nic.ip, nic.device) for nic in hello.nics]) == ("h1", [("10.0.0.1", "eth0")])
        assert hello.rate_pps == 500
        await controller.orders.put(order())
        replies = (await controller.report()).replies
        assert (replies.order_id, replies.sent, replies.refused) == (1, 1, "")
        assert [(each.question, each.router_ip) for each in replies.replies] == [(order().questions[0], "100.64.0.1")]


async def test_probes_carry_the_queue_pair_number_and_dscp_of_their_order():
    async with served() as (controller, address), agent_of(address, WireProber()) as (_, prober):
        await controller.report()
        for number, more in enumerate(({}, {"qpn": 0xABCDEF, "dscp": 26})):
            await controller.orders.put(order(number, **more))
            assert (await controller.report()).replies.sent == 1
        plain, marked = [IPv4(packet) for packet in prober.packets]
        assert (plain[BTH].dqpn, plain.tos) == (0, 0)
        assert (marked[BTH].dqpn, marked.tos) == (0xABCDEF, 26 << 2)
        prober.close()


async def test_an_order_of_a_foreign_address_is_refused_counted_and_named_once(caplog):
    async with served() as (controller, address), agent_of(address) as (agent, prober):
        await controller.report()
        for number in (1, 2):
            await controller.orders.put(order(number, "10.0.0.9"))
            replies = (await controller.report()).replies
            assert (replies.order_id, replies.sent) == (number, 0)
            assert replies.refused == "src_ip: 10.0.0.9 is no address of this agent"
        assert agent.counts["refused_orders"] == 2
        assert prober.sent == 0
        assert sum("an order is refused" in record.getMessage() for record in caplog.records) == 1


async def test_more_orders_than_may_wait_are_refused():
    async with served() as (controller, address), agent_of(address) as (_, prober):
        await controller.report()
        prober.may_reply.clear()
        for number in range(1, MAX_WAITING + 3):
            await controller.orders.put(order(number))
        refused = (await controller.report()).replies
        assert "orders wait for this NIC already" in refused.refused
        prober.may_reply.set()
        done = {(await controller.report()).replies.order_id for _ in range(MAX_WAITING + 1)}
        assert done == set(range(1, MAX_WAITING + 3)) - {refused.order_id}


async def test_an_agent_whose_session_ends_drops_its_orders_and_attaches_again():
    async with served() as (controller, address), agent_of(address) as (_, prober):
        await controller.report()
        prober.may_reply.clear()
        await controller.orders.put(order())
        await controller.orders.put(None)
        assert (await controller.report()).WhichOneof("report") == "hello"
        prober.may_reply.set()
        await controller.orders.put(order(2))
        assert (await controller.report()).replies.order_id == 2
        assert controller.sessions == 2


async def test_an_agent_follows_the_leader():
    async with served() as (follower, first), served() as (leader, second), agent_of(first):
        follower.leader = second
        assert (await leader.report()).hello.host == "h1"


def test_the_address_of_a_device_is_found():
    assert address_of("lo") == 0x7F000001


@pytest.mark.parametrize("device", ["no-such-device", "", "a" * 40])
def test_a_device_that_is_not_there_is_named(device):
    with (
        pytest.raises(DeviceError, match=repr(device) if not device or len(device) > 15 else device),
        probers([device]),
    ):
        pass


def test_the_missing_capability_is_named(monkeypatch):
    def refused(*arguments):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("heddle.probing.agent.devices.Prober", refused)
    with pytest.raises(DeviceError, match="CAP_NET_RAW"), probers(["lo"]):
        pass


def test_two_devices_of_one_address_are_refused(monkeypatch):
    monkeypatch.setattr("heddle.probing.agent.devices.Prober", lambda *arguments: _Closed())
    monkeypatch.setattr("heddle.probing.agent.devices.address_of", lambda device: IP)
    with (
        pytest.raises(DeviceError, match=r"eth1: eth0 has its address, 10\.0\.0\.1, already"),
        probers(["eth0", "eth1"]),
    ):
        pass


class _Closed:
    def __enter__(self):
        return self

    def __exit__(self, *fault):
        return None
