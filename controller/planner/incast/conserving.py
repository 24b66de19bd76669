"""Choose the flows that may exceed the rates of their plan: all that are slowed, but those of a full receiver.

A link over 1 is idle whenever the jobs on it compute. A flow that keeps to its share there wastes the rest, so it may
send as fast as its NIC, and congestion control (DCQCN) divides the link while others send too. Into a NIC that is asked
for more than it takes, rates stay caps: there the queue of the last port would fill, and its pauses (PFC) would spread.
A flow that only its own NIC slows may exceed its rate too, and cannot.
"""

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.loads import heaviest_phases
from heddle.controller.planner.ground.turns import Turns
from heddle.controller.planner.incast.confinement import with_senders
from heddle.controller.planner.proof.fluid import INCAST_HEADROOM, ROUNDING


def conserving_flows(topology: Topology, flows: Flows, rates: Ints, turns: Turns | None) -> Flags | None:
    """Return for each flow whether it may exceed its rate; None where none may.

    `topology` has the capacities that the rates are for.
    """
    slowed: Flags = rates < flows.demand_bps * (1 - ROUNDING)
    if turns is not None:
        slowed &= turns.slots == 0
    if not slowed.any():
        return None
    slowed &= ~_full_nics(topology, flows)[flows.dst_nic]
    return slowed if slowed.any() else None


def part_of(conserving: Flags | None, part: slice) -> Flags | None:
    """Return some of the rows; None where none of these flows may exceed its rate."""
    found = conserving[part] if conserving is not None else None
    return found.copy() if found is not None and found.any() else None


def _full_nics(topology: Topology, flows: Flows) -> Flags:
    """Return the NICs that are asked for more than they take, 0.95 of it where several senders ask."""
    into = topology.capacity[topology.first_nic_link :].reshape(2, -1)[1].astype(np.float64)
    several = with_senders(flows.src_nic, flows.dst_nic, topology.nics)
    entering = heaviest_phases(flows, flows.dst_nic[:, None], topology.nics)
    full: Flags = entering > np.where(several, INCAST_HEADROOM, 1.0) * into
    return full
