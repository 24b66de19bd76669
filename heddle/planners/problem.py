"""What a planner gets and returns, as values without arrays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Protocol

from heddle.controller.model.fabric import Cable, Fabric

INTERFACE = 1
"""The version of `Problem` and `Planner`; it grows with a change that a planner has to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One queue pair that needs a path from `src_nic` to `dst_nic`; `demand_bps` is in bit/s.

    The load of a link is the sum over jobs of the job's heaviest `phase` there. Flows with the same `bundle`, where it
    is not empty, have to share one path: a rule by their addresses leads them. A larger `priority` comes first.
    """

    flow_id: str
    job_id: str
    src_nic: str
    dst_nic: str
    demand_bps: int
    phase: int = 0
    priority: int = 0
    bundle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A flow that keeps its path: directed links, those of both NICs included."""

    demand: Demand
    links: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Flows that need paths on a fabric, beside flows that keep theirs.

    Links, switches and NICs of `fabric.failed` are out of use. `other_bps` is load in bit/s by link id that is no
    flow's. `seed` is for planners that draw random numbers.
    """

    fabric: Fabric
    demands: tuple[Demand, ...]
    running: tuple[Running, ...] = ()
    other_bps: Mapping[str, int] = field(default_factory=dict)
    seed: int = 1

    @cached_property
    def capacity_bps(self) -> Mapping[str, int]:
        """Return the rate in bit/s of every directed link that is in use, by link id."""
        links = ((link, cable.capacity_bps) for link, cable in self.fabric.cable_by_link.items() if self._lives(cable))
        failed = self.fabric.failed
        nics = [
            nic
            for nic in self.fabric.nics
            if nic.id not in failed.down_nics and nic.port.switch not in failed.down_switches
        ]
        of_nics = ((link, nic.capacity_bps) for nic in nics for link in (nic.up_link, nic.down_link))
        return MappingProxyType(dict(chain(links, of_nics)))

    def shortest_paths(self, demand: Demand) -> Iterator[tuple[str, ...]]:
        """Yield the shortest paths of a flow over links in use, in the order of port numbers; none where it is cut off.

        A path is admissible: up, then down, past no switch twice. It begins and ends with the link of a NIC.
        """
        source, target = self.fabric.nic_by_id[demand.src_nic], self.fabric.nic_by_id[demand.dst_nic]
        if not {source.up_link, target.down_link} <= self.capacity_bps.keys():
            return
        for inner in self._between(source.port.switch, target.port.switch):
            yield (source.up_link, *inner, target.down_link)

    def _between(self, source: str, target: str) -> list[tuple[str, ...]]:
        """Return the inner links of all shortest paths between two leaves; computed once for each pair."""
        pair = (source, target)
        if pair not in self._known:
            found = [()] if source == target else list(self._over(source, target))
            shortest = min(map(len, found), default=0)
            self._known[pair] = [path for path in found if len(path) == shortest]
        return self._known[pair]

    def _over(self, source: str, target: str) -> Iterator[tuple[str, ...]]:
        """Yield the inner links of paths between two leaves, all shortest ones among them."""
        ups: list[tuple[str, tuple[Cable, ...]]] = [(source, ())]
        shortest, rises = len(self.fabric.switches), 0
        while ups and rises + 2 <= shortest:  # one cable more up, and one down at least
            ups, rises = (
                [
                    (cable.upper.switch, (*path, cable))
                    for at, path in ups
                    for cable in self.fabric.up_choices[at]
                    if self._lives(cable)
                ],
                rises + 1,
            )
            for top, path in ups:
                for down in self._down(top, target, {cable.lower.switch for cable in path}):
                    shortest = min(shortest, rises + len(down))
                    yield (*(cable.up_link for cable in path), *down)

    def _down(self, at: str, target: str, passed: set[str]) -> Iterator[tuple[str, ...]]:
        """Yield the links down from a switch to a leaf that pass none of these switches."""
        if at == target:
            yield ()
            return
        for cable in self.fabric.down_cables.get(at, ()):
            below = cable.lower.switch
            if below not in passed and target in self.fabric.leaves_below[below] and self._lives(cable):
                for rest in self._down(below, target, passed):
                    yield (cable.down_link, *rest)

    @cached_property
    def _known(self) -> dict[tuple[str, str], list[tuple[str, ...]]]:
        return {}

    def _lives(self, cable: Cable) -> bool:
        failed = self.fabric.failed
        ends = {cable.lower.switch, cable.upper.switch}
        return cable.id not in failed.down_cables and failed.down_switches.isdisjoint(ends)


class Planner(Protocol):
    """What an entry point of the group `heddle.planners` names: a class of this form, without arguments."""

    interface: int
    """The INTERFACE that it was written for."""

    def paths(self, problem: Problem) -> Mapping[str, Sequence[str]]:
        """Return the directed links of a path by flow id, for every one of `problem.demands`."""
