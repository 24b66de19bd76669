"""What the control and the data process of a gateway share besides tables: words, counters, and rings.

The control process makes the segment and writes the words up to `STOP`'s; the data process writes all others and the
counters. It outlives a data process: counters go on from where they were. What waited for one to send it, the next
does not send.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from dataplane.control import segment
from dataplane.control.segment import Segment, Shape
from dataplane.engine.counters import PORT_COUNTERS, VPC_COUNTERS, Counters
from dataplane.engine.reasons import DROPS, PUNTS
from dataplane.engine.rings import WORDS_BYTES, Ring
from dataplane.gateway.memory import exchange
from dataplane.gateway.memory.exchange import Exchange
from dataplane.jit import Ints

RING_BYTES = 1 << 20
MAX_VPCS = 1 << 14
"""VPCs that are counted one by one."""


class Word(IntEnum):
    """Places in `words`; each of the first two has a cache line of its own."""

    STOP = 0
    """Not 0: the data process ends."""
    OFFERED = 8
    """How many generations of tables were offered; when it grows, the data process looks at its socket."""
    IN_USE = 16
    """The generation that packets go by."""
    CALLS = 17
    """How often the run loop returned: it grows for as long as the data process is well."""
    TABLES_TAKEN = 18
    """How many of the generations offered were taken."""
    BUSY_NS = 19
    """Time in bursts that had packets."""
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
    """Records of connections, to and from the partner."""


def make_shared(name: str, ports: int) -> Segment:
    """Make the segment of a gateway with so many ports."""
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
    """Return the views of a segment that `make_shared` made, here or in another process."""
    arrays = made.arrays
    return Shared(
        words=arrays["words"],
        counters=Counters(arrays["ports"], arrays["vpcs"], arrays["drops"], arrays["punts"]),
        punts=Ring(arrays["punt_words"], arrays["punt_data"]),
        injects=Ring(arrays["inject_words"], arrays["inject_data"]),
        exchange=Exchange(*(arrays[f"exchange_{name}"] for name in Exchange._fields)),
    )
