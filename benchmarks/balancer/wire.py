"""A balancer with a million live connections beside plain forwarding of the same packets, by processor time.

Each balancer alternates with plain forwarding alone: with all of them in turns, each would find its tables evicted from
the caches by the others'.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from heddle.benchmarks.gateway.wire.balancer_device import DIRECT, NAT, PORT_OF
from heddle.benchmarks.gateway.wire.balancer_packets import MIN_BYTES, live, opening
from heddle.benchmarks.gateway.wire.devices import BACKENDS, Device, ours
from heddle.benchmarks.gateway.wire.drains import Row, measured

ROUNDS = 21
NAMES = {DIRECT: "direct return", NAT: "full NAT"}


@dataclass(frozen=True)
class Speed:
    """A balancer's processor time per packet, beside plain forwarding on the same kind of port."""

    row: Row
    plain_us: float
    connections_per_s: float | None
    """New connections per second and core, if each packet opens one."""

    @property
    def of_plain(self) -> float:
        """Its packets per second and core, as a share of plain forwarding's."""
        assert self.row.to_plain is not None
        return 1 / self.row.to_plain.median


def speeds(length: int = MIN_BYTES, rounds: int = ROUNDS) -> Iterator[Speed]:
    """Measure all; raises RuntimeError if a frame is neither forwarded nor counted as dropped."""
    for backend in BACKENDS:
        for kind, name in NAMES.items():
            for what, traffic in (("live", live(PORT_OF[kind])), ("new", opening(PORT_OF[kind]))):
                plain = replace(ours("forward", backend), traffic=traffic)
                balancer = Device(f"heddle {backend} {name}, {what}", backend, kind, traffic=traffic)
                forward, row = measured(length, (plain, balancer), rounds)
                assert forward.us is not None
                assert row.mpps is not None
                yield Speed(row, forward.us, row.mpps * 1e6 if what == "new" else None)
