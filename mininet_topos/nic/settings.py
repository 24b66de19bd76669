"""How the NICs of a lab are set up and its queue pairs run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.model.address import ip_text
from controller.model.fabric import Fabric, Nic
from foundation.address import mac_text
from mininet_topos.nic.dcqcn import DcqcnSettings
from mininet_topos.nic.pacer import catch_up_time_ns
from mininet_topos.switches import shaping

MIN_ACK_TIMEOUT_NS = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSettings:
    """How queue pairs are run. The window is several times what a path holds.

    It must be: a NIC that sends at line rate keeps whatever backlog a moment's delay left, on either way. A warm-up
    is one packet on every queue pair before the run: it lets Open vSwitch fill its flow cache, which switching silicon
    does not have; without it the first packets of a run wait in line for that. With `dcqcn` NICs send CNPs for marked
    packets and heed them, by `DcqcnSettings` of their rate. After a delay a NIC makes up for `catch_up_ns`: None is a
    quarter of a switch's queue, and the interval of CNPs where marks or pauses are to reach it in time: what it has
    handed to its device is past both. Counters are written `snapshot_period_ns` apart
    (0: never; None: 100 ms with DCQCN or switches that mark and pause, else a second) to `nic/<nic id>.json` in the
    lab's directory.
    """

    mtu_bytes: int = 4096
    message_bytes: int = 262_144
    window: int = 128
    ack_every: int = 8
    ack_timeout_ns: int = 400_000_000
    seed: int = 1
    warm_up: bool = True
    dcqcn: bool = False
    catch_up_ns: int | None = None
    snapshot_period_ns: int | None = None

    def configuration(self, fabric: Fabric, nic: Nic, snapshots: Path, lossless: bool = False) -> dict[str, Any]:
        """Return how a NIC's process is configured, without its device; `lossless` where switches mark and pause."""
        dcqcn = DcqcnSettings.for_line_rate(nic.capacity_bps)
        fastest_bps = max(other.capacity_bps for other in fabric.nics)
        quarter_ns = catch_up_time_ns(shaping.QUEUE_BYTES, fastest_bps)
        default_ns = dcqcn.cnp_interval_ns if self.dcqcn or lossless else quarter_ns
        default_period_ns = 100_000_000 if self.dcqcn or lossless else 1_000_000_000
        period_ns = default_period_ns if self.snapshot_period_ns is None else self.snapshot_period_ns
        return {
            "nic": nic.id,
            "host": nic.host,
            "mac": mac_text(nic.mac),
            "ip": ip_text(nic.ip),
            "catch_up_ns": default_ns if self.catch_up_ns is None else self.catch_up_ns,
            "line_rate_bps": nic.capacity_bps,
            "dcqcn": dcqcn._asdict() if self.dcqcn else None,
            "snapshot_path": str(snapshots / f"{nic.id}.json") if period_ns else "",
            "snapshot_period_ns": period_ns,
        }

    def ack_every_at(self, rate_bps: int) -> int:
        """Return how many packets share one acknowledgement at a pace.

        Fewer where they take longer than half the timeout: the timer runs while packets wait for the one that asks.
        """
        packets = rate_bps * self.ack_timeout_ns // (2 * 8 * shaping.FULL_FRAME_BYTES * 10**9)
        return max(1, min(self.ack_every, packets))

    @staticmethod
    def for_fabric(fabric: Fabric) -> "NicSettings":
        """Return the defaults with a timeout as long as four full queues of the slowest link take to drain."""
        slowest = min([nic.capacity_bps for nic in fabric.nics] + [cable.capacity_bps for cable in fabric.cables])
        drain_ns = shaping.QUEUE_BYTES * 8 * 10**9 // slowest
        return NicSettings(ack_timeout_ns=max(MIN_ACK_TIMEOUT_NS, 4 * drain_ns))
