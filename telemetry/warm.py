"""Compile the decoder's kernels in advance: `python -m heddle.telemetry.warm` in set-up, `warm` at start-up."""

from heddle.telemetry.samples.counters import NIC_COUNTERS
from heddle.telemetry.samples.decode import BatchDecoder
from heddle.telemetry.samples.sample import PortSample, QueueSample, encode


def warm() -> None:
    """Decode one small message that contains every kind of field."""
    sample = PortSample(
        port="leaf1:1", timestamp_unix_ns=1, queues=(QueueSample(priority=3),), nic_counters={NIC_COUNTERS[0]: 1}
    )
    BatchDecoder().read(encode([sample]))


if __name__ == "__main__":
    warm()
    print("telemetry: kernels compiled")
