"""Counters in shared memory: written by the data process alone, read by any process without a lock."""

from typing import NamedTuple

import numpy as np

from heddle.dataplane.engine.reasons import DROPS, PUNTS, Drop
from heddle.dataplane.jit import Ints, Rows

PORT_COUNTERS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "rx_packets",
            "rx_bytes",
            "rx_missed",  # the kernel found the ring full; sampled from its own statistics
            "rx_injected",  # frames of the slow path
            "rx_fragments",  # later fragments made of received packets, which are frames of their own
            "tx_packets",
            "tx_bytes",
            "tx_failed",
            "empty_polls",
            "bursts",
            "dropped",
            "punted",
        )
    ]
)
VPC_COUNTERS = np.dtype(
    [(name, np.int64) for name in ("in_packets", "in_bytes", "out_packets", "out_bytes", "dropped")]
)


class Counters(NamedTuple):
    """Counters of the kernels, as views of shared memory.

    Invariant over all ports, between two bursts: received + injected + fragments = transmitted + dropped + punted,
    where dropped is the sum of `drops`.
    """

    ports: Rows
    """PORT_COUNTERS by port. `dropped` and `punted` count by the receiving port; but a frame lost after its burst, and
    an injected frame, count by the output port."""
    vpcs: Rows
    """VPC_COUNTERS by row of the tables' `vpcs`; reset by each generation that moves a VPC to another row."""
    drops: Ints
    """By `Drop`."""
    punts: Ints
    """By `Punt`."""


def make_counters(ports: int, vpcs: int = 1) -> Counters:
    """Return counters in the process's own memory, all 0."""
    return Counters(
        ports=np.zeros(ports, PORT_COUNTERS),
        vpcs=np.zeros(vpcs, VPC_COUNTERS),
        drops=np.zeros(DROPS, np.int64),
        punts=np.zeros(PUNTS, np.int64),
    )


def imbalance(counters: Counters) -> int:
    """Return how many received frames have no fate yet: 0 between two bursts."""
    ports = counters.ports
    came = int(ports["rx_packets"].sum() + ports["rx_injected"].sum() + ports["rx_fragments"].sum())
    return came - int(ports["tx_packets"].sum() + counters.drops.sum() + counters.punts.sum())


def count_lost(counters: Counters) -> None:
    """Count the frames that a dead data process was processing as lost; no process may be writing the counters."""
    counters.drops[Drop.LOST] += max(imbalance(counters), 0)
