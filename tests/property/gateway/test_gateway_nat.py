"""NAT under any order of packets obeys RFC 4787: one mapping per endpoint, parity, ranges, no port allocated twice."""

import itertools
import struct

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from heddle.dataplane.config.local import Limits
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.tables.schema import EXTERNAL
from tests.fakes.gateway.gateway_tables import EXTERNAL_PORT, FakeRule, FakeVpc, make_tables
from tests.fakes.gateway.state_bench import Passed, StateBench, hop_of
from tests.oracles.inet_checksum import echo, faults, ip, read, tcp, udp
from tests.support.examples import examples

pytestmark = pytest.mark.timeout(900)  # the first test compiles the kernels


PUBLIC = "198.51.100.7"
FIRST, LAST = 1022, 1030
"""Nine ports: they run out."""
LIMITS = Limits(connections=1 << 8, mappings=1 << 7, fragments=16)
INSIDE = st.sampled_from([(5, "10.0.0.1"), (5, "10.0.0.2"), (6, "10.0.0.1")])
PORTS = st.sampled_from([2, 3, 1022, 1023, 1024, 1025, 1029, 40000, 40001])
FAR = st.sampled_from([("8.8.8.8", 53), ("8.8.8.8", 443), ("9.9.9.9", 53)])
OPEN = (FakeRule(protocol=17, remote="9.9.9.0/24"), FakeRule(remote="198.51.100.0/24"))


def vpc(vni, rules_in=()):
    return FakeVpc(
        vni,
        endpoints=("10.0.0.1", "10.0.0.2"),
        routes={"0.0.0.0/0": EXTERNAL},
        nat=PUBLIC,
        nat_ports=(FIRST, LAST),
        rules_in=rules_in,
    )


def opening(protocol, address, port, far):
    if protocol == 1:
        return echo(address, far[0], port)
    return (udp if protocol == 17 else tcp)(address, port, far[0], far[1])


class NatMachine(RuleBasedStateMachine):
    """Two VPCs with equal addresses behind one public address; one accepts some connections from outside."""

    def __init__(self):
        super().__init__()
        self.bench = StateBench(make_tables([vpc(5, OPEN), vpc(6)]), LIMITS)
        self.mapped = {}  # (protocol, vni, address, port) -> public port
        self.open = {}  # (protocol, vni, address, port, far) -> nothing
        self.spoke = set()  # (mapping, mapping): which inside endpoint has sent to which other
        self.awaits = set()  # the same where the other's rules denied it: it may come back
        self.was_full = False  # what awaits may have given way

    def public_ports(self, protocol):
        return {port for (other, *_), port in self.mapped.items() if other == protocol}

    @rule(inside=INSIDE, port=PORTS, far=FAR, protocol=st.sampled_from([6, 17, 1]))
    def leave(self, inside, port, far, protocol):
        vni, address = inside
        if protocol == 1:
            far = (far[0], port)
        passed = self.bench.one(opening(protocol, address, port, far), vni)
        mapping = (protocol, vni, address, port)
        if passed == Drop.PORTS_EXHAUSTED:
            assert mapping not in self.mapped
            self.was_full = True
            free = set(range(FIRST if port < 1024 or protocol == 1 else 1024, LAST + 1)) - self.public_ports(protocol)
            assert not free
            return
        source, public, *rest = read(passed.packet)
        assert (source, faults(passed.packet)) == (PUBLIC, [])
        assert rest == [far[0], public if protocol == 1 else far[1]]
        if mapping not in self.mapped:
            self.check_new(protocol, port, public)
        assert self.mapped.setdefault(mapping, public) == public
        self.open[*mapping, far] = None
        self.make_live(protocol, vni, address, port, far, public)

    def make_live(self, protocol, vni, address, port, far, public):
        """Reply, and send once more: a live connection gives way to no other."""
        if protocol == 1:
            reply, again = echo(far[0], PUBLIC, public, reply=True), echo(address, far[0], port)
        elif protocol == 6:
            reply, again = tcp(far[0], far[1], PUBLIC, public, "SA"), tcp(address, port, far[0], far[1], "A")
        else:
            reply, again = udp(far[0], far[1], PUBLIC, public), udp(address, port, far[0], far[1])
        assert isinstance(self.bench.one(reply, 0, EXTERNAL_PORT), Passed)
        assert isinstance(self.bench.one(again, vni), Passed)

    def check_new(self, protocol, port, public):
        taken = self.public_ports(protocol)
        assert FIRST <= public <= LAST
        assert public not in taken
        if protocol != 1:
            assert port < 1024 or public >= 1024
        in_range = range(1024 if port >= 1024 and protocol != 1 else FIRST, LAST + 1)
        if port in in_range and port not in taken:
            assert public == port
        preferred = range(FIRST, 1024) if port < 1024 and protocol != 1 else in_range
        if any(other % 2 == port % 2 and other not in taken for other in preferred):
            assert public % 2 == port % 2

    @rule(data=st.data())
    def send_reply(self, data):
        if not self.open:
            return
        protocol, vni, address, port, far = data.draw(st.sampled_from(sorted(self.open)))
        public = self.mapped[protocol, vni, address, port]
        if protocol == 1:
            packet = echo(far[0], PUBLIC, public, reply=True)
        elif protocol == 6:
            packet = tcp(far[0], far[1], PUBLIC, public, "SA")
        else:
            packet = udp(far[0], far[1], PUBLIC, public)
        passed = self.bench.one(packet, 0, EXTERNAL_PORT)
        assert passed.hop == hop_of(self.bench.tables, vni, address)
        assert read(passed.packet) == (far[0], port if protocol == 1 else far[1], address, port)
        assert faults(passed.packet) == []

    @rule(public=st.integers(FIRST, LAST), remote=st.sampled_from(["9.9.9.77", "7.7.7.7"]))
    def another_remote_host_sends(self, public, remote):
        fate = self.bench.one(udp(remote, 999, PUBLIC, public), 0, EXTERNAL_PORT)
        holder = [key for key, port in self.mapped.items() if port == public and key[0] == 17]
        if not holder:
            assert fate == Drop.NO_MAPPING
        elif holder[0][1] == 5 and remote.startswith("9.9.9."):
            assert read(fate.packet) == (remote, 999, *holder[0][2:])
            self.open[*holder[0], (remote, 999)] = None
        else:
            assert fate == Drop.DENIED_IN

    @rule(inside=INSIDE, port=PORTS, public=st.integers(FIRST, LAST))
    def hairpin(self, inside, port, public):
        vni, address = inside
        holder = [key for key, other in self.mapped.items() if other == public and key[0] == 17]
        mapping = (17, vni, address, port)
        if holder and holder[0][1] != 5 and mapping not in self.mapped:
            return
        fate = self.bench.one(udp(address, port, PUBLIC, public), vni)
        if not holder:
            assert fate == Drop.NO_MAPPING
            return
        if holder[0][1] != 5 and (holder[0], mapping) in self.spoke:
            assert read(fate.packet) == (PUBLIC, self.mapped[mapping], *holder[0][2:])  # a reply
            return
        if holder[0][1] != 5:
            self.knocked(fate, mapping, holder[0])
            return
        if holder[0][1:] == (vni, address, port):
            assert fate == Drop.MARTIAN  # its own reply
            return
        if not isinstance(fate, Passed):
            assert fate == Drop.PORTS_EXHAUSTED
            self.was_full = True
            return
        source, seen, *rest = read(fate.packet)
        assert (source, tuple(rest), faults(fate.packet)) == (PUBLIC, holder[0][2:], [])
        if mapping not in self.mapped:
            self.check_new(17, port, seen)
        assert self.mapped.setdefault(mapping, seen) == seen
        self.spoke.add((mapping, holder[0]))
        back = self.bench.one(udp(holder[0][2], holder[0][3], PUBLIC, seen), 5)
        assert read(back.packet) == (PUBLIC, public, address, port)
        assert isinstance(self.bench.one(udp(address, port, PUBLIC, public), vni), Passed)

    def knocked(self, fate, mapping, holder):
        """Check a packet that the holder's rules deny: it passes if the holder has sent to its sender before."""
        if mapping == holder:
            assert fate == Drop.DENIED_IN
        elif (mapping, holder) in self.spoke:
            assert isinstance(fate, Passed)
        elif isinstance(fate, Passed):
            assert (holder, mapping) in self.awaits
            assert read(fate.packet) == (PUBLIC, self.mapped[mapping], *holder[2:])
            self.awaits.discard((holder, mapping))
            self.spoke.add((mapping, holder))
            (_, vni, address, port), (_, other, far, far_port) = mapping, holder
            back = self.bench.one(udp(far, far_port, PUBLIC, self.mapped[mapping]), other)
            assert read(back.packet) == (PUBLIC, self.mapped[holder], address, port)
            assert isinstance(self.bench.one(udp(address, port, PUBLIC, self.mapped[holder]), vni), Passed)
        else:
            assert fate == Drop.DENIED_IN
            assert (holder, mapping) not in self.awaits or self.was_full
            self.awaits.add((mapping, holder))

    @rule()
    def all_mappings_time_out_within_a_day(self):
        for _ in range(4):
            self.bench.now_ns += 86_400 * 10**9
            age(self.bench.tables, self.bench.state, self.bench.now_ns)
        self.mapped.clear()
        self.open.clear()
        self.spoke.clear()
        self.awaits.clear()

    @invariant()
    def the_state_holds_the_models_mappings(self):
        rows = self.bench.state.mappings
        rows = rows[rows["key"] != 0]
        held = {(int(row["key"]) >> 24 & 0xFF, int(row["public_port"])) for row in rows}
        assert held == {(key[0], port) for key, port in self.mapped.items()}
        assert len(rows) == len(self.mapped)


@pytest.mark.parametrize(("request_kind", "reply_kind"), [(8, 0), (13, 14), (15, 16), (17, 18)])
def test_only_icmp_requests_open_connections_and_their_replies_match(request_kind, reply_kind):
    bench = StateBench(make_tables([vpc(5)]), LIMITS)
    bench.one(query(request_kind, "10.0.0.2", "8.8.8.8", 1025), 5)
    passed = bench.one(query(request_kind, "10.0.0.1", "8.8.8.8", 1025), 5)
    identifier = read(passed.packet)[1]
    assert (read(passed.packet)[0], identifier != 1025, faults(passed.packet)) == (PUBLIC, True, [])
    back = bench.one(query(reply_kind, "8.8.8.8", PUBLIC, identifier), 0, EXTERNAL_PORT)
    assert back.packet == query(reply_kind, "8.8.8.8", "10.0.0.1", 1025)
    for kind in set(range(256)) - {8, 13, 15, 17, 3, 4, 5, 11, 12}:
        assert bench.one(query(kind, "10.0.0.1", "9.9.9.9", 1), 5) == Drop.NO_STATE


def query(kind, source, target, identifier):
    return ip(source, target, 1, struct.pack("!BBHHH", kind, 0, 0, identifier, 1) + bytes(12))


def chosen(seed, count):
    """Return the public ports of `count` endpoints that all use the same inside port."""
    addresses = [f"10.0.{number >> 8}.{number & 255}" for number in range(1, count + 1)]
    many = FakeVpc(5, endpoints=tuple(addresses), routes={"0.0.0.0/0": EXTERNAL}, nat=PUBLIC)
    bench = StateBench(make_tables([many]), Limits(connections=1 << 9, mappings=1 << 9, fragments=16))
    bench.state.counts[SEED] = seed
    passed = [bench.one(udp(address, 5000, "8.8.8.8", 53), 5) for address in addresses]
    return [read(each.packet)[1] for each in passed][1:]


def test_allocated_ports_depend_on_the_gateways_secret():
    some, others = chosen(1, 300), chosen(-(1 << 62), 300)
    assert some == chosen(1, 300)
    assert len(set(some) & set(others)) < 20
    assert {port % 2 for port in some} == {0}
    for ports in (some, others):
        assert len({port >> 10 for port in ports}) > 55  # of 63: spread over the whole range
        assert len({port & 63 for port in ports}) == 32  # and over the bits of the searched words
        assert sum(b > a for a, b in itertools.pairwise(ports)) in range(100, 200)


TestNat = NatMachine.TestCase
TestNat.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
