"""Data process and slow path of a gateway on ports in memory: frames in, all frames out."""

from dataclasses import replace

from heddle.dataplane.config.local import Limits, LocalConfig
from heddle.dataplane.config.network import Address, NetworkConfig
from heddle.dataplane.control.slow.directory import Directory
from heddle.dataplane.control.slow.next_hops import NextHops
from heddle.dataplane.control.slow.slow_path import SlowPath
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.tables.compiler.compile import compile_tables
from tests.fakes.gateway.gateway_loop import GatewayLoop
from tests.fakes.gateway.gateway_site import LOCAL, NEIGHBOURS, NETWORK

SMALL = Limits(connections=1 << 8, mappings=1 << 8, fragments=1 << 6)


class WholeGateway:
    """A gateway of a network; the slow path's clock stands still."""

    def __init__(
        self,
        network: NetworkConfig = NETWORK,
        *,
        local: LocalConfig = LOCAL,
        limits: Limits = SMALL,
        neighbours: dict[tuple[int, Address], int] | None = None,
    ) -> None:
        local = replace(local, limits=limits)
        tables = compile_tables(local, network, neighbours=NEIGHBOURS | (neighbours or {}), generation=1)
        self.loop = GatewayLoop(local, tables, ring_bytes=1 << 20)
        self.path = SlowPath(Directory(local, network), NextHops.of(tables))

    def through(self, port: int, *frames: bytes) -> dict[int, list[bytes]]:
        """Let frames arrive at a port, and the slow path handle punted ones; return the frames that left, by port."""
        left = self.loop.through(port, *frames)
        for punted in self.loop.punts.read():
            for effect in self.path.handle(punted, 0):
                left.setdefault(effect.port, []).append(effect.frame)
        return left

    def drops(self) -> dict[Drop, int]:
        """Return how many packets were dropped, by reason."""
        return self.loop.drops()
