"""The arrays of a session: rows for flows that come and go, loads and lists of links, and what is alive.

A flow keeps its row from the event that adds it to the event that removes it; the rows of removed flows are reused.
This module chooses no paths.
"""

from dataclasses import dataclass

import numpy as np

from heddle.controller.planner.ground.clos import NO_LINK, Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, Rows, Small
from heddle.controller.planner.ground.shape import Shape, ThreeTier, TwoTier, shape_of
from heddle.controller.planner.session.chains import CANDIDATES
from heddle.controller.planner.session.cuts import Cuts
from heddle.controller.planner.session.paths import fullest_link, mark_seats, mark_stranded, reset_flows
from heddle.controller.planner.session.seats import FRONT, MAX_FRONT, MAX_TRAIL, TRAIL, Seats
from heddle.controller.planner.session.table import (
    CHAIN,
    CHANGE,
    COUNTER,
    DEAD,
    FLOW,
    LINK,
    SPAN,
    SPOT,
    Arrays,
    Counters,
)

SPARE_LOG = 1 << 16
"""Rows of the log for the changes that chains make in one event, beside those for the flows at hand."""
MAX_CHAIN = 4096
"""The flows of a chain."""
UNLIMITED = 1 << 60
MAX_COLUMNS = 64
"""The columns that the bits of one word can represent."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tables:
    """The columns of a regular Clos fabric, or a single empty one."""

    regular: bool
    up_leaf: Ints
    up_plane: Ints
    plane_of: Ints
    pod_row: Ints
    planes: int
    pods: int


class Store:
    """All arrays of a session; those with a row per flow grow on demand."""

    def __init__(self, topology: Topology) -> None:
        """Allocate the arrays for a fabric without failures and flows."""
        self.topology = topology
        leaves = np.flatnonzero(topology.tier == 0)
        self.leaf_row: Ints = np.full(len(topology.switch_ids), NO_LINK, dtype=np.int64)
        self.leaf_row[leaves] = np.arange(len(leaves))
        tables = _tables_of(topology, leaves)
        self.regular = tables.regular
        self.cuts = Cuts(topology, self.leaf_row, tables.pod_row, tables.pods)
        self.links = 2 * topology.cables
        self.background: Floats = np.zeros(self.links)
        self._alive_inverse = _inverse(topology.capacity[: self.links])
        self._blocked: Ints = np.zeros(topology.cables, dtype=np.int64)
        self._alive_divisor: Floats = np.where(self._alive_inverse < DEAD, topology.capacity[: self.links], np.inf)
        self.divisor = self._alive_divisor.copy()
        self.stranded: Flags = np.ones(0, dtype=np.bool_)
        self.used: Flags = np.zeros(0, dtype=np.bool_)
        self.before_event: Flags = self.stranded
        self.dead_leaf: Ints = np.zeros(len(leaves), dtype=np.int64)
        self.pins = 0
        self.index: Ints = np.empty(0, dtype=np.int64)
        self._free: Ints = np.empty(0, dtype=np.int64)
        self.s = self._empty_arrays(tables)
        self.counter = Counters(*(self.s.counter[name] for name in Counters._fields))
        self._trail: Rows = np.empty(MAX_TRAIL, dtype=TRAIL)
        self.seat_rows: Ints = np.empty(MAX_TRAIL, dtype=np.int64)
        self.seat_paths: Ints = np.empty((MAX_TRAIL, 4), dtype=np.int64)
        self._front: Rows = np.empty(MAX_FRONT, dtype=FRONT)
        self.full: Ints = np.empty(self.links, dtype=np.int64)
        self.seated: Ints = np.zeros(1, dtype=np.int64)
        widths: Ints = np.unique(topology.cable_capacity[topology.cable_capacity > 0])
        self.seat_bps = float(widths[0]) if len(self.s.free) and len(widths) == 1 else 0.0
        mark_seats(self.s, np.arange(self.links, dtype=np.int64))

    def _empty_arrays(self, tables: _Tables) -> Arrays:
        plane_at: Ints = np.zeros(self.topology.cables, dtype=np.int64)
        if tables.planes:
            plane_at[tables.up_leaf] = tables.plane_of
        # The fields of a link are adjacent: the cache lines that it touches limit the speed of a walk over links.
        link = _aligned_rows(self.links, LINK)
        link["inverse"], link["head"] = self._alive_inverse, NO_LINK
        shift, seat_of, vertices = _seats_of(tables, self.topology.cables)
        return Arrays(
            cables=self.topology.cables, planes=tables.planes, inverse=link["inverse"],
            load=link["load"], head=link["head"], flow=_aligned_rows(0, FLOW),
            up_leaf=tables.up_leaf, up_plane=tables.up_plane, plane_of=tables.plane_of, plane_at=plane_at,
            pod=tables.pod_row, layer_load=np.zeros((0, self.links)), layer_span=np.zeros(0, dtype=SPAN),
            log=np.empty(SPARE_LOG, dtype=CHANGE),
            chain=np.zeros(MAX_CHAIN, dtype=np.int64), carried=np.zeros(MAX_CHAIN, dtype=np.int64),
            best=np.zeros(CANDIDATES + 3, dtype=CHAIN), counter=np.zeros(1, dtype=COUNTER),
            shift=shift, seat_of=seat_of, owner=np.full(vertices << shift, -2, dtype=np.int32),
            free=np.zeros(vertices, dtype=np.int64), spot=_spots(0),
        )  # fmt: skip

    @property
    def seats(self) -> Seats:
        """Return the seat tables for the kernels."""
        s = self.s
        return Seats(
            right=len(s.free) // 2, leaves=len(s.up_leaf), planes=s.planes, shift=s.shift, owner=s.owner, free=s.free,
            spot=s.spot, pod=s.pod, plane_of=s.plane_of, trail=self._trail, front=self._front, used=self.seated,
        )  # fmt: skip

    @property
    def paths(self) -> Ints:
        """Return the links of each row by role: up, up to the core, down from it, down."""
        return np.asarray(self.s.flow["path"])

    @property
    def phased(self) -> bool:
        """Return whether a job has several phases."""
        return bool(self.s.layer_span["end"].any())

    def begin_event(self, who: int, budget: int | None) -> None:
        """Clear the log and set which flows may move, and how many."""
        counter = self.counter
        counter.event[0] += 1
        counter.logged[0] = counter.used[0] = 0
        counter.who[0], counter.budget[0] = who, UNLIMITED if budget is None else budget
        counter.thrifty[0] = 0 if budget is None else 1 if budget else 2
        self.before_event = self.stranded.copy()

    def new_tick(self) -> int:
        """Return a stamp that no flow has yet."""
        self.counter.tick[0] += 1
        return int(self.counter.tick[0])

    def reserve_log(self, flows: int) -> None:
        """Reserve rows of the log for the removal and placement of so many flows, beside those of the chains."""
        logged = int(self.counter.logged[0])
        self.counter.reserve[0] = 4 * flows
        if len(self.s.log) < logged + 4 * flows + SPARE_LOG // 2:
            grown: Rows = np.empty(logged + 4 * flows + SPARE_LOG, dtype=CHANGE)
            grown[:logged] = self.s.log[:logged]
            self.s = self.s._replace(log=grown)

    def allot(self, number: int, tenant: int, flows: Flows, source: Ints, target: Ints, phases: Ints) -> Ints:
        """Allot rows without paths to the flows of a job and return them; `phases` is the layer of each flow or -1."""
        count = len(flows)
        if count > len(self._free):
            self._grow(count - len(self._free))
        rows = self._free[len(self._free) - count :][::-1].copy()
        self._free = self._free[: len(self._free) - count]
        columns = (source, target, flows.demand_bps, flows.by_addresses, phases)
        reset_flows(self.s.flow, self.s.spot, rows, self.counter.event[0], number, tenant, *columns)
        self.index[rows], self.stranded[rows], self.used[rows] = np.arange(count), True, True
        self.pins += int(flows.by_addresses.sum())
        # An event that adds a job begins before the job has rows.
        self.before_event = self.stranded.copy()
        return rows

    def release(self, rows: Ints) -> None:
        """Release rows, whose flows have no path any more."""
        self.pins -= int(self.s.flow["held"][rows].sum())
        self.stranded[rows], self.used[rows] = True, False
        self._free = np.concatenate((self._free, rows[::-1]))

    def _grow(self, wanted: int) -> None:
        """Add rows for at least `wanted` flows."""
        size = len(self.s.flow)
        more = max(wanted, size, 1024)
        flow = _aligned_rows(size + more, FLOW)
        flow[:size] = self.s.flow
        spot = _spots(size + more)
        spot[:size] = self.s.spot
        self.s = self.s._replace(flow=flow, spot=spot)
        self.stranded = np.concatenate((self.stranded, np.ones(more, dtype=np.bool_)))
        self.used = np.concatenate((self.used, np.zeros(more, dtype=np.bool_)))
        self.index = np.concatenate((self.index, np.zeros(more, dtype=np.int64)))
        # The lowest rows are allotted first.
        self._free = np.concatenate((np.arange(size + more - 1, size - 1, -1, dtype=np.int64), self._free))

    def layers(self, count: int) -> slice:
        """Reserve rows for the loads of a job's phases."""
        used = self.s.layer_span["end"] > self.s.layer_span["first"]
        start = 0
        while used[start : start + count].any():
            start += int(np.flatnonzero(used[start : start + count])[-1]) + 1
        missing = start + count - len(used)
        if missing > 0:
            self.s = self.s._replace(
                layer_load=np.concatenate((self.s.layer_load, np.zeros((missing, self.links)))),
                layer_span=np.concatenate((self.s.layer_span, np.zeros(missing, dtype=SPAN))),
            )
        self.s.layer_span[start : start + count] = (start, start + count)
        return slice(start, start + count)

    def block(self, cables: Ints, by: int) -> Ints:
        """Add `by` to the reasons for which these cables are out of use; return the cables whose state changes."""
        was = self._blocked[cables] > 0
        self._blocked[cables] += by
        changed: Ints = cables[was != (self._blocked[cables] > 0)]
        # All of them change in the same direction.
        links = np.concatenate((changed, changed + self.topology.cables))
        self.s.inverse[links] = DEAD if by > 0 else self._alive_inverse[links]
        self.divisor[links] = np.inf if by > 0 else self._alive_divisor[links]
        mark_seats(self.s, links)
        self.cuts.join(changed, -1 if by > 0 else 1)
        return changed

    def live(self, dead_nics: Flags) -> Live:
        """Return the live links in the form that the full planner takes."""
        cables = self._blocked == 0
        nics = ~dead_nics & (self.dead_leaf[self.leaf_row[self.topology.nic_leaf]] == 0)
        links = np.concatenate((cables, cables, nics, nics))
        return Live(topology=self.topology, links=links, whole=bool(links.all()))

    def fullest(self) -> tuple[float, int]:
        """Return the largest utilisation of the links between switches, and the first link that has it."""
        return fullest_link(self.s.load, self.s.inverse, self.divisor)

    def ends(self, flows: Flows) -> tuple[Ints, Ints]:
        """Return the source and target leaf rows of flows."""
        leaf = self.topology.nic_leaf
        return self.leaf_row[leaf[flows.src_nic]], self.leaf_row[leaf[flows.dst_nic]]

    def flows_inside(self, leaf: int) -> Ints:
        """Return the rows of the flows that begin and end at one leaf."""
        return np.flatnonzero((self.s.flow["source"] == leaf) & (self.s.flow["target"] == leaf) & self.used)

    def mark_stranded(self, rows: Ints) -> None:
        """Update `stranded`: the flows without a path, or within a leaf that is dead."""
        mark_stranded(self.s.flow, rows, self.dead_leaf, self.stranded)


def _seats_of(tables: _Tables, cables: int) -> tuple[int, Small, int]:
    """Return the bits of a column, the seat of every link (-1: none) and the number of vertices of both sides."""
    seat_of: Small = np.full(2 * cables, NO_LINK, dtype=np.int32)
    columns = max(tables.up_leaf.shape[1], tables.up_plane.shape[1] if tables.planes else 1)
    if not tables.regular or columns > MAX_COLUMNS:
        return 0, seat_of, 0
    shift, leaves = (columns - 1).bit_length(), len(tables.up_leaf)
    vertices = leaves + (len(tables.up_plane) if tables.planes else 0)
    for side in range(2):
        for cable, first in ((tables.up_leaf, 0), *([(tables.up_plane, leaves)] if tables.planes else [])):
            vertex = side * vertices + first + np.arange(len(cable))[:, None]
            seat_of[cable + side * cables] = (vertex << shift) + np.arange(cable.shape[1])
    return shift, seat_of, 2 * vertices


def _aligned_rows(rows: int, dtype: np.dtype[np.void]) -> Rows:
    """Return records of zeros that begin at a cache line."""
    room = np.zeros(rows * dtype.itemsize + 64, dtype=np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + rows * dtype.itemsize].view(dtype)


def _spots(rows: int) -> Rows:
    """Return rows of the seat tables for flows without leaves, column and core."""
    return np.full(rows * SPOT.itemsize // 4, NO_LINK, dtype=np.int32).view(SPOT)


def _inverse(capacity: Ints) -> Floats:
    some = capacity > 0
    return np.where(some, 1 / np.where(some, capacity, 1).astype(np.float64), DEAD)


def _tables_of(topology: Topology, leaves: Ints) -> _Tables:
    """Return the pods of the fabric as built, and its columns where all leaves have the same ones."""
    none: Ints = np.zeros((1, 1), dtype=np.int64)
    everything = np.ones(len(topology.capacity), dtype=np.bool_)
    shape = _shape_of_planes(topology, Live(topology=topology, links=everything, whole=True), leaves)
    pods, pod_row = np.unique(topology.pod[leaves], return_inverse=True)
    pod_row = pod_row.reshape(-1).astype(np.int64)
    middle = bool((topology.tier == 1).any())
    if isinstance(shape, ThreeTier) and len(pods) == shape.core_link.shape[0]:
        count, planes, cores = shape.core_link.shape
        # The shape numbers the pods too: its numbers apply.
        return _Tables(
            regular=True, up_leaf=np.ascontiguousarray(shape.uplink), pod_row=shape.pod.astype(np.int64), pods=count,
            up_plane=np.ascontiguousarray(shape.core_link.reshape(count * planes, cores)), planes=planes,
            plane_of=shape.plane_of.astype(np.int64),
        )  # fmt: skip
    regular = isinstance(shape, TwoTier) and not middle
    up_leaf = np.ascontiguousarray(shape.uplink) if isinstance(shape, TwoTier) and regular else none
    return _Tables(
        regular=regular, up_leaf=up_leaf, up_plane=none, pod_row=pod_row, planes=0,
        plane_of=np.zeros(up_leaf.shape[1], dtype=np.int64), pods=len(pods) if middle else 0,
    )  # fmt: skip


def _shape_of_planes(topology: Topology, live: Live, leaves: Ints) -> Shape | None:
    """Return the shapes of all planes of the fabric as one, since no flow is in two; None where these are not alike.

    In three tiers a column must determine the plane of cores of a path, too.
    """
    parts = [np.flatnonzero(topology.plane[leaves] == plane) for plane in np.unique(topology.plane[leaves])]
    found = [shape_of(topology, live, leaves[part]) for part in parts]
    order = np.argsort(np.concatenate(parts)) if parts else leaves
    two = [shape for shape in found if isinstance(shape, TwoTier)]
    if parts and len(two) == len(parts) and len({shape.uplink.shape[1] for shape in two}) == 1:
        return TwoTier(uplink=np.concatenate([shape.uplink for shape in two])[order])
    three = [shape for shape in found if isinstance(shape, ThreeTier) and _planes_apart(topology, shape)]
    sizes = {(*shape.core_link.shape[1:], *shape.plane_of.tolist()) for shape in three}
    if not parts or len(three) < len(parts) or len(sizes) > 1:
        return None
    begins = np.cumsum([0, *(len(shape.core_link) for shape in three)])
    return ThreeTier(
        uplink=np.concatenate([shape.uplink for shape in three])[order],
        plane_of=three[0].plane_of,
        pod=np.concatenate([shape.pod + begin for shape, begin in zip(three, begins, strict=False)])[order],
        core_link=np.concatenate([shape.core_link for shape in three]),
    )


def _planes_apart(topology: Topology, shape: ThreeTier) -> bool:
    """Return whether each core belongs to one plane: only then does a column determine the plane of a path."""
    cores = topology.upper[shape.core_link[0]]
    return all(len(set(plane.tolist())) for plane in cores) and len(np.unique(cores)) == sum(
        len(set(plane.tolist())) for plane in cores
    )
