"""What ports hear is reported once; what is forged, replayed, sent by a host or too much changes nothing."""

import asyncio
import itertools
import struct

import pytest

from heddle.controller.model.cabling import Peer
from heddle.controller.model.event import Heard
from heddle.controller.model.fabric import PortRef
from heddle.controller.southbound.codec.packets import packet_in
from heddle.controller.southbound.lldp.allowance import Allowance
from heddle.controller.southbound.lldp.discovery import (
    GATHER_S,
    MAX_PORTS,
    PER_PORT_BURST,
    PER_PORT_S,
    PER_SWITCH_BURST,
    RESTING_BURST,
    Discovery,
)
from heddle.controller.southbound.lldp.frame import Origin, frame
from heddle.controller.southbound.lldp.rounds import Rounds
from tests.unit.brain.driver import small_fabric

KEY = bytes(range(32))
SPINE1_1 = PortRef("spine1", 1)


class Site:
    """A discovery of a small fabric with two connected switches; its clock is set by hand."""

    def __init__(self):
        self.now_s = 100.0
        self.fabric = small_fabric()
        self.reports = []
        self.has_room = True
        self.sent = {"leaf1": bytearray(), "spine1": bytearray()}
        self.discovery = Discovery(self.fabric, KEY, self.post, lambda: self.now_s)
        for switch in self.sent:
            self.discovery.switch_up(switch, dict.fromkeys(range(1, 5), True), Sender(self.sent[switch]))
        self.epoch = 0

    def post(self, event):
        if self.has_room:
            self.reports.append(event)
        return self.has_room

    def origin(self, switch, port):
        return Origin(self.fabric.switch_by_id[switch].datapath_id, port, self.epoch)

    def arrives(self, switch, port, data):
        """Let a switch send a packet to the controller; return what became of it."""
        before = self.discovery.counts.copy()
        self.discovery.packet_in(switch, message(port, data))
        (found,) = self.discovery.counts - before
        return found

    def frames(self):
        """Return the switch and the port of each frame that was sent since the last call."""
        found = []
        for switch, content in self.sent.items():
            at = 0
            while at < len(content):
                kind, length = struct.unpack_from("!xBH", content, at)
                if kind == 13:
                    found.append(PortRef(switch, struct.unpack_from("!I", content, at + 28)[0]))
                at += length
            content.clear()
        return found


class Sender:
    def __init__(self, content):
        self.content = content

    def write(self, data):
        self.content += data


def message(port, data):
    match = struct.pack("!HHII4x", 1, 12, 0x80000004, port)
    body = struct.pack("!IHBBQ", 0xFFFFFFFF, len(data), 1, 0, 0) + match + b"\0\0" + data
    return struct.pack("!BBHI", 4, 10, 8 + len(body), 0) + body


@pytest.fixture
async def site():
    return Site()


async def reported(site):
    await asyncio.sleep(GATHER_S * 1.5)
    return [each.changes for each in site.reports]


def test_messages_of_this_test_are_read():
    assert packet_in(message(7, b"abc")) == (7, b"abc")


async def test_what_a_port_hears_is_reported_once(site):
    data = frame(KEY, site.origin("leaf1", 1))
    assert site.arrives("spine1", 1, data) == "heard"
    assert site.arrives("spine1", 1, data) == "heard"
    assert await reported(site) == [{SPINE1_1: Peer("leaf1", 1)}]


async def test_a_port_that_goes_down_forgets_what_it_has_heard(site):
    site.arrives("spine1", 1, frame(KEY, site.origin("leaf1", 1)))
    await reported(site)
    site.discovery.port_changed("spine1", 1, False)
    assert site.arrives("spine1", 1, frame(KEY, site.origin("leaf1", 1))) == "no_port"
    assert (await reported(site))[1:] == [{SPINE1_1: None}]


async def test_a_session_that_ends_leaves_what_was_heard(site):
    site.arrives("spine1", 1, frame(KEY, site.origin("leaf1", 1)))
    await reported(site)
    site.discovery.switch_down("spine1")
    assert site.arrives("spine1", 1, frame(KEY, site.origin("leaf2", 1))) == "no_port"
    site.discovery.switch_up("spine1", {1: True, 2: False}, Sender(site.sent["spine1"]))
    assert len(await reported(site)) == 1


@pytest.mark.parametrize(
    ("switch", "port", "key", "age", "result"),
    [
        ("spine1", 1, bytes(32), 0, "forged"),
        ("spine1", 1, KEY, 4, "replayed"),
        ("spine1", 1, KEY, -1, "replayed"),
        ("leaf1", 3, KEY, 0, "of_host"),
        ("leaf1", 9, KEY, 0, "no_port"),
        ("leaf4", 1, KEY, 0, "no_port"),
    ],
)
async def test_what_is_not_ours_of_now_or_at_the_wrong_place_changes_nothing(site, switch, port, key, age, result):
    site.now_s += 10
    site.epoch = 10 - age
    assert site.arrives(switch, port, frame(key, site.origin("leaf1", 1))) == result
    assert await reported(site) == []


@pytest.mark.parametrize("data", [b"", bytes(64), b"\xff" * 64_000, frame(KEY, Origin(99, 1, 0))])
async def test_other_frames_are_not_read(site, data):
    assert site.arrives("spine1", 1, data) == "foreign"
    assert await reported(site) == []


async def test_a_port_that_floods_is_heard_within_its_budget_and_harms_no_other(site):
    data = frame(KEY, site.origin("leaf1", 1))
    results = [site.arrives("spine1", 1, data) for _ in range(1_000)]
    assert results.count("heard") == PER_PORT_BURST
    assert results.count("over_budget") == 1_000 - PER_PORT_BURST
    assert site.arrives("spine1", 2, frame(KEY, site.origin("leaf2", 1))) == "heard"


async def test_all_ports_of_a_switch_together_have_a_budget(site):
    ports = range(1, MAX_PORTS + 1)
    site.discovery.switch_up("spine1", dict.fromkeys(range(1, MAX_PORTS + 100), True), Sender(bytearray()))
    results = [site.arrives("spine1", port, bytes(80)) for port in ports for _ in range(2)]
    assert results.count("over_budget") == 2 * MAX_PORTS - PER_SWITCH_BURST
    assert site.arrives("spine1", MAX_PORTS + 1, bytes(80)) == "no_port"


async def test_where_the_inbox_is_full_the_report_comes_later(site):
    site.has_room = False
    site.arrives("spine1", 1, frame(KEY, site.origin("leaf1", 1)))
    assert await reported(site) == []
    site.has_room = True
    assert await reported(site) == [{SPINE1_1: Peer("leaf1", 1)}]


async def test_frames_leave_all_ports_without_a_nic_and_a_port_that_comes_up_at_once(site):
    sends = asyncio.create_task(site.discovery.run(lambda: True))
    await asyncio.sleep(0)
    nics = {nic.port for nic in site.fabric.nics}
    first = site.frames()
    assert sorted(first) == sorted({PortRef(s, n) for s in site.sent for n in range(1, 5)} - nics)
    site.discovery.port_changed("spine1", 2, False)
    site.discovery.port_changed("spine1", 2, True)
    while not (sent := site.frames()):
        await asyncio.sleep(0.005)
    assert sent == [PortRef("spine1", 2)]
    sends.cancel()


async def test_ports_that_rest_share_a_limit_of_their_own(site):
    site.discovery.switch_up("spine1", dict.fromkeys(range(1, MAX_PORTS + 1), True), Sender(site.sent["spine1"]))
    for _ in range(100):
        site.now_s += 0.5
        site.discovery._send_due()
    site.frames()
    for _ in range(10):
        site.now_s += 1.0
        site.discovery._send_due()
    sent = site.frames()
    assert len(sent) == 10 * RESTING_BURST
    assert len(set(sent)) > MAX_PORTS, "all have their turn"


async def test_a_controller_that_does_not_lead_sends_nothing(site):
    sends = asyncio.create_task(site.discovery.run(lambda: False))
    await asyncio.sleep(0.05)
    assert site.frames() == []
    sends.cancel()


def taken(rounds, now_s):
    found = []
    for resting in (False, True):
        while (port := rounds.next_due(now_s, resting=resting)) is not None:
            found.append(port)
    return found


def test_a_port_sends_often_at_first_then_once_a_second_then_every_five():
    rounds = Rounds()
    rounds.begin(SPINE1_1, 0.0)
    times = [tick / 10 for tick in range(600) if taken(rounds, tick / 10)]
    assert times[:5] == [0.0, 0.3, 0.6, 0.9, 1.2]
    assert [time for time in times if 1.5 < time < 10] == pytest.approx([2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5])
    late = [time for time in times if time > 10]
    assert {round(b - a, 1) for a, b in itertools.pairwise(late)} == {5.0}


def test_a_port_that_flaps_sends_once_a_life_and_one_that_ended_not_at_all():
    rounds = Rounds()
    for _ in range(100):
        rounds.begin(SPINE1_1, 0.0)
    assert taken(rounds, 0.0) == [SPINE1_1]
    rounds.end(SPINE1_1)
    assert taken(rounds, 10.0) == []
    assert SPINE1_1 not in rounds


def test_what_has_changed_waits_apart_from_what_rests():
    rounds, other = Rounds(), PortRef("spine1", 2)
    rounds.begin(SPINE1_1, 0.0)
    for second in range(0, 20):
        taken(rounds, float(second))
    rounds.begin(other, 30.0)
    assert rounds.next_due(30.0) == other
    assert rounds.next_due(30.0) is None
    assert rounds.next_due(30.0, resting=True) == SPINE1_1


def test_an_allowance_grows_with_time_up_to_its_burst():
    allowance = Allowance(PER_PORT_S, 3, 0.0)
    assert [allowance.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert allowance.take(1 / PER_PORT_S)
    assert not allowance.take(1 / PER_PORT_S)
    assert [allowance.take(1_000.0) for _ in range(4)] == [True, True, True, False]
    assert not allowance.take(0.0), "time that goes back gives nothing"


def test_an_event_names_how_many_ports_it_is_about():
    line = Heard(changes={SPINE1_1: None}).line()
    assert line is not None
    assert line.text == "1 ports hear another neighbour"
