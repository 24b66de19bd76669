"""Run the ping mesh beside the loop, and hold what telemetry and probes say about cables."""

from functools import partial

from numpy.random import default_rng

from heddle.controller.cabling.merging import HeardBy
from heddle.controller.probe_sessions.far_ends import FarEnds
from heddle.controller.probe_sessions.mesh import PingMesh
from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.controller.runtime.background import Background
from heddle.controller.runtime.heard import HeardPeers
from heddle.controller.runtime.judged_cables import JudgedBy, JudgedCables
from heddle.controller.runtime.loop import Loop


class Meshing:
    """The ping mesh of one controller."""

    def __init__(self, loop: Loop, agents: ProbeAgents, peers: HeardPeers, *, nic_pps: int) -> None:
        """Prepare it; each NIC sends `nic_pps` probes a second, 0: none. `peers` takes what they say of plugs."""
        self.judged = JudgedCables(loop)
        report = partial(self.judged.report, JudgedBy.PROBES)
        far_ends = FarEnds(agents, partial(peers.hear, HeardBy.PINGS))
        self.mesh = PingMesh(
            agents, lambda: loop.state, report, default_rng().random, nic_pps=nic_pps, far_ends=far_ends
        )
        self._background = Background()

    def start(self) -> None:
        """Begin, with the cables that were bad before the start."""
        self.judged.begin()
        self._background.start(self.mesh.run())

    async def close(self) -> None:
        """Stop."""
        await self._background.close()
