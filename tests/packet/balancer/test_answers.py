"""Full NAT counts by back end which TCP connections were opened, and which got data or a FIN from it."""

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from heddle.dataplane.balancer.compiler.numbering import MAX_BACK_ENDS
from heddle.dataplane.balancer.memory.state import Count
from tests.fakes.balancer_site import BALANCERS, HOST_B, VIP, VIP6, BalancerLoop, name_of, tunnelled
from tests.fakes.gateway.gateway_frames import dissected

pytestmark = pytest.mark.timeout(900)
ONE_TCP, ONE_TCP6 = BALANCERS[7], BALANCERS[8]


@pytest.fixture
def loop():
    return BalancerLoop()


def packet(vip, port, transport):
    network = IP(src="10.0.0.11", dst=str(vip)) if vip.version == 4 else IPv6(src="fd00::11", dst=str(vip))
    return tunnelled(network / transport(port), last=11)


def tcp(flags, data=b""):
    return lambda port: TCP(sport=port, dport=443, flags=flags) / Raw(data)


def arrived(loop, vip, port, transport):
    (frame,) = loop.through(packet(vip, port, transport))
    return dissected(bytes(frame))[VXLAN].payload.payload


def reply(loop, there, transport):
    back = type(there)(src=there.dst, dst=there.src) / transport
    return loop.through(tunnelled(back, host=HOST_B, last=int(there.dst.replace(":", ".").rsplit(".")[-1])))


def counted(loop, service):
    """Return what was counted, opened and answered, by back end of a service; of others nothing is."""
    found = {}
    for end in service.back_ends:
        row = loop.numbering.back_ends[name_of(service, end)] % MAX_BACK_ENDS
        found[str(end.ip)] = (loop.count(Count.OPENED + row), loop.count(Count.ANSWERED + row))
    assert loop.state.counters[Count.OPENED :].sum() == sum(map(sum, found.values()))
    return found


def counts(loop, service):
    opened, answered = zip(*counted(loop, service).values(), strict=True)
    return sum(opened), sum(answered)


@pytest.mark.parametrize(("vip", "service"), [(VIP, ONE_TCP), (VIP6, ONE_TCP6)])
@pytest.mark.parametrize(
    ("flags", "data", "answers"),
    [("A", b"220 ready", 1), ("FA", b"", 1), ("PA", b"x", 1), ("A", b"", 0), ("RA", b"", 0), ("R", b"gone", 0)],
)
def test_only_data_and_a_fin_of_the_back_end_are_an_answer(loop, vip, service, flags, data, answers):
    there = arrived(loop, vip, 2000, tcp("S"))
    own = {"sport": 8443, "dport": there[TCP].sport}
    reply(loop, there, TCP(**own, flags="SA", options=[("MSS", 1000)]))
    loop.through(packet(vip, 2000, tcp("A")), packet(vip, 2000, tcp("PA", b"GET / ")))
    reply(loop, there, TCP(**own, flags="A", options=[("Timestamp", (1, 2))]))
    assert counts(loop, service) == (1, 0)
    for _ in range(3):
        reply(loop, there, TCP(**own, flags=flags) / Raw(data))
    assert counts(loop, service) == (1, answers)


def test_the_answer_is_counted_at_the_back_end_that_got_the_connection(loop):
    rows = {}
    for port in range(3000, 3030):
        there = arrived(loop, VIP, port, tcp("S"))
        rows[there.dst] = rows.get(there.dst, 0) + 1
        reply(loop, there, TCP(sport=8443, dport=there[TCP].sport, flags="FA"))
    assert len(rows) == 3
    assert counted(loop, ONE_TCP) == {ip: (count, count) for ip, count in rows.items()}


def test_a_syn_that_is_sent_again_opens_one_connection(loop):
    for _ in range(4):
        arrived(loop, VIP, 2000, tcp("S"))
    assert counts(loop, ONE_TCP) == (1, 0)


def test_datagrams_and_direct_return_are_not_counted(loop):
    there = arrived(loop, VIP, 2000, lambda port: UDP(sport=port, dport=123) / Raw(b"x"))
    reply(loop, there, UDP(sport=1123, dport=there[UDP].sport) / Raw(b"y"))
    arrived(loop, VIP, 2000, lambda port: TCP(sport=port, dport=80, flags="S"))
    assert not loop.state.counters[Count.OPENED :].any()
