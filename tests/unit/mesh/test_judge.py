"""When a link is raised, judged again and cleared, and whose reports count."""

from itertools import cycle

import numpy as np

from heddle.controller.mesh.cover import Cover, Ground
from heddle.controller.mesh.evidence import LOST_US, UNKNOWN_US, Crossed, Turn, account_of
from heddle.controller.mesh.judge import RELINK_S, Judge, Relinks
from heddle.controller.mesh.location import Explained
from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import Live, topology_of
from tests.support.fabrics.small_fabrics import spine_leaf

FABRIC = spine_leaf(4, 4, 16)
TOPOLOGY = topology_of(FABRIC)
LINK = 5
ALL = np.ones(TOPOLOGY.nics, dtype=np.bool_)
CALM = np.zeros(Crossed(TOPOLOGY).parts, dtype=np.bool_)


COVER = Cover(
    Ground(fabric=FABRIC, topology=TOPOLOGY, live=Live.of(TOPOLOGY, Health()), nics=ALL),
    np.random.default_rng(1).random,
)
PROBES = [COVER.next(400) for _ in range(4)]


class Mesh:
    """Turns of 400 probes, of which a link loses every `one_in`th that crosses it."""

    def __init__(self):
        self.judge, self.probes = Judge(TOPOLOGY), cycle(PROBES)

    def turn(self, one_in=0, rtt_us=500, busy=CALM, seconds=3.0):
        probes = next(self.probes)
        crossing = (np.column_stack((probes.hops, probes.reply_hops)) == LINK).any(axis=1)
        rtts = np.full(len(probes), 500)
        rtts[crossing] = rtt_us
        if one_in:
            rtts[np.flatnonzero(crossing)[::one_in]] = LOST_US
        self.judge.take(Turn(probes, np.zeros(len(probes), dtype=np.int64), rtts, busy, seconds))
        return self

    def turns(self, count, **how):
        for _ in range(count):
            self.turn(**how)
        return self


def test_a_link_is_raised_with_its_share_and_judged_again_as_it_changes():
    mesh = Mesh().turns(4, one_in=10)
    assert list(mesh.judge.raised) == [LINK]
    mesh.turns(9, one_in=10)
    assert 0.08 < mesh.judge.raised[LINK] < 0.12
    mesh.turns(4, one_in=2)
    assert 0.4 < mesh.judge.raised[LINK] < 0.6


def test_a_link_that_loses_nothing_any_more_is_cleared_and_not_raised_again_by_what_was():
    mesh = Mesh().turns(4, one_in=10).turns(12)
    assert mesh.judge.raised == {}
    assert mesh.turns(3).judge.raised == {}
    assert list(mesh.turns(4, one_in=10).judge.raised) == [LINK]


def test_a_cable_that_was_taken_off_and_put_back_is_judged_anew():
    mesh = Mesh().turns(4, one_in=10)
    mesh.judge.relinked([LINK])
    assert mesh.judge.raised == {}
    assert mesh.turn().judge.raised == {}


def test_one_burst_accuses_no_link():
    assert Mesh().turn(one_in=2).judge.raised == {}


def test_what_one_agent_alone_reports_accuses_no_link():
    """On a leaf of its own: what an agent there makes up about one of its uplinks, its NIC explains far less well."""
    fabric = spine_leaf(4, 4, 4)
    topology = topology_of(fabric)
    ground = Ground(
        fabric=fabric, topology=topology, live=Live.of(topology, Health()), nics=np.ones(topology.nics, dtype=np.bool_)
    )
    cover, judge = Cover(ground, np.random.default_rng(1).random), Judge(topology)
    for _ in range(6):
        probes = cover.next(200)
        rtts = np.where((probes.src_nic == 0) & (probes.hops == 1).any(axis=1), LOST_US, 500)
        busy = np.zeros(judge.crossed.parts, dtype=np.bool_)
        judge.take(Turn(probes, np.zeros(len(probes), dtype=np.int64), rtts, busy, 3.0))
    assert judge.raised == {}
    assert judge.others[Explained.UNSURE] > 20


def test_losses_over_a_link_whose_queue_is_full_are_congestion_by_delay_or_by_telemetry():
    assert Mesh().turns(5, one_in=4, rtt_us=20_000).judge.raised == {}
    busy = CALM.copy()
    busy[LINK] = True
    mesh = Mesh().turns(5, one_in=4, busy=busy)
    assert (mesh.judge.raised, mesh.judge.queued > 20) == ({}, True)


def test_probes_that_are_slow_everywhere_show_no_full_queue():
    """Hosts that are busy reply late, at random: what is lost beside that is lost at its link."""
    probes, random = PROBES[0], np.random.default_rng(2)
    rtts = np.where(random.random(len(probes)) < 0.6, 20_000, 500)
    account = account_of(Crossed(TOPOLOGY), Turn(probes, np.zeros(len(probes), dtype=np.int64), rtts, CALM, 3.0), 1)
    assert account.probes == len(probes)


def test_no_probe_over_a_full_queue_is_evidence_whether_it_got_through_or_not():
    busy = CALM.copy()
    busy[LINK] = True
    probes = PROBES[0]
    crossing = (np.column_stack((probes.hops, probes.reply_hops)) == LINK).any(axis=1)
    rtts = np.where(np.arange(len(probes)) % 3 == 0, LOST_US, 500)
    account = account_of(Crossed(TOPOLOGY), Turn(probes, np.zeros(len(probes), dtype=np.int64), rtts, busy, 3.0), 1)
    assert (account.sent[LINK], account.probes) == (0, int((~crossing).sum()))
    assert account.queued == int((crossing & (rtts == LOST_US)).sum())


def test_a_host_that_answered_none_in_a_slot_is_no_evidence_in_it():
    probes = PROBES[0]
    slot = np.arange(400) // 200
    of_host = (probes.src_nic == 3) | (probes.dst_nic == 3)
    rtts = np.where(of_host & (slot == 1), LOST_US, 500)
    rtts[probes.src_nic == 7] = UNKNOWN_US
    account = account_of(Crossed(TOPOLOGY), Turn(probes, slot, rtts, CALM, 3.0), 1)
    assert (len(account.lost), account.probes) == (0, int(((~of_host | (slot == 0)) & (probes.src_nic != 7)).sum()))


def test_a_cable_has_come_back_after_so_long_without_carrier():
    relinks = Relinks()
    assert relinks.update(frozenset({"a", "b"}), 0.0) == frozenset()
    assert relinks.update(frozenset({"a"}), RELINK_S - 1) == frozenset()
    assert relinks.update(frozenset(), RELINK_S) == {"a"}
    assert relinks.update(frozenset(), RELINK_S + 1) == frozenset()
