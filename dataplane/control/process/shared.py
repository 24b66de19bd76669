"""Lay out the memory that a gateway's control and data process share besides tables: words, counters and rings.

The control process creates the segment and writes STOP and OFFERED; the data process writes all other words and the
counters. The segment outlives a data process, so counters continue after a restart. Frames queued for transmission are
discarded at a restart.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from heddle.dataplane.control.process import segment
from heddle.dataplane.control.process.segment import Segment, Shape
from heddle.dataplane.elements.memory import exchange
from heddle.dataplane.elements.memory.exchange import Exchange
from heddle.dataplane.engine.counters import PORT_COUNTERS, VPC_COUNTERS, Counters
from heddle.dataplane.engine.reasons import DROPS, PUNTS
from heddle.dataplane.engine.rings import WORDS_BYTES, Ring
from heddle.dataplane.jit import Ints

RING_BYTES = 1 << 20
MAX_VPCS = 1 << 14
"""VPCs with counters of their own."""


class Word(IntEnum):
    """Indices into `words`; STOP and OFFERED each have a cache line of their own."""

    STOP = 0
    """If not 0, the data process ends."""
    OFFERED = 8
    """Number of generations of tables offered; when it grows, the data process reads its socket."""
    IN_USE = 16
    """Generation of the tables in use."""
    CALLS = 17
    """Number of turns of the run loop; `liveness` samples it."""
    TABLES_TAKEN = 18
    """Number of offered generations that the data process took."""
    BUSY_NS = 19
    """Time spent on bursts with packets, ns."""
    CONNECTIONS = 20
    MAPPINGS = 21
    FRAGMENTS = 22


WORDS = 64


class Shared(NamedTuple):
    """The arrays of the segment."""

    words: Ints
    counters: Counters
    punts: Ring
    injects: Ring
    exchange: Exchange
    """Connection records to and from the partner."""


def make_shared(name: str, ports: int) -> Segment:
    """Create the segment of a gateway with this number of ports."""
    byte, word = np.dtype(np.uint8), np.dtype(np.int64)
    return segment.make(
        f"{name}-control",
        {
            "words": Shape((WORDS,), word),
            "ports": Shape((ports,), PORT_COUNTERS),
            "vpcs": Shape((MAX_VPCS,), VPC_COUNTERS),
            "drops": Shape((DROPS,), word),
            "punts": Shape((PUNTS,), word),
            "punt_words": Shape((WORDS_BYTES,), byte),
            "punt_data": Shape((RING_BYTES,), byte),
            "inject_words": Shape((WORDS_BYTES,), byte),
            "inject_data": Shape((RING_BYTES,), byte),
            **{f"exchange_{name}": Shape(*one) for name, one in exchange.layout().items()},
        },
    )


def shared_of(made: Segment) -> Shared:
    """Return the arrays of a segment made by `make_shared`, in this or another process."""
    arrays = made.arrays
    return Shared(
        words=arrays["words"],
        counters=Counters(arrays["ports"], arrays["vpcs"], arrays["drops"], arrays["punts"]),
        punts=Ring(arrays["punt_words"], arrays["punt_data"]),
        injects=Ring(arrays["inject_words"], arrays["inject_data"]),
        exchange=Exchange(*(arrays[f"exchange_{name}"] for name in Exchange._fields)),
    )
