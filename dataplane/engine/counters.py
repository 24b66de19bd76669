"""Counters in shared memory: the data process alone writes them, anyone reads them without a lock."""

from typing import NamedTuple

import numpy as np

from dataplane.engine.reasons import DROPS, PUNTS, Drop
from dataplane.jit import Ints, Rows

PORT_COUNTERS = np.dtype(
    [
        (name, np.int64)
        for name in (
            "rx_packets",
            "rx_bytes",
            "rx_missed",  # the kernel had no room in the ring; sampled from its own statistics
            "rx_injected",  # from the slow path's ring, to be sent
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
    """What kernels count in: views of shared memory."""

    ports: Rows
    """PORT_COUNTERS by port. `dropped` and `punted` are of what a port received; but a frame that is lost behind the
    burst that it came in, and an injected one, its way out counts."""
    vpcs: Rows
    """VPC_COUNTERS by row of the tables' `vpcs`; begun anew with each generation that moves a VPC to another row."""
    drops: Ints
    """By `Drop`."""
    punts: Ints
    """By `Punt`."""


SHAPES = {"drops": (DROPS, np.int64), "punts": (PUNTS, np.int64)}
"""`drops` by `Drop`, `punts` by `Punt`. Always, over all ports:

received + injected = transmitted + dropped + punted, where dropped is the sum of `drops`.
"""


def make_counters(ports: int, vpcs: int = 1) -> Counters:
    """Return counters in memory of their own, all 0."""
    return Counters(
        ports=np.zeros(ports, PORT_COUNTERS),
        vpcs=np.zeros(vpcs, VPC_COUNTERS),
        drops=np.zeros(DROPS, np.int64),
        punts=np.zeros(PUNTS, np.int64),
    )


def imbalance(counters: Counters) -> int:
    """Return how many frames came in and have no end yet: 0 where no burst is under way."""
    ports = counters.ports
    came = int(ports["rx_packets"].sum() + ports["rx_injected"].sum())
    return came - int(ports["tx_packets"].sum() + counters.drops.sum() + counters.punts.sum())


def count_lost(counters: Counters) -> None:
    """Count as lost what a data process that died had under way; nobody may write the counters meanwhile."""
    counters.drops[Drop.LOST] += max(imbalance(counters), 0)
