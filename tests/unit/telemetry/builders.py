"""Ports of small fabrics, and samples of them."""

from heddle.telemetry.detection.window import Window, WindowSettings
from heddle.telemetry.samples.decode import BatchDecoder
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.sample import PortSample, QueueSample, Rejected, encode
from heddle.telemetry.samples.topic import Source

S = 1_000_000_000
START = 1_790_000_000 * S


def table(ports=3, switch="leaf1"):
    return PortTable(Port(f"{switch}:{n}", Source.SWITCH, switch, 10**9) for n in range(1, ports + 1))


def sample(port="leaf1:1", at=0.0, sequence=1, boot=7, queues=(), **counters):
    stamp = START + round(at * S)
    return PortSample(
        port=port, timestamp_unix_ns=stamp, sequence=sequence, boot_id=boot, queues=tuple(queues), **counters
    )


def queue(priority=3, **counters):
    return QueueSample(priority=priority, **counters)


class Fed:
    """A window that stores encoded samples."""

    def __init__(self, ports=None, **settings):
        self.window = Window(ports or table(), WindowSettings(**settings))
        self.reader = BatchDecoder()

    def store(self, *samples, now=None):
        batch = self.reader.read(encode(samples))
        assert not isinstance(batch, Rejected)
        owner = samples[0].port.split(":")[0]
        found = self.window.ports.find(Source.SWITCH, owner, batch.names)
        now_ns = samples[-1].timestamp_unix_ns if now is None else START + round(now * S)
        return self.window.store(batch.rows, found.positions, found.rows, now_ns)

    def roll(self, now):
        return self.window.roll(START + round(now * S))
