"""The symmetries of a regular Clos fabric, as permutations of its links: what turns one plan into another as good.

A rotation shifts every leaf's uplinks, and with three tiers every aggregation switch's cables to the cores, by the same
number of places. Uplinks are shifted by planes (with two tiers by spines), and parallel ones within a plane, so that a
plane stays together. So the flows of a link move together to one other link, and a rotated plan has the loads of the
plan, on other links.

Rotation `uplink_shift + columns * core_shift` is one number; 0 leaves all links where they are.
"""

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np

from heddle.controller.model.health import Health
from heddle.controller.planner.ground.clos import NO_LINK, Live, Topology
from heddle.controller.planner.ground.jit import Ints
from heddle.controller.planner.ground.shape import TwoTier, shape_of

MAX_KEPT = 4_000_000
"""The cables of all rotations that are kept: 64 MB."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rotations:
    """The rotations of a fabric.

    `uplink[leaf, plane, place]` and `core_link[pod, plane, place]` are cables; with two tiers a plane is a spine, and
    there are no core links.
    """

    cables: int
    uplink: Ints
    core_link: Ints
    _known: dict[int, Ints] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        """Return the number of uplinks of a leaf."""
        return int(self.uplink.shape[1] * self.uplink.shape[2])

    @property
    def cores(self) -> int:
        """Return the number of cables from an aggregation switch to the cores; 1 with two tiers."""
        return max(1, int(self.core_link.shape[2]))

    @property
    def count(self) -> int:
        """Return the number of rotations: the most paths that a template can give a flow."""
        return self.columns * self.cores

    def shifts(self, rotation: int) -> tuple[int, int]:
        """Return how far a rotation shifts uplinks, and cables to the cores."""
        core_shift, uplink_shift = divmod(rotation, self.columns)
        return uplink_shift, core_shift

    def links(self, rotation: int) -> Ints:
        """Return by directed link between switches the one that takes its place; the last entry is for the padding."""
        found = self._known.get(rotation)
        if found is None:
            found = self._permuted(rotation)
            if len(self._known) * self.cables < MAX_KEPT:
                self._known[rotation] = found
        return found

    def _permuted(self, rotation: int) -> Ints:
        uplink_shift, core_shift = self.shifts(rotation)
        plane, place = divmod(uplink_shift, self.uplink.shape[2])
        cable = np.arange(self.cables, dtype=np.int64)
        cable[self.uplink] = np.roll(self.uplink, (-plane, -place), axis=(1, 2))
        cable[self.core_link] = np.roll(self.core_link, (-plane, -core_shift), axis=(1, 2))
        return np.concatenate((cable, cable + self.cables, [NO_LINK]))


_found: WeakKeyDictionary[Topology, Rotations | None] = WeakKeyDictionary()


def rotations_of(topology: Topology) -> Rotations | None:
    """Return the rotations of a fabric as built; None where the links above its leaves are not regular."""
    built = topology.built
    if built not in _found:
        _found[built] = _rotations(built)
    return _found[built]


def _rotations(topology: Topology) -> Rotations | None:
    """Return the rotations of all planes of a fabric together; None where these differ, or are irregular."""
    leaves = np.flatnonzero(topology.tier == 0)
    parts = [
        _of_plane(topology, leaves[topology.plane[leaves] == plane]) for plane in np.unique(topology.plane[leaves])
    ]
    if not parts or len({None if part is None else tuple(each.shape[1:] for each in part) for part in parts}) > 1:
        return None
    found = [part for part in parts if part is not None]
    if not found:
        return None
    uplink, core_link = (np.concatenate([part[at] for part in found]) for at in (0, 1))
    return Rotations(cables=topology.cables, uplink=uplink, core_link=core_link)


def _of_plane(topology: Topology, leaves: Ints) -> tuple[Ints, Ints] | None:
    """Return the uplinks and core links of the fabric above some leaves; None where it is irregular."""
    shape = shape_of(topology, Live.of(topology, Health()), leaves)
    if shape is None:
        return None
    if isinstance(shape, TwoTier):
        plane_of: Ints = np.unique(topology.upper[shape.uplink[0]], return_inverse=True)[1].reshape(-1)
        core_link = np.empty((0, int(plane_of.max()) + 1, 0), dtype=np.int64)
    else:
        plane_of, core_link = shape.plane_of, shape.core_link
    sizes = np.bincount(plane_of)
    if (sizes != sizes[0]).any():
        return None
    return shape.uplink.reshape(len(shape.uplink), len(sizes), int(sizes[0])), core_link
