"""Encode paths in UDP source ports and decode them, by the bit fields of `controller.model.steering`."""

import weakref
from dataclasses import dataclass

import numpy as np

from heddle.controller.model.fabric import Cable, Fabric, Role
from heddle.controller.model.port_layout import PORT_BASE, SteeringLayout, choice_of, home_value
from heddle.controller.model.steering import layout_of, stage_down, stage_up
from heddle.controller.planner.ground.clos import NO_LINK, Topology
from heddle.controller.planner.ground.jit import Ints, kernel
from heddle.controller.planner.ground.ordered import first_from


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PortTable:
    """The port bits of each cable on a path.

    `up[cable]` is exact; `down[cable]` applies where the cable is in one group of its upper switch, or at the same
    index in all. The few other cables are in `special`, sorted keys cable x switches + destination leaf, and
    `special_down` has their bits.
    """

    up: Ints
    down: Ints
    special: Ints
    special_down: Ints
    entropy_bits: int


_known: dict[int, tuple[weakref.ref[Fabric], PortTable]] = {}


def port_table_of(fabric: Fabric, topology: Topology) -> PortTable:
    """Return the port table of a fabric, built on the first call and kept as long as the fabric exists."""
    key = id(fabric)
    found = _known.get(key)
    if found is not None and found[0]() is fabric:
        return found[1]
    table = port_table(fabric, topology, layout_of(fabric))
    _known[key] = (weakref.ref(fabric, lambda _: _known.pop(key, None)), table)
    return table


def port_table(fabric: Fabric, topology: Topology, layout: SteeringLayout) -> PortTable:
    """Compute the port bits of every cable of a fabric."""
    # One row more than cables: a fabric without cables may have flows between NICs of one leaf.
    up, down = np.zeros(topology.cables + 1, dtype=np.int64), np.full(topology.cables + 1, NO_LINK, dtype=np.int64)
    by_leaf: dict[tuple[int, int], int] = {}
    known: dict[tuple[tuple[int, ...], int], tuple[int, ...]] = {}

    def values(cables: tuple[Cable, ...], stage: int) -> tuple[int, ...]:
        weights = tuple(cable.capacity_bps for cable in cables)
        if (weights, stage) not in known:
            field = layout.fields[stage]
            known[weights, stage] = tuple(home_value(weights, field, i) << field.shift for i in range(len(weights)))
        return known[weights, stage]

    for switch in fabric.switches:
        cables = fabric.up_choices[switch.id]
        if cables:
            up[[topology.cable_index[cable.id] for cable in cables]] = values(cables, stage_up(switch.role))
        for group in fabric.down_groups.get(switch.id, ()):
            for cable, value in zip(group.cables, values(group.cables, stage_down(switch.role)), strict=True):
                number = topology.cable_index[cable.id]
                if down[number] in (NO_LINK, value):
                    down[number] = value
                else:
                    by_leaf |= {(number, topology.switch_index[leaf]): value for leaf in group.leaves}
    special = {cable * len(topology.switch_ids) + leaf: value for (cable, leaf), value in by_leaf.items()}
    return PortTable(
        up=up,
        down=np.maximum(down, 0),
        special=np.array(sorted(special), dtype=np.int64),
        special_down=np.array([special[key] for key in sorted(special)], dtype=np.int64),
        entropy_bits=layout.spare_bits,
    )


def ports_of(topology: Topology, table: PortTable, hops: Ints, target: Ints, entropy: Ints) -> Ints:
    """Return the port of each path; `target` is its destination NIC, `entropy` the value of its spare bits."""
    sizes = (topology.cables, len(topology.switch_ids), (1 << table.entropy_bits) - 1)
    ends = (target, topology.nic_leaf)
    return _ports(hops, ends, entropy, table.up, table.down, table.special, table.special_down, sizes)


@kernel
def _ports(
    hops: Ints, ends: tuple[Ints, Ints], entropy: Ints, up: Ints, down: Ints, special: Ints, special_down: Ints,
    sizes: tuple[int, int, int],
) -> Ints:  # fmt: skip
    (cables, switches, spare), (target, nic_leaf) = sizes, ends
    ports = np.empty(hops.shape[0], np.int64)
    for f in range(hops.shape[0]):
        port = PORT_BASE
        for column in range(hops.shape[1]):
            link = hops[f, column]
            if link >= cables:
                bits = down[link - cables]
                if special.shape[0] > 0:
                    key = (link - cables) * switches + nic_leaf[target[f]]
                    place = first_from(special, 0, special.shape[0], key)
                    if place < special.shape[0] and special[place] == key:
                        bits = special_down[place]
                port += bits
            elif link >= 0:
                port += up[link]
        ports[f] = port | (entropy[f] & spare)
    return ports


def port_of_path(fabric: Fabric, layout: SteeringLayout, links: tuple[str, ...], entropy: int = 0) -> int:
    """Return the UDP source port that selects a path of links from source NIC to destination NIC."""
    leaf = _leaf_before(fabric, links[-1])
    port = PORT_BASE
    for link in links[1:-1]:
        cable = fabric.cable_by_link[link]
        if link == cable.up_link:
            choices, stage = fabric.up_choices[cable.lower.switch], stage_up(_role(fabric, cable.lower.switch))
        else:
            choices = _cables_down(fabric, cable.upper.switch, leaf)
            stage = stage_down(_role(fabric, cable.upper.switch))
        field = layout.fields[stage]
        weights = tuple(choice.capacity_bps for choice in choices)
        port |= home_value(weights, field, choices.index(cable)) << field.shift
    return port | (entropy & ((1 << layout.spare_bits) - 1))


def path_of_port(
    fabric: Fabric, layout: SteeringLayout, src_nic: str, dst_nic: str, port: int
) -> tuple[str, ...] | None:
    """Return the path that a port selects in a fabric without failures; None where a switch has no link to the NIC."""
    source, target = fabric.nic_by_id[src_nic], fabric.nic_by_id[dst_nic]
    links, switch, leaf = [source.up_link], source.port.switch, target.port.switch
    while switch != leaf:
        down = leaf in fabric.leaves_below[switch]
        choices = _cables_down(fabric, switch, leaf) if down else fabric.up_choices[switch]
        if not choices:
            return None
        role = _role(fabric, switch)
        field = layout.fields[stage_down(role) if down else stage_up(role)]
        value = (port - PORT_BASE) >> field.shift & ((1 << field.width) - 1)
        weights = tuple(choice.capacity_bps for choice in choices)
        cable = choices[choice_of(weights, field, value) if len(choices) > 1 else 0]
        links.append(cable.down_link if down else cable.up_link)
        switch = cable.lower.switch if down else cable.upper.switch
    return (*links, target.down_link)


def _role(fabric: Fabric, switch: str) -> Role:
    return fabric.switch_by_id[switch].role


def _cables_down(fabric: Fabric, switch: str, leaf: str) -> tuple[Cable, ...]:
    return next((group.cables for group in fabric.down_groups[switch] if leaf in group.leaves), ())


def _leaf_before(fabric: Fabric, nic_link: str) -> str:
    return nic_link.split(">")[0].rsplit(":", 1)[0]
