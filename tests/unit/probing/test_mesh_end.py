"""The end of the ping mesh at a NIC: it sends what was ordered, replies to others, and takes replies to its own."""

import asyncio
import errno
import ipaddress
from dataclasses import dataclass, field

from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from heddle.controller.model.rule import PROBE_PORT
from heddle.probing.agent import end, mesh
from heddle.probing.agent.end import UNSENT_US
from heddle.probing.agent.mesh import MeshEnd
from heddle.probing.agent.orders import MeshOrder, MeshProbe
from heddle.probing.datagram import MESH_PORT, Datagram, Kind, datagram_in, packet

A, B = 0x0A000001, 0x0A000002
DSCP = 26


@dataclass
class Wire:
    """A network of ends in one process; `lost` says of each packet whether it is lost."""

    ends: dict[int, "WireEnd"] = field(default_factory=dict)
    packets: list[IP] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    """UDP source ports from which nothing arrives."""

    def end(self, ip: int) -> "WireEnd":
        self.ends[ip] = WireEnd(ip, self)
        return self.ends[ip]


class WireEnd(MeshEnd):
    """An end whose sockets are a wire."""

    def __init__(self, ip: int, wire: Wire):
        self.wire, self.inbox, self.refuses = wire, [], False
        super().__init__(ip, "eth0")

    def _sockets(self, device):
        return self, self

    def sendto(self, sent, address):
        if self.refuses:
            raise OSError(errno.ENETUNREACH, "no route")
        parsed = IP(sent)
        self.wire.packets.append(parsed)
        peer = self.wire.ends.get(int(ipaddress.IPv4Address(parsed.dst)))
        if parsed.sport not in self.wire.lost and peer is not None:
            peer.arrive(bytes(parsed[UDP].payload), parsed.src)

    def arrive(self, payload: bytes, source: str) -> None:
        self.inbox.append((payload, (source, MESH_PORT)))
        self._read()

    def recvfrom(self, size):
        if not self.inbox:
            raise BlockingIOError
        return self.inbox.pop(0)

    def close(self):
        pass


def order(*probes: MeshProbe, timeout_s=0.01) -> MeshOrder:
    return MeshOrder(1, A, probes, 10_000.0, timeout_s, DSCP)


async def test_requests_and_replies_leave_from_the_ordered_ports_with_the_data_s_dscp():
    wire = Wire()
    a, b = wire.end(A), wire.end(B)
    found = await a.run(order(MeshProbe(B, 50_000, 60_000), MeshProbe(B, 50_001, 60_001), timeout_s=0.3))
    assert (found.sent, found.late, min(found.rtt_us) > 0) == (2, False, True)
    seen = [(each.src, each.dst, each.sport, each.dport, each.tos >> 2, each.chksum) for each in wire.packets]
    assert [each[:5] for each in seen] == [
        ("10.0.0.1", "10.0.0.2", 50_000, MESH_PORT, DSCP), ("10.0.0.2", "10.0.0.1", 60_000, MESH_PORT, DSCP),
        ("10.0.0.1", "10.0.0.2", 50_001, MESH_PORT, DSCP), ("10.0.0.2", "10.0.0.1", 60_001, MESH_PORT, DSCP),
    ]  # fmt: skip
    assert all(each.len == len(bytes(each)) and each[UDP].len == each.len - 20 for each in wire.packets)
    assert (a.counts["mesh_answered"], b.counts["mesh_replies"]) == (2, 2)


async def test_a_probe_is_lost_if_its_request_or_its_reply_is_and_not_sent_if_the_kernel_refuses():
    wire = Wire(lost={50_000, 60_001})
    a, b = wire.end(A), wire.end(B)
    probes = [MeshProbe(B, 50_000 + number, 60_000 + number) for number in range(3)]
    found = await a.run(order(*probes))
    assert [rtt > 0 for rtt in found.rtt_us] == [False, False, True]
    assert b.counts["mesh_replies"] == 2
    a.refuses = True
    assert (await a.run(order(*probes))).rtt_us == [UNSENT_US] * 3


async def test_a_reply_that_comes_before_the_end_counts_however_late():
    wire = Wire(lost={60_000})
    a = wire.end(A)
    wire.end(B)
    running = asyncio.create_task(a.run(order(MeshProbe(B, 50_000, 60_000), timeout_s=0.1)))
    while len(wire.packets) < 2:
        await asyncio.sleep(0.001)
    a.inbox.append((bytes(wire.packets[1][UDP].payload), ("10.0.0.2", MESH_PORT)))  # not read before the end
    assert (await running).rtt_us[0] > 0


async def test_an_agent_that_stood_still_says_so(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(end, "monotonic", lambda: clock[0])
    wire = Wire()
    a = wire.end(A)
    wire.end(B)
    monkeypatch.setattr(wire.ends[B], "arrive", lambda payload, source: clock.__setitem__(0, clock[0] + 1.0))
    assert (await a.run(order(*[MeshProbe(B, 50_000, 60_000)] * 2))).late


async def test_replies_that_were_not_asked_for_and_other_datagrams_are_counted_and_change_nothing():
    wire = Wire(lost={60_000})
    a = wire.end(A)
    wire.end(B)
    running = asyncio.create_task(a.run(order(MeshProbe(B, 50_000, 60_000), timeout_s=0.05)))
    while len(wire.packets) < 2:
        await asyncio.sleep(0.001)
    reply = datagram_in(bytes(wire.packets[1][UDP].payload))
    assert reply is not None
    for source, forged in (
        ("10.0.0.9", reply), ("10.0.0.2", reply._replace(key=reply.key ^ 1)), ("10.0.0.2", reply._replace(number=7)),
    ):  # fmt: skip
        a.arrive(packet(B, A, 60_000, forged)[28:], source)
    for payload in (b"", b"HDM1", bytes(20), packet(B, A, 60_000, reply._replace(reply_port=80))[28:]):
        a.arrive(payload, "10.0.0.2")
    assert (await running).rtt_us == [0]
    assert (a.counts["mesh_unasked"], a.counts["mesh_malformed"]) == (3, 4)


async def test_a_flood_of_requests_is_answered_in_part(monkeypatch):
    monkeypatch.setattr(mesh, "MAX_REPLIES_PPS", 5)
    monkeypatch.setattr(mesh, "monotonic", lambda: 7.5)
    wire = Wire()
    b = wire.end(B)
    request = packet(A, B, 50_000, Datagram(Kind.REQUEST, DSCP, 60_000, 1, 1))[28:]
    for _ in range(20):
        b.arrive(request, "10.0.0.1")
    assert (b.counts["mesh_replies"], b.counts["mesh_unanswered"]) == (5, 15)


def test_a_datagram_is_what_scapy_reads():
    sent = Datagram(Kind.REQUEST, DSCP, 60_000, 2**63 + 1, 77)
    parsed = IP(packet(A, B, 50_000, sent))
    assert (parsed.src, parsed.dst, parsed.ttl, parsed[UDP].sport, parsed[UDP].dport) == (
        "10.0.0.1", "10.0.0.2", 64, 50_000, MESH_PORT,
    )  # fmt: skip
    assert datagram_in(bytes(parsed[Raw])) == sent


def test_switches_steer_the_port_on_which_agents_listen():
    assert PROBE_PORT == MESH_PORT
