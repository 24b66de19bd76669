"""What one job puts on every link that it uses, worked out when somebody asks."""

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from controller.planner.clos import Topology
from controller.planner.expand import Flows
from controller.planner.jit import Ints
from controller.planner.proof.loads import link_loads, link_places


class LinkLoads(Mapping[str, int]):
    """Link id to bits per second, NIC links included; the first look costs a walk over the job's flows."""

    def __init__(self, topology: Topology, flows: Flows, hops: Ints) -> None:
        self._topology, self._flows, self._hops = topology, flows, hops

    @cached_property
    def _by_link(self) -> dict[str, int]:
        loads = link_loads(self._topology, self._flows, self._hops)
        used = np.zeros(len(loads), dtype=np.bool_)
        places = link_places(self._topology, self._flows, self._hops)
        used[places[places >= 0]] = True
        links = np.flatnonzero(used)
        whole = np.rint(loads[links]).astype(np.int64).tolist()
        return {self._topology.link_ids[link]: load for link, load in zip(links.tolist(), whole, strict=True)}

    def __getitem__(self, link: str) -> int:
        return self._by_link[link]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_link)

    def __len__(self) -> int:
        return len(self._by_link)
