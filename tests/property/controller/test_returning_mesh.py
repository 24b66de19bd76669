"""Probes of the ping mesh that return by their SIDs cross what they are said to; planted losses are located."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.mesh.cover import Ground
from heddle.controller.mesh.evidence import LOST_US, Turn
from heddle.controller.mesh.judge import Judge
from heddle.controller.mesh.returning import ReturningCover
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import Live, topology_of
from tests.oracles.usid_walk import walk
from tests.property.controller.test_srv6_paths import srv6_fabric, world
from tests.property.controller.test_srv6_pings import THREE, TWO, exchanged
from tests.support.examples import examples

SLOT = 20
"""Probes of each host in a turn."""
WHOLE = Health()


def cover_of(fabric, health=WHOLE, absent=(), seed=0):
    topology = topology_of(fabric)
    nics = np.array([nic.id not in absent for nic in fabric.nics], dtype=np.bool_)
    ground = Ground(fabric=fabric, topology=topology, live=Live.of(topology, health), nics=nics)
    return ReturningCover(ground, np.random.default_rng(seed).random)


def names_of(fabric, row):
    names = topology_of(fabric).link_ids
    return [names[hop] for hop in row if hop >= 0]


SHAPES = {
    "two tiers": (TWO, "ua", "route"),
    "double": (TWO | {"links_per_spine": 2}, "ua", "ua"),
    "un": (TWO, "un", "route"),
    "cable, double": (TWO | {"links_per_spine": 2}, "cable", "route"),
    "three tiers": (THREE, "ua", "route"),
    "three tiers, un": (THREE, "un", "route"),
    "three tiers, cable": (THREE, "cable", "ua"),
}


@pytest.mark.parametrize("case", SHAPES.values(), ids=SHAPES)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_every_probe_returns_by_the_links_that_it_is_said_to_cross_and_all_cables_are_crossed(case, data):
    fabric = srv6_fabric(*case)
    off = data.draw(st.sets(st.sampled_from([cable.id for cable in fabric.cables]), max_size=2))
    health = Health(down_cables=frozenset(off))
    cover, seen = cover_of(fabric, health, seed=data.draw(st.integers(0, 3))), set()
    probes = cover.next(2 * len(fabric.cables))
    for nic, hops, back, sid in zip(probes.src_nic, probes.hops, probes.reply_hops, probes.sids, strict=True):
        source = fabric.nics[nic]
        taken, end, _ = walk(world(fabric), source.port.switch, ipv6_text(sid))
        crossed = [f"{one[0]}:{one[1]}>{other[0]}:{other[1]}" for one, other in taken]
        assert (crossed, end) == (names_of(fabric, hops) + names_of(fabric, back), source.id)
        seen.update(fabric.cable_by_link[link].id for link in crossed)
    reached = {
        cable.upper.switch
        for cable in fabric.cables
        if cable.lower.switch in fabric.nics_of_leaf and cable.id not in off
    }
    wanted = {
        cable.id
        for cable in fabric.cables
        if cable.id not in off and (cable.lower.switch in fabric.nics_of_leaf or cable.lower.switch in reached)
    }
    assert seen == wanted


def test_one_host_of_each_leaf_crosses_every_cable_equally_often():
    fabric = srv6_fabric(TWO | {"hosts_per_leaf": 4})
    absent = [nic.id for nics in fabric.nics_of_leaf.values() for nic in nics[1:]]
    probes = cover_of(fabric, absent=absent).next(5 * len(fabric.cables))
    assert set(np.bincount(probes.hops[probes.hops >= 0])) == {5}


class Site:
    """A fabric in which cables lose packets in a direction, and hosts stand still."""

    def __init__(self, fabric, seed, loss, around=None, stopped=()):
        self.fabric, self.loss, self.stopped, self.around = fabric, loss, stopped, around or world(fabric)
        self.random, self.cover = np.random.default_rng(seed), cover_of(fabric, seed=seed)
        self.judge = Judge(topology_of(fabric), both_ways=True)

    def turn(self):
        probes = self.cover.next(SLOT * len(self.fabric.nics))
        rtt_us = np.array([self.rtt_us(nic, sid) for nic, sid in zip(probes.src_nic, probes.sids, strict=True)])
        slot, busy = np.zeros(len(probes), dtype=np.int64), np.zeros(self.judge.crossed.parts, dtype=np.bool_)
        self.judge.take(Turn(probes, slot, rtt_us, busy, 3.0))

    def rtt_us(self, number, sid):
        nic = self.fabric.nics[number]
        taken, end, _ = walk(self.around, nic.port.switch, ipv6_text(sid))
        losses = [self.loss.get(f"{one[0]}:{one[1]}>{other[0]}:{other[1]}", 0.0) for one, other in taken]
        passes = all(self.random.random() >= loss for loss in losses)
        return 500 if passes and end == nic.id and nic.host not in self.stopped else LOST_US

    def raised(self, turns):
        """Return the cables that are raised after each turn."""
        found = []
        for _ in range(turns):
            self.turn()
            found.append({self.fabric.cables[link].id for link in self.judge.raised})
        return found


@pytest.mark.parametrize("shape", [TWO, THREE], ids=["two tiers", "three tiers"])
@settings(max_examples=examples(5))
@given(data=st.data())
def test_a_cable_that_loses_probes_one_way_is_named_alone_beside_a_stopped_host(shape, data):
    fabric = srv6_fabric(shape | {"hosts_per_leaf": 3})
    cable = data.draw(st.sampled_from(fabric.cables))
    link, stopped = (
        data.draw(st.sampled_from([cable.up_link, cable.down_link])),
        data.draw(st.sampled_from(fabric.nics)),
    )
    site = Site(
        fabric, data.draw(st.integers(0, 99)), {link: data.draw(st.sampled_from([0.2, 0.5]))}, stopped={stopped.host}
    )
    raised = site.raised(12)
    assert set().union(*raised) == {cable.id} == raised[-1]


def test_two_exchanged_cables_are_named_alone():
    fabric = srv6_fabric(TWO | {"hosts_per_leaf": 2})
    one, other = fabric.up_choices["leaf1"][0], fabric.up_choices["leaf2"][1]
    site = Site(fabric, 0, {}, exchanged(fabric, one.lower, other.lower))
    assert site.raised(3)[-1] == {one.id, other.id}


def test_a_sound_fabric_with_a_silent_spine_accuses_no_cable():
    fabric = srv6_fabric(TWO | {"hosts_per_leaf": 2})
    dead = {link: 1.0 for cable in fabric.cables if cable.upper.switch == "spine2" for link in (cable.up_link,)}
    assert Site(fabric, 0, dead).raised(5) == [set()] * 5
    assert Site(fabric, 1, {}).raised(5) == [set()] * 5
