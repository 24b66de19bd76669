"""Derive the state of every directed link: in use or not, drained, and the utilisation that is planned; pure.

Arrays are in the order of `Fabric.directed_links`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.controller.brain.state import State
from heddle.controller.views.view import link_loads_bps

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]


class LinkStates(NamedTuple):
    """Whether each link is up, and whether it is drained: both directions of a cable are the same."""

    up: Flags
    drained: Flags


def link_states(state: State) -> LinkStates:
    """Return what is up and what is drained. A link of a NIC is not drained where only its leaf is."""
    fabric, health, drained = state.fabric, state.health, state.drained | state.left_out
    down_nics = state.out_of_use.down_nics - state.drained
    up, out = [], []
    for cable in fabric.cables:
        ends = {cable.lower.switch, cable.upper.switch}
        up.append(cable.id not in health.down_cables and ends.isdisjoint(health.down_switches))
        out.append(cable.id in drained or not ends.isdisjoint(drained))
    up += [nic.id not in down_nics and nic.port.switch not in health.down_switches for nic in fabric.nics]
    out += [nic.id in drained for nic in fabric.nics]
    return LinkStates(*(np.repeat(np.array(flags, dtype=np.bool_), 2) for flags in (up, out)))


def bad_links(state: State) -> Flags:
    """Return which links are those of bad cables."""
    bad = [cable.id in state.bad_cables for cable in state.fabric.cables] + [False] * len(state.fabric.nics)
    return np.repeat(np.array(bad, dtype=np.bool_), 2)


def left_by_link(state: State) -> dict[str, int]:
    """Return the rate in bit/s that plans count with for each direction of a bad cable."""
    cables = state.fabric.cable_by_link
    return {
        link: left for name, left in state.degraded.items() for link in (cables[name].up_link, cables[name].down_link)
    }


def planned_utilisation(state: State) -> Floats:
    """Return the planned load of every link by its capacity: per job its heaviest phase, summed over jobs.

    The capacity of a bad cable is what it has left.
    """
    loads, left_bps = link_loads_bps(state), left_by_link(state)
    links = ((link.id, left_bps.get(link.id) or link.capacity_bps) for link in state.fabric.directed_links)
    planned = np.array([loads.get(name, 0) / capacity_bps for name, capacity_bps in links])
    return planned.astype(np.float64)
