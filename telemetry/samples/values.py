"""Convert a decoded message to values: slow, for printing and tests."""

from heddle.telemetry.neighbours.heard import heard_of
from heddle.telemetry.samples.counters import (
    LINK_AT,
    LINK_COUNTERS,
    LINK_GAUGES,
    NIC_AT,
    NIC_COUNTERS,
    PORT_COUNTERS,
    PRIORITIES,
    QUEUE_COUNTERS,
    QUEUE_GAUGES,
    QUEUES_AT,
)
from heddle.telemetry.samples.decode import SPEED_BPS, Batch, BatchDecoder
from heddle.telemetry.samples.sample import PortSample, QueueSample, Rejected


def samples_of(batch: Batch) -> tuple[PortSample, ...]:
    """Convert a batch to values."""
    return tuple(_port_sample(batch, row) for row in range(len(batch.names)))


def _port_sample(batch: Batch, row: int) -> PortSample:
    rows = batch.rows
    values, present = rows.values[row].tolist(), rows.present[row]
    width = len(QUEUE_COUNTERS)
    queues = []
    for priority in range(PRIORITIES):
        first = QUEUES_AT + priority * width
        if present[first]:
            counters = dict(zip(QUEUE_COUNTERS, values[first : first + width], strict=True))
            gauges = dict(zip(QUEUE_GAUGES, rows.gauges[row, priority].tolist(), strict=True))
            queues.append(QueueSample(priority=priority, **counters, **gauges))
    heads = rows.heads[row].tolist()
    timestamp, sequence, boot_id, carrier = heads[:SPEED_BPS]
    link = {name: values[LINK_AT + i] for i, name in enumerate(LINK_COUNTERS) if present[LINK_AT + i]}
    link |= {name: heads[SPEED_BPS + i] for i, name in enumerate(LINK_GAUGES) if heads[SPEED_BPS + i]}
    return PortSample(
        port=batch.names[row],
        timestamp_unix_ns=timestamp,
        sequence=sequence,
        queues=tuple(queues),
        boot_id=boot_id,
        carrier=(None, False, True)[carrier],
        nic_counters={name: values[NIC_AT + i] for i, name in enumerate(NIC_COUNTERS) if present[NIC_AT + i]},
        **dict(zip(PORT_COUNTERS, values, strict=False)),
        **link,
        heard=heard_of(batch.heard[row]) if row in batch.heard else None,
    )


def decode(payload: bytes) -> tuple[PortSample, ...] | Rejected:
    """Decode one message to values."""
    batch = BatchDecoder().read(payload)
    return batch if isinstance(batch, Rejected) else samples_of(batch)
