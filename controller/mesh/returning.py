"""Choose probes that return to their sender by their SIDs, and cross every cable between two switches equally often.

A probe crosses one cable of its leaf both ways, or such a cable and one above it (`model.srv6_pings`). It needs no
agent elsewhere, so one host of each leaf tests all cables. A round ends when every cable has been crossed that can be.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from heddle.controller.mesh.cover import Ground, Probes
from heddle.controller.model.fabric import Cable
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.srv6_pings import Pings
from heddle.controller.planner.ground.jit import Floats


class _Probe(NamedTuple):
    """The number of a NIC, the cables that its probe crosses upwards, and its address."""

    nic: int
    cables: tuple[int, ...]
    address: int


class ReturningCover:
    """The rounds of probes on one ground: `next` goes on where the call before has ended."""

    def __init__(self, ground: Ground, noise: Callable[[int], Floats]) -> None:
        """Begin; `noise` draws so many numbers from 0 to 1, which break ties."""
        self._ground, self._noise, self._sids = ground, noise, Sids(ground.fabric)
        topology, live = ground.topology, ground.live.links
        usable = ground.nics & live[topology.first_nic_link : topology.first_nic_link + topology.nics]
        self._nics_of: dict[str, list[int]] = {}
        for nic in np.flatnonzero(usable).tolist():
            self._nics_of.setdefault(ground.fabric.nics[nic].port.switch, []).append(nic)
        self._pings: dict[int, Pings] = {}
        self._load, self._sent = np.zeros(topology.cables), np.zeros(topology.nics)
        self._left: list[int] = []
        self._rounds = 0
        self._cables = [cable for cable in np.flatnonzero(live[: topology.cables]).tolist() if self._below(cable)]

    def next(self, count: int) -> Probes:
        """Return so many probes, fewer where no cable can be crossed at all."""
        found: list[_Probe] = []
        failed = 0
        while len(found) < count and failed < len(self._cables):
            probe = self._over(self._next_cable())
            failed = failed + 1 if probe is None else 0
            if probe is not None:
                found.append(probe)
                self._load[list(probe.cables)] += 1
                self._sent[probe.nic] += 1
        return self._probes(found)

    def _next_cable(self) -> int:
        if not self._left:
            self._rounds += 1
            self._left = [self._cables[at] for at in np.argsort(self._noise(len(self._cables))).tolist()]
        return self._left.pop()

    def _below(self, cable: int) -> list[int]:
        """Return the live cables by which agents reach the lower end of one; of a leaf's own cable itself."""
        fabric, topology = self._ground.fabric, self._ground.topology
        lower = fabric.cables[cable].lower.switch
        if lower in self._nics_of:
            return [cable]
        hops = [topology.cable_index[each.id] for each in fabric.down_cables[lower]]
        return [
            hop for hop in hops
            if self._ground.live.links[hop] and fabric.cables[hop].lower.switch in self._nics_of
        ]  # fmt: skip

    def _over(self, cable: int) -> _Probe | None:
        """Return a probe over a cable from the NIC, and by the cable below, that have been used least."""
        below = self._below(cable)
        hop = below[int(np.argmin(self._load[below] + self._noise(len(below))))]
        one, own = (self._ground.fabric.cables[each] for each in (cable, hop))
        nics = self._nics_of[own.lower.switch]
        nic = nics[int(np.argmin(self._sent[nics] + 0.5 * self._noise(len(nics))))]
        addresses = self._addresses(nic, one, own)
        if not addresses:
            return None
        return _Probe(nic, (cable,) if cable == hop else (hop, cable), addresses[self._rounds % len(addresses)])

    def _addresses(self, nic: int, cable: Cable, hop: Cable) -> Sequence[int]:
        fabric = self._ground.fabric
        if nic not in self._pings:
            self._pings[nic] = Pings(fabric, fabric.nics[nic], self._sids)
        pings = self._pings[nic]
        return (pings.address(cable),) if cable is hop else pings.addresses_above(cable, hop)

    def _probes(self, found: Sequence[_Probe]) -> Probes:
        cables, none = self._ground.topology.cables, np.zeros(len(found), dtype=np.int64)
        nics = np.array([probe.nic for probe in found], dtype=np.int64)
        hops, back = (np.full((len(found), 4), -1, dtype=np.int64) for _ in range(2))
        for row, probe in enumerate(found):
            hops[row, : len(probe.cables)] = probe.cables
            back[row, : len(probe.cables)] = [cables + cable for cable in reversed(probe.cables)]
        return Probes(nics, nics, hops, back, none, none, tuple(probe.address for probe in found))
