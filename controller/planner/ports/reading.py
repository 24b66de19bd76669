"""Check that source ports lead over the paths that were planned with them, in a fabric that may have changed since.

A path is followed as switches forward: down where the destination leaf is below, else up, and among several cables by
the port's bits. Failures do not count: they are handled as failures, and mean nothing to a port. Nor do rules that lead
a port around a switch which does not reach the leaf: a flow that only they would lead over its path strays.
"""

from dataclasses import dataclass

import numpy as np

from heddle.controller.model.fabric import Cable, Fabric
from heddle.controller.model.port_layout import PORT_BITS, SteeringLayout, blocks
from heddle.controller.model.steering import stage_down, stage_up
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.streams import tuple_keys

Choices = tuple[tuple[int, ...], int]
"""The capacities of the cables among which a switch chooses, in order, and the stage at which it does."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortReader:
    """What selects each directed link between switches.

    A row is a directed link: cable c upwards is row c, downwards C + c. The port selects the link where
    `chosen[first + (port >> shift & mask)]` equals `choice`. The few cables downwards that are another choice towards
    some leaves have further rows for those, by the sorted keys `special` = cable x switches + leaf.
    `below[switch, leaf]` is whether the leaf is below the switch.
    """

    topology: Topology
    first: Ints
    shift: Ints
    mask: Ints
    choice: Ints
    chosen: Ints
    special: Ints
    special_row: Ints
    below: Flags


class _Rows:
    """The rows of a reader while it is built."""

    def __init__(self, layout: SteeringLayout, count: int) -> None:
        self._layout = layout
        self._known: dict[Choices, int] = {}
        self.chosen: list[int] = [0]
        self.rows: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)] * count

    def row(self, choices: Choices, choice: int) -> tuple[int, int, int, int]:
        """Return first, shift, mask and choice of one of several cables; all zero where there is only one."""
        weights, stage = choices
        if len(weights) == 1:
            return (0, 0, 0, 0)
        field = self._layout.fields[stage]
        if choices not in self._known:
            self._known[choices] = len(self.chosen)
            values = np.zeros(1 << field.width, dtype=np.int64)
            for block in blocks(weights, field):
                low = field.width - block.length
                values[block.value << low : (block.value + 1) << low] = block.choice
            self.chosen += values.tolist()
        return self._known[choices], field.shift, (1 << field.width) - 1, choice


def reader_of(fabric: Fabric, topology: Topology, layout: SteeringLayout) -> PortReader:
    """Return what selects each link of a fabric."""
    cables, switches = topology.cables, len(topology.switch_ids)
    made, special = _Rows(layout, max(1, 2 * cables)), dict[int, int]()
    seen: set[int] = set()
    for switch in fabric.switches:
        up = fabric.up_choices[switch.id]
        for place, cable in enumerate(up):
            made.rows[topology.cable_index[cable.id]] = made.row((_weights(up), stage_up(switch.role)), place)
        for group in fabric.down_groups.get(switch.id, ()):
            for place, cable in enumerate(group.cables):
                number = cables + topology.cable_index[cable.id]
                row = made.row((_weights(group.cables), stage_down(switch.role)), place)
                if number not in seen:
                    seen.add(number)
                    made.rows[number] = row
                elif made.rows[number] != row:
                    for leaf in group.leaves:
                        special[(number - cables) * switches + topology.switch_index[leaf]] = len(made.rows)
                    made.rows.append(row)
    first, shift, mask, choice = np.array(made.rows, dtype=np.int64).T
    return PortReader(
        topology=topology, first=first, shift=shift, mask=mask, choice=choice,
        chosen=np.array(made.chosen, dtype=np.int64),
        special=np.array(sorted(special), dtype=np.int64),
        special_row=np.array([special[key] for key in sorted(special)], dtype=np.int64),
        below=_below(fabric, topology),
    )  # fmt: skip


def _weights(cables: tuple[Cable, ...]) -> tuple[int, ...]:
    return tuple(cable.capacity_bps for cable in cables)


def _below(fabric: Fabric, topology: Topology) -> Flags:
    count = len(topology.switch_ids)
    found = np.zeros((count, count), dtype=np.bool_)
    for switch, leaves in fabric.leaves_below.items():
        found[topology.switch_index[switch], [topology.switch_index[leaf] for leaf in leaves]] = True
    return found


def strayed(reader: PortReader, paths: Paths, *, by_port: bool, stranded: int = 0) -> Flags:
    """Return which flows of one job would leave their planned path, that of their data or that of their ACKs.

    `by_port`: source ports select cables, other than of pinned streams; otherwise a path only has to join its NICs.
    The `stranded` flows of the job have no path, and do not stray. A stream that a pin of another job leads strays with
    its port: it needs the port when that job ends.
    """
    flows, topology = paths.flows, reader.topology
    back = tuple_keys(topology, flows.dst_nic, flows.src_nic, 0)
    pinned_back = np.isin(back, tuple_keys(topology, flows.src_nic, flows.dst_nic, 0)[flows.by_addresses])
    there = _follows(reader, paths.hops, paths.ports, (flows.src_nic, flows.dst_nic), ~flows.pinned & by_port)
    again = (flows.dst_nic, flows.src_nic)
    found = ~there | ~_follows(reader, paths.reverse_hops, paths.reverse_ports, again, ~pinned_back & by_port)
    lost = (topology.nic_leaf[flows.src_nic] != topology.nic_leaf[flows.dst_nic]) & (paths.hops < 0).all(axis=1)
    return np.asarray(found & ~lost if lost.sum() <= stranded else found, dtype=np.bool_)


def _follows(reader: PortReader, hops: Ints, ports: Ints, ends: tuple[Ints, Ints], by_port: Flags) -> Flags:
    """Return which rows of links lead from NIC to NIC, each of them selected by the port where `by_port` says so."""
    topology, cables = reader.topology, reader.topology.cables
    lower, upper = np.append(topology.lower, -1), np.append(topology.upper, -1)
    bits = ports & ((1 << PORT_BITS) - 1)
    at, leaf = topology.nic_leaf[ends[0]], topology.nic_leaf[ends[1]]
    good = np.ones(len(hops), dtype=np.bool_)
    for column in range(hops.shape[1]):
        link = hops[:, column]
        taken, falls = link >= 0, link >= cables
        cable = np.where(falls, link - cables, link)
        start, end = np.where(falls, upper[cable], lower[cable]), np.where(falls, lower[cable], upper[cable])
        row = _row(reader, np.where(taken, link, 0), cable, leaf)
        value = bits >> reader.shift[row] & reader.mask[row]
        selected = ~by_port | (reader.chosen[reader.first[row] + value] == reader.choice[row])
        good &= ~taken | ((start == at) & (reader.below[start, leaf] == falls) & selected)
        at = np.where(taken, end, at)
    return np.asarray(good & (at == leaf), dtype=np.bool_)


def _row(reader: PortReader, link: Ints, cable: Ints, leaf: Ints) -> Ints:
    """Return the row of each directed link towards a leaf."""
    if not len(reader.special):
        return link
    key = cable * len(reader.topology.switch_ids) + leaf
    place = np.minimum(np.searchsorted(reader.special, key), len(reader.special) - 1)
    found = (reader.special[place] == key) & (link >= reader.topology.cables)
    return np.where(found, reader.special_row[place], link)
