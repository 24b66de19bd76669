"""Probes of the ping mesh take their paths and cross every link; planted losses, and nothing else, are located.

The oracles share no code with the mesh: an OpenFlow interpreter forwards the probes, a search of its own lists the
links, and losses are drawn packet by packet.
"""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.mesh.cover import Cover, Ground, Probes
from heddle.controller.mesh.evidence import LOST_US, UNKNOWN_US, Turn
from heddle.controller.mesh.judge import Judge
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.rules.compile import WHOLE
from tests.oracles.openflow_interpreter import roce
from tests.property.controller.test_rules_carry_traffic import network_of
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3, rails, spine_leaf
from tests.unit.rules.strategies import fabrics, failures, irregular

SLOT = 20
"""Probes of a turn that a slot has, in fabrics of few hosts."""


def cover_of(fabric: Fabric, health: Health = WHOLE, absent=(), seed=0) -> Cover:
    topology = topology_of(fabric)
    nics = np.array([nic.id not in absent for nic in fabric.nics], dtype=np.bool_)
    ground = Ground(fabric=fabric, topology=topology, live=Live.of(topology, health), nics=nics)
    return Cover(ground, np.random.default_rng(seed).random)


def links_of(fabric: Fabric, hops) -> list[str]:
    names = topology_of(fabric).link_ids
    return [names[hop] for hop in hops if hop >= 0]


def crossable(fabric: Fabric, health: Health, absent) -> set[str]:
    """Every link on some live path of two leaves that turns down, there and back, where the leaf is below as built."""
    up, down, found = {}, {}, set()
    for cable in fabric.cables:
        low, high = cable.lower.switch, cable.upper.switch
        alive = cable.id not in health.down_cables and not {low, high} & health.down_switches
        up.setdefault(low, []).append((high, cable.id, alive))
        down.setdefault(high, []).append((low, ">".join(reversed(cable.id.split(">"))), alive))

    def below(switch):
        return {switch}.union(*(below(low) for low, _, _ in down.get(switch, ())))

    def paths(at, leaf, begin):
        if at == leaf:
            yield ()
            return
        falls = leaf in below(at)
        for other, link, alive in (down if falls else up).get(at, ()):
            if alive and (not falls or (leaf in below(other) and begin not in below(other))):
                for rest in paths(other, leaf, begin):
                    yield (link, *rest)

    leaves = {nic.port.switch for nic in fabric.nics if nic.id not in absent} - health.down_switches
    for here in leaves:
        for there in leaves - {here}:
            if next(paths(there, here, there), None) is not None:  # the reply has a path
                found |= {link for path in paths(here, there, here) for link in path}
    return found


@settings(max_examples=examples(20))
@given(st.data())
def test_a_round_crosses_every_link_over_which_two_agents_have_a_path_and_probes_take_their_paths(data):
    fabric = data.draw(st.one_of(fabrics(), irregular()))
    health = data.draw(failures(fabric))
    absent = data.draw(st.sets(st.sampled_from([nic.id for nic in fabric.nics]), max_size=2))
    cover, network, seen = (
        cover_of(fabric, health, absent, data.draw(st.integers(0, 3))),
        network_of(fabric, health),
        set(),
    )
    wanted = crossable(fabric, health, absent)
    while cover.rounds < 2 and (probes := cover.next(10)):
        for src, dst, hops, port in (
            *zip(probes.src_nic, probes.dst_nic, probes.hops, probes.ports, strict=True),
            *zip(probes.dst_nic, probes.src_nic, probes.reply_hops, probes.reply_ports, strict=True),
        ):
            source, target = fabric.nics[src], fabric.nics[dst]
            assert not {source.id, target.id} & absent
            journey = network.send(source.id, {**roce(source.ip, target.ip, int(port)), "udp_dst": 4796})
            taken = [(switch, number) for switch, number in journey.hops[:-1]]
            planned = links_of(fabric, hops)
            assert journey.nic == target.id
            assert [f"{switch}:{number}" for switch, number in taken] == [link.split(">")[0] for link in planned]
            seen.update(planned)
    assert seen == wanted


def test_n_probes_of_two_tiers_cross_every_link_about_as_often_and_no_two_rounds_alike():
    fabric = spine_leaf(8, 16, 128)
    cover = cover_of(fabric)
    first, second = cover.next(64), cover.next(64)
    for probes in (first, second):
        crossed = np.bincount(np.concatenate((probes.hops, probes.reply_hops)).ravel() + 1, minlength=257)[1:]
        assert (crossed.min() >= 0, crossed.max() <= 3, crossed.sum()) == (True, True, 256)
        assert np.bincount(np.concatenate((probes.src_nic, probes.dst_nic))).max() <= 3
    together = cover.next(640)
    crossed = np.bincount(np.concatenate((together.hops, together.reply_hops)).ravel() + 1, minlength=257)[1:]
    assert crossed.min() >= 8
    assert crossed.max() <= 12
    rows = {tuple(row) for row in np.column_stack((first.hops, first.reply_hops)).tolist()}
    assert len(rows & {tuple(row) for row in np.column_stack((second.hops, second.reply_hops)).tolist()}) <= 6


@dataclass
class Site:
    """A fabric whose links lose packets, and whose hosts stand still, are overrun or lose packets."""

    fabric: Fabric
    seed: int
    loss: dict[str, float] = field(default_factory=dict)
    noise: float = 0.0
    stopped: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By host from which slot (of all turns) to which it stands still, in the first of them for a half."""
    overrun: dict[str, float] = field(default_factory=dict)
    """The share of packets to a NIC that are lost behind its leaf, by NIC."""
    full: dict[str, float] = field(default_factory=dict)
    """The share that is lost at a full queue, by link; what gets through takes 50 ms more."""

    def __post_init__(self):
        self.random, self.cover = np.random.default_rng(self.seed), cover_of(self.fabric, seed=self.seed)
        self.judge, self.slots = Judge(topology_of(self.fabric)), 0
        names = topology_of(self.fabric).link_ids
        self.link_loss = np.array([*(self.loss.get(name, 0.0) for name in names), 0.0])
        self.queue_loss = np.array([*(self.full.get(name, 0.0) for name in names), 0.0])
        self.nic_loss = np.array([self.overrun.get(nic.id, 0.0) for nic in self.fabric.nics])

    def turn(self, slots=3, seconds=3.0):
        probes, per_slot = self.cover.next(slots * SLOT * len(self.fabric.nics) // 2), SLOT * len(self.fabric.nics) // 2
        slot = np.arange(len(probes)) // per_slot
        passed = self.passed(probes)
        rtt_us = np.where(passed, self.random.integers(200, 900, len(probes)) + self.waited_us(probes), LOST_US)
        for host, (begin, end) in self.stopped.items():
            within = (self.slots + slot >= begin) & (self.slots + slot < end)
            within &= (self.slots + slot > begin) | (self.random.random(len(probes)) < 0.5)
            names = np.array([nic.host for nic in self.fabric.nics])
            source, target = names[probes.src_nic] == host, names[probes.dst_nic] == host
            rtt_us[within & (source | target)] = LOST_US
            if begin <= self.slots + slots - 1 < end:
                rtt_us[source] = UNKNOWN_US  # it reports nothing
        busy = np.zeros(self.judge.crossed.parts, dtype=np.bool_)
        self.judge.take(Turn(probes, slot, rtt_us, busy, seconds))
        self.slots += slots

    def passed(self, probes: Probes):
        hops = np.column_stack((probes.hops, probes.reply_hops))
        chances = np.column_stack((self.link_loss[hops], self.queue_loss[hops]))
        ends = self.nic_loss[np.column_stack((probes.src_nic, probes.dst_nic))]
        reaches = np.prod(1 - chances, axis=1) * np.prod(1 - ends, axis=1) * (1 - self.noise)
        return self.random.random(len(probes)) < reaches

    def waited_us(self, probes: Probes):
        hops = np.column_stack((probes.hops, probes.reply_hops))
        return 50_000 * (self.queue_loss[hops] > 0).sum(axis=1)

    @property
    def raised(self):
        names = topology_of(self.fabric).link_ids
        return {names[link]: loss for link, loss in self.judge.raised.items()}

    def until(self, wanted: set[str], turns: int) -> bool:
        """Return whether these links are raised within so many turns, and no other ever is."""
        for _ in range(turns):
            self.turn()
            assert set(self.raised) <= wanted
            if set(self.raised) == wanted:
                return True
        return False


LOCATED = (spine_leaf(4, 4, 8), spine_leaf(2, 3, 9), spine_leaf(8, 4, 16), clos3(3, 2, 2, 4))


def links_between_switches(fabric: Fabric) -> list[str]:
    return topology_of(fabric).link_ids[: 2 * len(fabric.cables)]


@settings(max_examples=examples(10))
@given(st.data())
def test_one_or_two_lossy_links_are_named_alone_among_overrun_lossy_and_stopped_hosts(data):
    fabric = data.draw(st.sampled_from(LOCATED))
    below = {name: fabric.cable_by_link[name].lower.switch for name in links_between_switches(fabric)}
    # All uplinks of a leaf with one NIC lose what that NIC would lose.
    bad = data.draw(st.lists(st.sampled_from(sorted(below)), min_size=1, max_size=2, unique_by=below.__getitem__))
    elsewhere = [nic.id for nic in fabric.nics if nic.port.switch not in " ".join(bad)]
    site = Site(
        fabric,
        data.draw(st.integers(0, 99)),
        loss={name: data.draw(st.sampled_from([0.1, 0.3])) for name in bad},
        noise=data.draw(st.sampled_from([0.0, 0.002])),
        stopped={data.draw(st.sampled_from(fabric.nics)).host: (4, 8)},
        overrun={data.draw(st.sampled_from(elsewhere)): 0.1},
    )
    assert site.until(set(bad), turns=40)


@settings(max_examples=examples(10))
@given(st.data())
def test_a_sound_fabric_accuses_no_link_whatever_its_hosts_and_queues_do(data):
    fabric = data.draw(st.sampled_from([*LOCATED, rails()]))
    stopped = data.draw(st.sets(st.sampled_from([nic.host for nic in fabric.nics]), max_size=3))
    begin = data.draw(st.integers(0, 6))
    site = Site(
        fabric,
        data.draw(st.integers(0, 99)),
        noise=data.draw(st.sampled_from([0.0, 0.001, 0.02])),
        stopped={host: (begin, begin + data.draw(st.integers(1, 8))) for host in stopped},
        overrun={data.draw(st.sampled_from(fabric.nics)).id: data.draw(st.sampled_from([0.02, 0.3, 0.9]))},
        full={data.draw(st.sampled_from(links_between_switches(fabric))): 0.1},
    )
    assert not site.until({"none"}, turns=8)
