"""The whole data path of a gateway on ports in memory: frames in, frames out, and counters."""

import numpy as np

from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.engine.burst import BURST, PACKET
from heddle.dataplane.engine.clock import AHEAD, CLOCK_BYTES
from heddle.dataplane.engine.counters import make_counters
from heddle.dataplane.engine.graph import arrays_of
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.engine.rings import Injector, PuntReader, empty_ring
from heddle.dataplane.engine.sleep import sleepers
from heddle.dataplane.gateway.graph import graph_of
from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.gateway.run import run
from heddle.dataplane.io.frames.in_memory import MemoryPorts
from heddle.dataplane.tables.schema import Tables

CALL_NS = 1_000_000


class GatewayLoop:
    """A gateway without processes: `forward` is one call of the run loop."""

    def __init__(
        self,
        local: LocalConfig,
        tables: Tables,
        *,
        ring_bytes: int = 1 << 16,
        buffers: int = 1024,
        ring: int = 256,
        chunk_bytes: int = 2048,
    ) -> None:
        self.tables = tables
        self.graph = arrays_of(graph_of(local))
        self.state = empty_state(local.limits)
        self.io = MemoryPorts(len(local.interfaces), buffers=buffers, ring=ring, chunk_bytes=chunk_bytes)
        self.counters = make_counters(len(local.interfaces), vpcs=16)
        self._punts, self._injects = empty_ring(ring_bytes), empty_ring(ring_bytes)
        self.punts, self.injector = PuntReader(self._punts), Injector(self._injects)
        self.packets, self._clock = np.zeros(BURST, PACKET), np.zeros(CLOCK_BYTES, np.uint8)
        self.sleepers = sleepers([])

    def forward(self, call_ns: int = CALL_NS, sleep_ms: int = 1) -> int:
        """Run the loop until it is idle; return the time that it had packets."""
        return run(
            self.io.ports,
            self.graph,
            self.tables,
            self.state,
            self.counters,
            self._punts,
            self._injects,
            self.packets,
            self._clock,
            self.sleepers,
            call_ns,
            sleep_ms,
        )

    def let_pass(self, ns: int) -> None:
        """Let the next calls find a later time."""
        self._clock[AHEAD:].view(np.int64)[0] += ns

    def through(self, port: int, *frames: bytes) -> dict[int, list[bytes]]:
        """Let frames arrive at a port; return the frames that left, by port."""
        for frame in frames:
            assert self.io.put(port, frame)
        self.forward(call_ns=1_000_000_000)
        return {out: left for out in range(len(self.counters.ports)) if (left := self.io.take(out))}

    def drops(self) -> dict[Drop, int]:
        """Return how many packets were dropped, by reason."""
        return {reason: int(self.counters.drops[reason]) for reason in Drop if self.counters.drops[reason]}

    def received(self) -> int:
        """Return how many frames were received, from ports and the slow path, or made by fragmentation."""
        return sum(int(self.counters.ports[name].sum()) for name in ("rx_packets", "rx_injected", "rx_fragments"))

    def ended(self) -> int:
        """Return how many frames were transmitted, dropped or punted."""
        sent = int(self.counters.ports["tx_packets"].sum())
        return sent + int(self.counters.drops.sum()) + int(self.counters.punts.sum())
