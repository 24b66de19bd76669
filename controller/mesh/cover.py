"""Choose probes that cross every link between two switches about equally often, with partners that change.

A probe is a request from one NIC to another and the reply, each over a path of its own: in two tiers it crosses four
links between switches, so a quarter as many probes as there are directed links cross each once. A round ends when every
link that can be crossed has been. Of probes that cross a link, the other links differ from round to round: a link that
loses them has no company on all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.jit import Flags, Floats, Ints
from heddle.controller.planner.ground.segments import Segments, segments_of
from heddle.controller.planner.ports.steering import port_table_of, ports_of

Pairs = frozenset[tuple[int, int]]
"""NICs by number, source and destination: rules for addresses lead their packets, whatever the source port is."""
Path = tuple[int, int]
"""A path as two segments: the one that it follows upwards, and the one downwards."""


class Probes(NamedTuple):
    """Some probes, a row each.

    src_nic, dst_nic (n,): numbers of NICs; hops, reply_hops (n, 4): directed links between switches, padded with -1;
    ports, reply_ports (n,): the UDP source ports that lead the request and the reply over these. A probe that returns
    by itself has one NIC at both ends, and an IPv6 address in `sids` instead.
    """

    src_nic: Ints
    dst_nic: Ints
    hops: Ints
    reply_hops: Ints
    ports: Ints
    reply_ports: Ints
    sids: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.src_nic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where probes may go: a fabric, its live links, the NICs that have an agent, and pairs that are led otherwise."""

    fabric: Fabric
    topology: Topology
    live: Live
    nics: Flags
    led: Pairs = frozenset()


class Cover:
    """The rounds of probes on one ground: `next` goes on where the call before has ended; `rounds` have begun."""

    def __init__(self, ground: Ground, noise: Callable[[int], Floats]) -> None:
        """Begin; `noise` draws so many numbers from 0 to 1, which break ties."""
        self._ground, self._noise = ground, noise
        topology = ground.topology
        self._segments = segments_of(topology, ground.live)
        self._leaf = _leaf_of_segments(self._segments)
        usable = ground.nics & ground.live.links[topology.first_nic_link : topology.first_nic_link + topology.nics]
        self._nics_of = {leaf: np.flatnonzero(usable & (topology.nic_leaf == leaf)) for leaf in set(self._leaf)}
        nics = ground.fabric.nics
        self._networks = {leaf: {nics[nic].network for nic in at.tolist()} for leaf, at in self._nics_of.items()}
        has_nics = np.array([len(self._nics_of[leaf]) > 0 for leaf in self._leaf], dtype=np.bool_)
        self._by_cable: dict[int, list[int]] = {}
        self._by_top: dict[int, list[int]] = {}
        for row in np.flatnonzero(has_nics).tolist():
            self._by_top.setdefault(int(self._segments.top[row]), []).append(row)
            for cable in {int(self._segments.first[row]), int(self._segments.second[row])} - {-1}:
                self._by_cable.setdefault(cable, []).append(row)
        self._load = np.zeros(2 * topology.cables + 1)
        self._sent, self._received = np.zeros(topology.nics), np.zeros(topology.nics)
        self._left: list[int] = []
        self._crossed = np.zeros(2 * topology.cables + 1, dtype=np.bool_)
        self.rounds = 0

    def next(self, count: int) -> Probes:
        """Return so many probes, fewer where no link can be crossed at all."""
        found: list[tuple[int, int, Path, Path]] = []
        failed = 0
        while len(found) < count and self._by_cable and failed <= 2 * self._ground.topology.cables:
            link = self._next_link()
            probe = self._over(link)
            failed = failed + 1 if probe is None else 0
            if probe is not None:
                found.append(probe)
                self._count(*probe)
        return self._probes(found)

    def _next_link(self) -> int:
        """Return a link that this round has not crossed yet; begin another round where there is none."""
        cables = self._ground.topology.cables
        while True:
            while self._left:
                link = self._left.pop()
                if not self._crossed[link]:
                    self._crossed[link] = True
                    return link
            self.rounds += 1
            links = [link for cable in sorted(self._by_cable) for link in (cable, cable + cables)]
            self._left = [links[at] for at in np.argsort(self._noise(len(links))).tolist()]
            self._crossed[:] = False

    def _over(self, link: int) -> tuple[int, int, Path, Path] | None:
        """Return a probe whose request crosses a link: its NICs, and the paths of request and reply."""
        cables = self._ground.topology.cables
        falls = link >= cables
        for through in self._least_first(self._by_cable[link - cables if falls else link], down=falls):
            for other in self._least_first(self._by_top[int(self._segments.top[through])], down=not falls):
                up, down = (other, through) if falls else (through, other)
                if not self._joins(up, down):
                    continue
                here, there = self._leaf[up], self._leaf[down]
                reply, ends = self._reply(there, here), self._ends(here, there)
                if reply is not None and ends is not None:
                    return *ends, (up, down), reply
        return None

    def _least_first(self, rows: Sequence[int], *, down: bool) -> list[int]:
        """Return segments in order of how often their links upwards, or `down`, have been crossed."""
        at = np.array(rows, dtype=np.int64)
        order: list[int] = at[np.argsort(self._weight(at, down=down) + self._noise(len(at)))].tolist()
        return order

    def _weight(self, rows: Ints, *, down: bool) -> Floats:
        shift = self._ground.topology.cables if down else 0
        second = self._segments.second[rows]
        above = np.where(second >= 0, self._load[second + shift], 0.0)
        return np.asarray(self._load[self._segments.first[rows] + shift] + above, dtype=np.float64)

    def _joins(self, up: int, down: int) -> bool:
        """Return whether two segments make a path of one network that turns as early as the fabric allows."""
        net, here, there = self._segments, self._leaf[up], self._leaf[down]
        if here == there or self._networks[here].isdisjoint(self._networks[there]):
            return False
        middle, other = int(net.middle[up]), int(net.middle[down])
        if middle >= 0 and (middle == other or net.below[net.below_row[middle], there]):
            return False
        return other < 0 or not bool(net.below[net.below_row[other], here])

    def _reply(self, here: int, there: int) -> Path | None:
        """Return the path from one leaf to another that has been crossed least."""
        start = self._segments.start
        ups, downs = np.arange(start[here], start[here + 1]), np.arange(start[there], start[there + 1])
        tops, others = self._segments.top[ups], self._segments.top[downs]
        if len(tops) == len(others) and (tops == others).all() and (tops[1:] > tops[:-1]).all():
            at = to = np.arange(len(tops))  # two tiers without parallel cables
        else:
            at, to = np.nonzero(tops[:, None] == others[None, :])
        weight = self._weight(ups, down=False)[at] + self._weight(downs, down=True)[to]
        for place in np.argsort(weight + self._noise(len(weight))).tolist():
            up, down = int(ups[at[place]]), int(downs[to[place]])
            if self._joins(up, down):
                return up, down
        return None

    def _ends(self, here: int, there: int) -> tuple[int, int] | None:
        """Return the NICs that have sent and received least, of the same network, and led by their ports."""
        nics, led = self._ground.fabric.nics, self._ground.led
        for source in self._ordered(here, self._sent):
            for target in self._ordered(there, self._received):
                same = nics[source].network == nics[target].network
                if same and (source, target) not in led and (target, source) not in led:
                    return source, target
        return None

    def _ordered(self, leaf: int, used: Floats) -> list[int]:
        nics = self._nics_of[leaf]
        order: list[int] = nics[np.argsort(used[nics] + 0.5 * self._noise(len(nics)))].tolist()
        return order

    def _count(self, source: int, target: int, path: Path, reply: Path) -> None:
        for up, down in (path, reply):
            links = [link for link in self._links(up, down) if link >= 0]
            self._load[links] += 1
            self._crossed[links] = True
        self._sent[source] += 1
        self._received[target] += 1

    def _links(self, up: int, down: int) -> tuple[int, int, int, int]:
        net, cables = self._segments, self._ground.topology.cables
        high, low = int(net.second[up]), int(net.second[down])
        return int(net.first[up]), high, low + cables if low >= 0 else -1, int(net.first[down]) + cables

    def _probes(self, found: Sequence[tuple[int, int, Path, Path]]) -> Probes:
        topology = self._ground.topology
        ends = np.array([(source, target) for source, target, _, _ in found], dtype=np.int64).reshape(-1, 2)
        hops = np.array([self._links(*path) for *_, path, _ in found], dtype=np.int64).reshape(-1, 4)
        reply_hops = np.array([self._links(*reply) for *_, reply in found], dtype=np.int64).reshape(-1, 4)
        table, entropy = port_table_of(self._ground.fabric, topology), np.zeros(len(found), dtype=np.int64)
        return Probes(
            src_nic=ends[:, 0], dst_nic=ends[:, 1], hops=hops, reply_hops=reply_hops,
            ports=ports_of(topology, table, hops, ends[:, 1], entropy),
            reply_ports=ports_of(topology, table, reply_hops, ends[:, 0], entropy),
        )  # fmt: skip


def _leaf_of_segments(segments: Segments) -> list[int]:
    counts = np.diff(segments.start)
    leaves: list[int] = np.repeat(np.arange(len(counts)), counts).tolist()
    return leaves
