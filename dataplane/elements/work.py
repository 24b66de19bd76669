"""The argument of every element: one burst of packets, and the arrays that the elements read and write."""

from typing import Any, NamedTuple

from heddle.dataplane.engine.graph import GraphArrays
from heddle.dataplane.jit import Bytes, Rows
from heddle.dataplane.tables.schema import Tables


class Work(NamedTuple):
    """A kernel makes one per burst; the arrays in it are views and are not copied."""

    packets: Rows
    """PACKET rows, of which the first `size` are in use."""
    size: int
    """Number of packets in the burst."""
    memory: Bytes
    """Bytes of all frames; offsets in the rows start here."""
    graph: GraphArrays
    tables: Tables
    """The generation in use."""
    state: Any
    """The state of the program: it has all arrays of `memory.state`, and its own."""
    now_ns: int
    """Time of the burst, CLOCK_MONOTONIC."""
