"""A pair whose link was cut keeps what both members opened meanwhile: real heartbeats, copies, kernels and slow paths.

The members exchange heartbeats and records on the loopback, through a link that the test cuts.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.config.local import PortShare
from heddle.dataplane.config.pair import PairConfig, Path
from heddle.dataplane.control.pair.duties import PairWork, on_duty, work_of
from heddle.dataplane.control.pair.ownership import Serve
from heddle.dataplane.control.pairing import Pairing
from heddle.dataplane.control.slow.slow_path import Outcome
from heddle.dataplane.elements.memory.exchange import empty_exchange
from heddle.dataplane.gateway.memory.exchange import exchange
from tests.fakes.gateway.gateway_frames import RED_11, arriving, inner, tunnelled
from tests.fakes.gateway.gateway_site import EXTERNAL, HOST_B, LOCAL, UNDERLAY
from tests.fakes.gateway.pair_ports import pair_of
from tests.fakes.gateway.whole_gateway import WholeGateway
from tests.support.free_ports import free_ports

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels
TENANT, FAR = "10.0.0.11", "198.51.100.7"
SHARES = {"a": PortShare(first=1024, last=30_000), "b": PortShare(first=30_001, last=60_000)}


class Link:
    """The network between the two: heartbeats pass while `hears` is set, copies of connections while `copies` is."""

    def __init__(self) -> None:
        self.hears, self.copies, self.forwarded = threading.Event(), asyncio.Event(), 0
        self._ports, self._servers = free_ports(4), list[asyncio.Server]()
        self._udp = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for side, each in enumerate(self._udp):
            each.bind(("127.0.0.1", self._ports[2 + side]))

    def pair(self, me: str, partner: str) -> PairConfig:
        """Return a member's configuration: its own port, and the link's in place of its partner's."""
        own, far = (f"127.0.0.1:{self._ports[at + (0 if me == 'a' else 1)]}" for at in (0, 2))
        return PairConfig(partner_id=partner, paths=(Path(listen=own, partner=far),), key=b"key")

    async def run(self) -> None:
        """Listen in place of the partner of each."""
        for side, each in enumerate(self._udp):
            threading.Thread(target=self._forward, args=(each, 1 - side), daemon=True).start()
            server = await asyncio.start_server(partial(self._connected, 1 - side), *each.getsockname())
            self._servers.append(server)

    def close(self) -> None:
        """Stop forwarding."""
        for server in self._servers:
            server.close()
        for each in self._udp:
            with suppress(OSError):  # it has no other end, but wakes the thread
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _forward(self, arrives: socket.socket, to: int) -> None:
        """Forward heartbeats until closed; in a thread, so that work of the test delays none."""
        with suppress(OSError):
            while data := arrives.recv(1 << 12):
                if self.hears.is_set():
                    self._udp[to].sendto(data, ("127.0.0.1", self._ports[to]))
                    self.forwarded += 1

    async def _connected(self, to: int, reader: Any, writer: Any) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._ports[to])
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: Any, writer: Any) -> None:
        with closing(writer):
            while data := await reader.read(1 << 16):
                await self.copies.wait()
                writer.write(data)


class Member:
    """A gateway of the pair: data process and slow path in memory, and what `Pairing` needs of the rest."""

    def __init__(self, me: str, pair: PairConfig) -> None:
        self.local, self.pair = replace(LOCAL, gateway_id=me, nat_ports=SHARES[me]), pair
        self.gateway, self.between = WholeGateway(local=self.local), empty_exchange()
        self.activity, self.generation = asyncio.Event(), 1
        supervisor = SimpleNamespace(
            shared=SimpleNamespace(exchange=self.between), changed=asyncio.Event(), ends=0, hangs=False,
            forwards=lambda: True,
        )  # fmt: skip
        fake: Any = SimpleNamespace(
            local=self.local, supervisor=supervisor, slow=self.gateway.path, activity=self.activity, pair_status=None,
            set_work=self.set_work, in_use=self.in_use, send=lambda effects: None,
        )  # fmt: skip
        self.set_work(work_of(self.local, pair, frozenset()))
        self.pairing = Pairing(fake, pair)

    def set_work(self, work: PairWork) -> int:
        self.generation += 1
        self.gateway.loop.tables = on_duty(self.gateway.loop.tables, work, self.generation)
        self.gateway.path.set_duty(work.duty)
        return self.generation

    async def in_use(self, generation: int) -> None:
        assert generation == self.generation

    async def exchange(self) -> None:
        """Exchange records, as the data process does between bursts."""
        while True:
            exchange(self.gateway.loop.tables, self.gateway.loop.state, self.between, time.monotonic_ns())
            self.activity.set()
            await asyncio.sleep(0.003)

    @property
    def status(self) -> Any:
        return self.pairing.status()

    def knows(self, flow: "Flow") -> bool:
        return int(flow.sport) in {int(key) >> 48 & 0xFFFF for key in self.gateway.loop.state.connections["key"]}


class Flow:
    """A connection of a tenant to a host outside, opened through one member."""

    def __init__(self, member: Member, sport: int) -> None:
        self.sport, self.public = sport, 0
        (frame,) = self._out(member, flags="S", seq=100, ack=0)[EXTERNAL]
        self.public = Ether(frame)[TCP].sport
        self._back(member, flags="SA", seq=900, ack=101)
        self._out(member, flags="A", seq=101, ack=901)

    def _out(self, member: Member, **fields: Any) -> dict[int, list[bytes]]:
        segment = TCP(sport=self.sport, dport=443, **fields) / Raw(b"" if "S" in fields["flags"] else b"request")
        return member.gateway.through(
            UNDERLAY, tunnelled(inner(IP(src=TENANT, dst=FAR) / segment, source=RED_11), host=HOST_B)
        )

    def _back(self, member: Member, **fields: Any) -> dict[int, list[bytes]]:
        packet = IP(src=FAR, dst="203.0.113.10") / TCP(sport=443, dport=self.public, **fields)
        return member.gateway.through(EXTERNAL, arriving(EXTERNAL, packet))

    def passes(self, member: Member) -> bool:
        """Return whether segments of both sides pass through a member, with the public port of the first one."""
        out = self._out(member, flags="PA", seq=101, ack=901).get(EXTERNAL, [])
        back = self._back(member, flags="A", seq=901, ack=108).get(UNDERLAY, [])
        return [Ether(frame)[TCP].sport for frame in out] == [self.public] and [
            Ether(frame)[VXLAN].payload[TCP].dport for frame in back
        ] == [self.sport]

    def vanishes(self, member: Member) -> bool:
        """Return whether no segment passes through a member, and none is answered."""
        return not self._out(member, flags="PA", seq=101, ack=901) and not self._back(member, flags="A", seq=901, ack=8)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


async def reunion() -> None:
    link = Link()
    a, b = Member("a", link.pair("a", "b")), Member("b", link.pair("b", "a"))
    await link.run()
    link.hears.set()
    link.copies.set()
    for each in (a, b):  # the kernels are compiled or loaded before time matters
        exchange(each.gateway.loop.tables, each.gateway.loop.state, each.between, time.monotonic_ns())
        assert each.gateway.through(UNDERLAY, tunnelled(b"")) == {}
    tasks = [asyncio.create_task(work) for each in (a, b) for work in (each.pairing.run(), each.exchange())]
    try:
        await until(lambda: a.generation > 2 and a.status.partner_has_copy and not b.status.serves)
        old = Flow(a, 5000)
        await until(lambda: b.knows(old))
        link.hears.clear()
        link.copies.clear()
        await until(lambda: b.status.serves == ("a",) and b.generation > 2)
        flows = {a: Flow(a, 6000), b: Flow(b, 7000)}
        assert old.passes(a)
        assert old.passes(b)
        assert flows[a].vanishes(b)  # neighbours send to whom they heard last, and each may belong to the other member
        assert flows[b].vanishes(a)
        link.hears.set()
        await until(lambda: all(each.status.partner_serves == ("a",) for each in (a, b)))
        enough = link.forwarded + 20
        await until(lambda: link.forwarded >= enough)
        assert a.status.serves == b.status.serves == ("a",)  # until the connections are copied
        assert flows[a].vanishes(b)
        assert flows[b].vanishes(a)
        assert [each.gateway.path.outcomes[Outcome.AWAITS_COPY] for each in (a, b)] == [4, 4]
        link.copies.set()
        await until(lambda: a.status.partner_serves == b.status.serves == ())
        assert (a.status.serves, b.status.conflicts) == (("a",), 1)
        assert old.passes(a)
        assert all(flow.passes(a) for flow in flows.values())
        assert Outcome.SENT_RESET not in a.gateway.path.outcomes
        unknown = Flow.__new__(Flow)
        unknown.sport, unknown.public = 8000, 1111
        assert not unknown.vanishes(a)  # now its sender gets a RST
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        link.hears.clear()
        for each in (a, b):
            await each.pairing.leave()
        link.close()


async def certainty():
    member = Member("a", pair_of()["a"])
    beats, may_act = member.pairing._heartbeats, member.pairing._may_act
    try:
        assert may_act()
        beats.status = replace(beats.status, holds=frozenset({"a"}), turned_ns=time.monotonic_ns())
        assert not may_act()  # decided, and not carried out
        carrying_out = asyncio.create_task(member.pairing._carry_out())
        member.pairing._decided(Serve(frozenset({"a"})))
        async with asyncio.timeout(20):
            while not may_act():
                await asyncio.sleep(0.01)
                beats.status = replace(beats.status, turned_ns=time.monotonic_ns())
        carrying_out.cancel()
        beats.status = replace(beats.status, turned_ns=time.monotonic_ns() - 10_000_000_000)
        assert not may_act()  # the process was suspended: heartbeats of meanwhile are not read yet
    finally:
        beats._close()


def test_a_gateway_acts_once_its_decision_is_carried_out_and_while_heartbeats_are_read():
    asyncio.run(certainty())


def test_a_reunion_after_a_cut_keeps_what_either_member_opened_meanwhile():
    asyncio.run(reunion())
