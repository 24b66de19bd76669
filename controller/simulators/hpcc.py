"""Write a fabric and its flows as the HPCC simulator and the ns-3 simulators that grew from it read them.

The topology file holds counts, the ids of the switches, and a line per link; the flow file a count and a line per flow
(alibaba-edu/High-Precision-Congestion-Control, simulation/scratch/third.cc). Every NIC is a node of its own, as a host
with several NICs would choose one of them by itself. Nodes are numbered NICs first, in the order of the fabric file.
`controller/config/foreign/formats/hpcc.py` reads the topology.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from heddle.controller.model.fabric import Fabric

DATA_GROUP = 3
"""The priority group of data: that of the simulator's own lossless RDMA traffic."""
FIRST_PORT = 100
"""Destination port of the first flow of a pair of nodes; each further one has the next."""


class SizedFlow(NamedTuple):
    """A queue pair: indices of its NICs in the fabric, and its bytes per iteration."""

    src_nic: int
    dst_nic: int
    size_bytes: int


def topology_lines(fabric: Fabric, delay_ns: int) -> Iterator[str]:
    """Yield the topology file: links have their rate, `delay_ns` of propagation and no errors.

    What the fabric file calls failed is left out: switches keep their number, and have no link.
    """
    number = {switch.id: len(fabric.nics) + index for index, switch in enumerate(fabric.switches)}
    failed = fabric.failed
    gone = failed.down_nics | failed.quarantined_nics
    ends = [
        (index, nic.port.switch, nic.capacity_bps) for index, nic in enumerate(fabric.nics) if nic.id not in gone
    ] + [
        (cable.lower.switch, cable.upper.switch, cable.capacity_bps)
        for cable in fabric.cables
        if cable.id not in failed.down_cables
    ]
    links = [
        (a if isinstance(a, int) else number[a], number[b], rate_bps)
        for a, b, rate_bps in ends
        if not {a, b} & failed.down_switches
    ]
    yield f"{len(fabric.nics) + len(number)} {len(number)} {len(links)}"
    yield " ".join(map(str, number.values()))
    for a, b, rate_bps in links:
        yield f"{a} {b} {rate_bps}bps {delay_ns}ns 0"


def flow_lines(flows: Sequence[SizedFlow], start_ns: int) -> Iterator[str]:
    """Yield the flow file: source, destination, priority group, destination port, bytes, start in seconds."""
    yield str(len(flows))
    used: dict[tuple[int, int], int] = {}
    for flow in flows:
        pair = flow.src_nic, flow.dst_nic
        used[pair] = used.get(pair, -1) + 1
        port = FIRST_PORT + used[pair]
        yield f"{flow.src_nic} {flow.dst_nic} {DATA_GROUP} {port} {flow.size_bytes} {start_ns / 1e9:.9f}"


def name_lines(fabric: Fabric) -> Iterator[str]:
    """Yield each node's number and its id in the fabric file."""
    names = [*(nic.id for nic in fabric.nics), *(switch.id for switch in fabric.switches)]
    yield from (f"{index} {name}" for index, name in enumerate(names))
