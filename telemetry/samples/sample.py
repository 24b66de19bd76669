"""Samples of a port's cumulative counters as values, and their encoding.

Messages are the contract's `PortSampleBatch` (`heddle/v1/heddle.proto`). They carry counters, never rates, so a lost
message costs resolution only. `telemetry.samples.decode` reads the bytes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from heddle.telemetry.neighbours.heard import Heard, add_heard
from heddle.telemetry.samples.counters import LINK_COUNTERS, LINK_GAUGES, PORT_COUNTERS, QUEUE_COUNTERS, QUEUE_GAUGES
from heddle.v1 import heddle_pb2

# 1,024 ports of 8 queues with every counter at its largest are 1.06 MiB.
MAX_PAYLOAD_BYTES = 9 << 17
MAX_PORTS = 1_024
MAX_NIC_COUNTERS = 256
MAX_NAME_BYTES = 69  # an id of 63, a colon, a port number of five digits
MAX_COUNTER_NAME_BYTES = 64


class Refusal(StrEnum):
    """Why a message or one of its rows is dropped; the value is the name of its count."""

    TOPIC = "topic"
    OVERSIZED = "oversized"
    MALFORMED = "malformed"
    UNKNOWN_SOURCE = "unknown_source"
    UNKNOWN_PORT = "unknown_port"
    FUTURE_TIMESTAMP = "future_timestamp"
    REPLAYED_TIMESTAMP = "replayed_timestamp"
    FUTURE_SEQUENCE = "future_sequence"
    REPLAYED_SEQUENCE = "replayed_sequence"
    NEIGHBOURS = "neighbours"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A refused message: the reason, and a line for the log."""

    kind: Refusal
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSample:
    """One priority of a port: cumulative counters, depth, its maximum, whether the PFC watchdog has tripped (0, 1)."""

    priority: int
    ecn_marked_packets: int = 0
    pfc_rx_frames: int = 0
    pfc_tx_frames: int = 0
    paused_ns: int = 0
    depth_bytes: int = 0
    max_depth_bytes: int = 0
    packets: int = 0
    bytes: int = 0
    dropped_packets: int = 0
    watchdog_dropped_packets: int = 0
    watchdog_active: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSample:
    """One port or NIC at one time; `boot_id` changes when the counters restart.

    `carrier` and what follows are None where unknown: cumulative errors and flaps of the link, its rate and its lanes.
    `heard` is what the port hears of its neighbours, None where that is not known or is as last sent.
    """

    port: str
    timestamp_unix_ns: int
    sequence: int = 0
    tx_bytes: int = 0
    rx_bytes: int = 0
    tx_packets: int = 0
    rx_packets: int = 0
    drops: int = 0
    queues: tuple[QueueSample, ...] = ()
    boot_id: int = 0
    nic_counters: Mapping[str, int] = field(default_factory=dict)
    carrier: bool | None = None
    rx_crc_errors: int | None = None
    fec_corrected_codewords: int | None = None
    fec_uncorrectable_codewords: int | None = None
    flaps: int | None = None
    speed_bps: int | None = None
    lanes: int | None = None
    heard: Heard | None = None


def encode(samples: Iterable[PortSample]) -> bytes:
    """Encode samples as a PortSampleBatch; raises ValueError for a number outside uint64."""
    batch = heddle_pb2.PortSampleBatch()
    for sample in samples:
        _add(batch, sample)
    return batch.SerializeToString(deterministic=True)


def _add(batch: heddle_pb2.PortSampleBatch, sample: PortSample) -> None:
    written = batch.samples.add(
        port=sample.port,
        timestamp_unix_ns=sample.timestamp_unix_ns,
        sequence=sample.sequence,
        boot_id=sample.boot_id,
        nic_counters=dict(sample.nic_counters),
        carrier=sample.carrier,
        **{name: getattr(sample, name) for name in PORT_COUNTERS + LINK_COUNTERS + LINK_GAUGES},
    )
    if sample.heard is not None:
        add_heard(written.lldp, sample.heard)
    for queue in sample.queues:
        values = {name: getattr(queue, name) for name in QUEUE_COUNTERS + QUEUE_GAUGES}
        written.queues.add(priority=queue.priority, **values)
