"""Convert a NIC's counters, under its driver's names, into a sample: mlx5 names first, then those of any driver.

Per priority a NIC counts transmitted packets and pauses: `rx_prio3_pause` are received PFC frames, which stopped it for
`rx_prio3_pause_duration` microseconds (linux, drivers/net/ethernet/mellanox/mlx5/core/en_stats.c). ECN marks are
counted for the whole NIC (`np_ecn_marked_roce_packets`), so they are in `nic_counters` only.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from heddle.telemetry.samples.counters import NIC_COUNTERS, PRIORITIES
from heddle.telemetry.samples.sample import MAX_NIC_COUNTERS, PortSample, QueueSample

# The driver names of each port counter, best first: all traffic on the wire (`_phy`), RDMA only, and the kernel's
# network stack, which does not see RDMA.
_FIRST_OF = {
    "tx_bytes": ("tx_bytes_phy", "tx_vport_rdma_unicast_bytes", "tx_bytes"),
    "rx_bytes": ("rx_bytes_phy", "rx_vport_rdma_unicast_bytes", "rx_bytes"),
    "tx_packets": ("tx_packets_phy", "tx_vport_rdma_unicast_packets", "tx_packets"),
    "rx_packets": ("rx_packets_phy", "rx_vport_rdma_unicast_packets", "rx_packets"),
}
# What is left out where the driver has none of these: mlx5, bnxt_en, the kernel's own statistics.
_LINK = {
    "rx_crc_errors": ("rx_crc_errors_phy", "rx_fcs_err_frames", "rx_crc_errors"),
    "fec_corrected_codewords": ("rx_fec_corrected_blocks",),
    "fec_uncorrectable_codewords": ("rx_fec_uncorrectable_blocks",),
    "flaps": ("link_down_events_phy", "carrier_down_count"),
}
_DROPS = ("rx_discards_phy", "tx_discards_phy", "out_of_buffer")
_DROPS_OF_ANY = ("rx_dropped", "tx_dropped")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_MICROSECOND_NS = 1_000
_MAX = (1 << 64) - 1


def nic_sample(
    nic: str, counters: Mapping[str, int], *, timestamp_unix_ns: int, boot_id: int = 0, keep: Iterable[str] = (),
    speed_bps: int | None = None,
) -> PortSample:  # fmt: skip
    """Return the sample of a NIC; `keep` names further counters to include, beside those known to the collector."""
    wanted = [name for name in dict.fromkeys((*NIC_COUNTERS, *keep)) if name in counters and _NAME.match(name)]
    traffic: dict[str, Any] = {field: _fit(_first(counters, names)) for field, names in _FIRST_OF.items()}
    link: dict[str, Any] = {
        field: _fit(next(counters[name] for name in names if name in counters))
        for field, names in _LINK.items()
        if any(name in counters for name in names)
    }
    drops = _DROPS if any(name in counters for name in _DROPS) else _DROPS_OF_ANY
    return PortSample(
        port=nic,
        timestamp_unix_ns=timestamp_unix_ns,
        boot_id=boot_id,
        drops=_fit(sum(counters.get(name, 0) for name in drops)),
        queues=tuple(queue for priority in range(PRIORITIES) for queue in _queue(priority, counters)),
        nic_counters={name: _fit(counters[name]) for name in wanted[:MAX_NIC_COUNTERS]},
        speed_bps=speed_bps,
        **traffic,
        **link,
    )


def _queue(priority: int, counters: Mapping[str, int]) -> Iterable[QueueSample]:
    names = {
        "packets": f"tx_prio{priority}_packets",
        "bytes": f"tx_prio{priority}_bytes",
        "pfc_rx_frames": f"rx_prio{priority}_pause",
        "pfc_tx_frames": f"tx_prio{priority}_pause",
        "dropped_packets": f"rx_prio{priority}_discards",
    }
    paused = f"rx_prio{priority}_pause_duration"
    if paused in counters or any(name in counters for name in names.values()):
        yield QueueSample(
            priority=priority,
            paused_ns=_fit(counters.get(paused, 0) * _MICROSECOND_NS),
            **{field: _fit(counters.get(name, 0)) for field, name in names.items()},
        )


def _first(counters: Mapping[str, int], names: Iterable[str]) -> int:
    return next((counters[name] for name in names if name in counters), 0)


def _fit(value: int) -> int:
    return min(max(value, 0), _MAX)
