"""Settings of a lab's NICs and queue pairs, and the configuration command of each NIC process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import Fabric, Nic
from heddle.foundation.address import mac_text
from heddle.mininet_topos.nic.dcqcn import DcqcnSettings
from heddle.mininet_topos.wire import shaping

MIN_ACK_TIMEOUT_NS = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NicSettings:
    """Settings that all queue pairs of a lab share.

    - `window` is several times the packets that a path holds, because a sender at line rate never reduces a backlog
      that a short delay has left in either direction.
    - `spray_ack_every` is `ack_every` of queue pairs that spray: their ACKs also say which packets are lost.
    - `warm_up` sends one packet on every queue pair before the run. It fills Open vSwitch's flow cache, which switching
      silicon does not have; otherwise the first packets of a run would wait for it.
    - `dcqcn`: NICs send CNPs for marked packets and react to them, with the `DcqcnSettings` of their rate.
    - `catch_up_ns` is the longest delay that a NIC catches up. None: a quarter of a switch's queue; with DCQCN, ECN or
      PFC the CNP interval, since frames already passed to the device are out of reach of marks and pauses.
    - `snapshot_period_ns` is the period of the counter file `nic/<nic id>.json` in the lab's directory (`%2F` for / in
      the id of a port). 0: never; None: 100 ms with DCQCN or the queue model, else a second.
    """

    mtu_bytes: int = 4096
    message_bytes: int = 262_144
    window: int = 128
    ack_every: int = 8
    spray_ack_every: int = 4
    ack_timeout_ns: int = 400_000_000
    seed: int = 1
    warm_up: bool = True
    dcqcn: bool = False
    catch_up_ns: int | None = None
    snapshot_period_ns: int | None = None

    def configuration(self, fabric: Fabric, nic: Nic, snapshots: Path, lossless: bool = False) -> dict[str, Any]:
        """Return the fields of a NIC's `configure` command but its device; `lossless`: the switches do ECN and PFC."""
        dcqcn = DcqcnSettings.for_line_rate(nic.capacity_bps)
        fastest_bps = max(other.capacity_bps for other in fabric.nics)
        quarter_ns = shaping.catch_up_time_ns(shaping.QUEUE_BYTES, fastest_bps)
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
            "snapshot_path": str(snapshots / f"{quote(nic.id, safe='')}.json") if period_ns else "",
            "snapshot_period_ns": period_ns,
        }

    def ack_every_at(self, rate_bps: int, sprays: bool = False) -> int:
        """Return the number of packets per ACK at a rate: the setting, or fewer if they take over half the timeout.

        The retransmission timer runs while packets wait for the one that requests the ACK.
        """
        packets = rate_bps * self.ack_timeout_ns // (2 * 8 * shaping.FULL_FRAME_BYTES * 10**9)
        return max(1, min(self.spray_ack_every if sprays else self.ack_every, packets))

    @staticmethod
    def for_fabric(fabric: Fabric) -> "NicSettings":
        """Return the defaults with an ACK timeout of four times the drain time of a full queue on the slowest link."""
        slowest = min([nic.capacity_bps for nic in fabric.nics] + [cable.capacity_bps for cable in fabric.cables])
        drain_ns = shaping.QUEUE_BYTES * 8 * 10**9 // slowest
        return NicSettings(ack_timeout_ns=max(MIN_ACK_TIMEOUT_NS, 4 * drain_ns))
