"""A whole gateway on memory ports: frames in, frames out."""

import numpy as np

from heddle.dataplane.config.local import Limits
from heddle.dataplane.engine.burst import BURST, PACKET
from heddle.dataplane.engine.counters import make_counters
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.gateway.graph import graph_of
from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.io.frames.in_memory import MemoryPorts
from tests.fakes.gateway.gateway_chain import through

PORTS = 4


class GatewayBench:
    """Elements, tables, state and ports, with a clock that stands still."""

    def __init__(self, local, tables):
        self._graph, self._tables = arrays_of(graph_of(local)), tables
        self._state = empty_state(Limits(connections=1 << 12, mappings=1 << 10, fragments=1 << 8))
        self._memory, self._rows = MemoryPorts(PORTS, buffers=512), np.zeros(BURST, PACKET)
        self.counters = make_counters(PORTS, 3)

    def send(self, port, *frames):
        """Let at most a burst of frames arrive; return (port, frame) of each frame that leaves."""
        for frame in frames:
            assert self._memory.put(port, frame)
        now_ns = np.int64(10**12)
        arguments = (self._memory.ports, np.int64(port), self._rows, self._graph, self._tables, self._state)
        assert through(*arguments, self.counters, now_ns) == len(frames)
        return [(out, frame) for out in range(PORTS) for frame in self._memory.take(out)]
