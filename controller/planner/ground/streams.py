"""The streams of flows as columns, and numbers for the tuples that switches distinguish them by.

A *stream* is the traffic from one NIC to another from one port: the data of a flow, or its ACKs on the reverse path.
"""

from dataclasses import dataclass

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints


def tuple_keys(topology: Topology, source: Ints, target: Ints, ports: Ints | int) -> Ints:
    """Return a number per (source NIC, destination NIC, port); a NIC has one address."""
    return np.asarray((source * topology.nics + target) * 65536 + ports, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Streams:
    """The streams of running jobs as columns: the data of every flow, then the reverse stream of each.

    `pair` and `key` are tuple keys without and with the port; `by_addresses` marks the data of flows that are pinned
    by addresses, `fixed` of those that have a pin of their own.
    """

    source: Ints
    target: Ints
    port: Ints
    hops: Ints
    pair: Ints
    key: Ints
    by_addresses: Flags
    fixed: Flags
    data: Flags

    @staticmethod
    def of(topology: Topology, flows: Flows, ports: Ints, hops: Ints, reverse_ports: Ints, reverse: Ints) -> "Streams":
        """Return both directions of flows with these ports and hops."""
        source, target = np.concatenate((flows.src_nic, flows.dst_nic)), np.concatenate((flows.dst_nic, flows.src_nic))
        port, none = np.concatenate((ports, reverse_ports)), np.zeros(len(flows), dtype=np.bool_)
        return Streams(
            source=source,
            target=target,
            port=port,
            hops=np.concatenate((hops, reverse)),
            pair=tuple_keys(topology, source, target, 0),
            key=tuple_keys(topology, source, target, port),
            by_addresses=np.concatenate((flows.by_addresses, none)),
            fixed=np.concatenate((flows.fixed_port > 0, none)),
            data=np.concatenate((~none, none)),
        )
