"""Well-formed batches of every kind: the seeds of mutations."""

from heddle.telemetry.samples.counters import NIC_COUNTERS
from heddle.telemetry.samples.sample import PortSample, QueueSample, encode

TIME_NS = 1_790_000_000 * 10**9
SWITCH, HOST = "leaf1", "h1"


def _queue(priority, value):
    return QueueSample(
        priority=priority,
        ecn_marked_packets=value,
        pfc_rx_frames=value,
        paused_ns=value,
        depth_bytes=value,
        max_depth_bytes=value,
        packets=value,
        bytes=value,
        dropped_packets=value,
    )


def _port(number, value, queues):
    return PortSample(
        port=f"{SWITCH}:{number}",
        timestamp_unix_ns=TIME_NS,
        sequence=value,
        boot_id=value,
        tx_bytes=value,
        rx_bytes=value,
        drops=1,
        queues=tuple(_queue(priority, value) for priority in range(queues)),
    )


NIC = PortSample(
    port="h1-n0",
    timestamp_unix_ns=TIME_NS,
    sequence=1,
    queues=(_queue(3, 9),),
    nic_counters={**dict.fromkeys(NIC_COUNTERS, 5), "rx_other": 1},
)
SEEDS = (
    encode([_port(1, 1, 0)]),
    encode([_port(1, 300, 1), _port(2, 2**40, 1)]),
    encode([_port(n, 2**64 - 1, 8) for n in (1, 2, 3)]),
    encode([_port(n, 77, 8) for n in range(1, 9)]),
    encode([NIC]),
)
