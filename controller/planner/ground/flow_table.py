"""A job's flow plans as a sequence that builds each `FlowPlan` on access."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import overload

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import ALWAYS, AdmissionWindow, FlowPlan, PathTemplate, PathTemplates
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.path_sets import PathSets, asked_paths
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.rotations import rotations_of
from heddle.controller.planner.ground.turns import Turns
from heddle.foundation.traffic_class import CLASSES


class ConservingFlowPlan(FlowPlan):
    """A flow plan whose sender may exceed `rate_bps`, up to the rate of its NIC."""

    __slots__ = ()
    work_conserving = True


class FlowTable(Sequence[FlowPlan]):
    """An immutable sequence of flow plans over arrays.

    `flows`, `hops`, `reverse_hops`, `ports`, `reverse_ports` and `rates` have a row per flow plan; hops are the
    switch-to-switch links of `topology`, padded with -1; `turns` is None where all flows may always send, `conserving`
    where no flow may exceed its rate, `sets` where no flow is sprayed over several paths.
    """

    conserving: Flags | None = None
    """A default of the class, as that of `sets`: recordings have tables without them."""
    sets: PathSets | None = None

    def __init__(
        self, topology: Topology, request: JobRequest, paths: Paths, rates: Ints, turns: Turns | None = None,
        conserving: Flags | None = None, sets: PathSets | None = None,
    ) -> None:  # fmt: skip
        self.topology, self.request, self.flows, self.hops = topology, request, paths.flows, paths.hops
        self.ports, self.reverse_hops, self.reverse_ports = paths.ports, paths.reverse_hops, paths.reverse_ports
        self.rates, self.turns, self.conserving = rates, turns, conserving
        if sets is not None:
            self.sets = sets

    @property
    def conserving_count(self) -> int:
        """Return how many flows may exceed their rates."""
        return int(self.conserving.sum()) if self.conserving is not None else 0

    @property
    def paths(self) -> Paths:
        """Return the flows with their paths and ports."""
        return Paths(
            flows=self.flows, hops=self.hops, ports=self.ports, reverse_hops=self.reverse_hops,
            reverse_ports=self.reverse_ports,
        )  # fmt: skip

    def with_rates(self, rates: Ints, turns: Turns | None = None, conserving: Flags | None = None) -> "FlowTable":
        """Return the same paths and ports with other rates and turns."""
        return FlowTable(self.topology, self.request, self.paths, rates, turns, conserving, self.sets)

    def with_paths(self, paths: Paths) -> "FlowTable":
        """Return the same rates and turns on other paths or ports."""
        return FlowTable(self.topology, self.request, paths, self.rates, self.turns, self.conserving, self.sets)

    def with_ports(self, ports: Mapping[int, int]) -> "FlowTable":
        """Return the same paths and rates with other source ports of the data, given by row."""
        changed = self.ports.copy()
        changed[list(ports)] = list(ports.values())
        return self.with_paths(replace(self.paths, ports=changed))

    def sends_at(self, rates: Ints, turns: Turns | None, conserving: Flags | None = None) -> bool:
        """Return whether these are its rates and turns, and the flows that may exceed them."""
        same = turns is None if self.turns is None else self.turns.equals(turns)
        return same and np.array_equal(self.rates, rates) and _equal(self.conserving, conserving)

    def sprays_over(self, sets: PathSets | None) -> bool:
        """Return whether these are the lists of its flows."""
        return self.sets is sets or (self.sets is not None and self.sets.equals(sets))

    def changed_since(self, before: "FlowTable") -> list[FlowPlan]:
        """Return the flow plans that differ from those of an earlier table of the same request."""
        if len(before) != len(self) or before.request != self.request:
            raise ValueError(f"{self.request.job_id}: the tables are not of the same request")
        differs: Flags = np.zeros(len(self), dtype=np.bool_)
        for new, old in zip((self.rates, *self._columns()), (before.rates, *before._columns()), strict=True):
            unequal = new != old
            differs |= unequal.any(axis=1) if unequal.ndim > 1 else unequal
        if not _equal(self.conserving, before.conserving):
            differs |= _flags(self) != _flags(before)
        if self.sets is not None and not self.sprays_over(before.sets):
            differs |= self.sets.differs(before.sets)
        for row in range(len(self)) if self.turns is not None or before.turns is not None else ():
            differs[row] |= self._window(row) != before._window(row)
        return [self._plan(row) for row in np.flatnonzero(differs).tolist()]

    def _window(self, row: int) -> AdmissionWindow:
        return self.turns.window(row) if self.turns is not None else ALWAYS

    def __len__(self) -> int:
        return len(self.flows)

    @overload
    def __getitem__(self, index: int) -> FlowPlan: ...
    @overload
    def __getitem__(self, index: slice) -> list[FlowPlan]: ...
    def __getitem__(self, index: int | slice) -> FlowPlan | list[FlowPlan]:
        if isinstance(index, slice):
            return [self._plan(row) for row in range(*index.indices(len(self)))]
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(index)
        return self._plan(row)

    def __iter__(self) -> Iterator[FlowPlan]:
        return (self._plan(row) for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FlowTable):
            return (
                self.request.job_id == other.request.job_id
                and self.sends_at(other.rates, other.turns, other.conserving)
                and self.sprays_over(other.sets)
                and all(map(np.array_equal, self._columns(), other._columns()))
            )
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def _columns(self) -> tuple[Ints, ...]:
        flows = self.flows
        ends = (flows.src_nic, flows.dst_nic, flows.src_rank, flows.dst_rank, flows.collective, flows.queue_pair)
        paths = (self.hops, self.ports, self.reverse_hops, self.reverse_ports)
        return (*ends, flows.phase, flows.demand_bps, *paths)

    def flow_id(self, row: int) -> str:
        """Return the id of a flow."""
        flows = self.flows
        ranks = f"{flows.src_rank[row]}-{flows.dst_rank[row]}"
        return f"{self.request.job_id}/{flows.collective[row]}/{ranks}/{flows.queue_pair[row]}"

    def links(self, row: int) -> tuple[str, ...]:
        """Return the link ids of a flow's path, NIC links included."""
        return path_links(self.topology, int(self.flows.src_nic[row]), self.hops[row], int(self.flows.dst_nic[row]))

    def entries(self, row: int) -> tuple[int, ...]:
        """Return the list of a flow that is sprayed; () for one path, as inside a leaf."""
        if self.sets is None:
            return ()
        return tuple(self.sets.entries(row).tolist()) if self._is_sprayed[row] else ()

    @cached_property
    def _is_sprayed(self) -> Flags:
        """Return which flows have several paths."""
        flows = replace(self.flows, job=np.zeros(len(self), dtype=np.int64))
        found: Flags = asked_paths(self.topology, (self.request,), flows) > 1
        return found & (self.hops[:, 0] >= 0)

    def __getstate__(self) -> dict[str, object]:
        """Return what recordings have of it: not what it has computed."""
        return {name: value for name, value in self.__dict__.items() if name != "_is_sprayed"}

    @property
    def path_templates(self) -> PathTemplates | None:
        """Return the lists that most flows of each collective have; None where none is sprayed."""
        if self.sets is None or (rotations := rotations_of(self.topology)) is None:
            return None
        found: dict[tuple[int, ...], list[int]] = {}
        for index in np.unique(self.flows.collective[self._is_sprayed]).tolist():
            rows = np.flatnonzero((self.flows.collective == index) & self._is_sprayed)
            entries, _ = max(self.sets.rows_by_list(rows), key=lambda each: len(each[1]))
            found.setdefault(tuple(entries.tolist()), []).append(index)
        templates = tuple(PathTemplate(tuple(indices), entries) for entries, indices in found.items())
        return PathTemplates(rotations.columns, templates)

    def _plan(self, row: int) -> FlowPlan:
        flows, nic_ids = self.flows, self.topology.nic_ids
        source, target = int(flows.src_nic[row]), int(flows.dst_nic[row])
        collective, queue_pair = int(flows.collective[row]), int(flows.queue_pair[row])
        src_rank, dst_rank = int(flows.src_rank[row]), int(flows.dst_rank[row])
        of = CLASSES[self.topology.nic_class[source]]
        kind = ConservingFlowPlan if self.conserving is not None and self.conserving[row] else FlowPlan
        return kind(
            flow_id=f"{self.request.job_id}/{collective}/{src_rank}-{dst_rank}/{queue_pair}",
            src_nic=nic_ids[source],
            dst_nic=nic_ids[target],
            links=path_links(self.topology, source, self.hops[row], target),
            udp_source_port=int(self.ports[row]),
            rate_bps=int(self.rates[row]),
            demand_bps=int(flows.demand_bps[row]),
            reverse_links=path_links(self.topology, target, self.reverse_hops[row], source),
            reverse_udp_source_port=int(self.reverse_ports[row]),
            phase=int(flows.phase[row]),
            src_rank=src_rank,
            dst_rank=dst_rank,
            collective=collective,
            queue_pair=queue_pair,
            pinned=bool(flows.pinned[row]),
            dscp=of.dscp,
            priority_group=of.priority,
            window=self._window(row),
            entries=self.entries(row),
        )


def sprays_over(flows: Sequence[FlowPlan], sets: PathSets | None) -> bool:
    """Return whether these are the lists of flows; flow plans that are no table have none."""
    return flows.sprays_over(sets) if isinstance(flows, FlowTable) else sets is None


def path_links(topology: Topology, source: int, hops: Ints, target: int) -> tuple[str, ...]:
    """Return the link ids of a path from one NIC to another, NIC links included."""
    first, ids = topology.first_nic_link, topology.link_ids
    return (ids[first + source], *[ids[hop] for hop in hops.tolist() if hop >= 0], ids[first + topology.nics + target])


def _flags(table: FlowTable) -> Flags:
    """Return for each flow whether it may exceed its rate."""
    return table.conserving if table.conserving is not None else np.zeros(len(table), dtype=np.bool_)


def _equal(mine: Flags | None, theirs: Flags | None) -> bool:
    return mine is theirs or (mine is not None and theirs is not None and np.array_equal(mine, theirs))
