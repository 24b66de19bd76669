"""A collector without bus and threads: a real observer that the test feeds, published to a controller's readers."""

from typing import Any

from heddle.controller.config.telemetry import ports_of
from heddle.controller.views.signal_events import signal_events
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.observer import Observer
from heddle.telemetry.samples.sample import PortSample, QueueSample, encode
from heddle.telemetry.samples.topic import Topic

S = 1_000_000_000
START_NS = 1_790_000_000 * S


class TelemetryFeed:
    """Counters that the test increases; `scan` ends a period of one second and publishes."""

    def __init__(self, telemetry, fabric, *, start_ns: int = START_NS, configured: bool = True, **settings):
        self.telemetry = telemetry
        telemetry.configured = configured
        self.ports = ports_of(fabric)
        self._fabric = fabric.name
        self.observer = Observer(
            fabric.name, self.ports, DetectorSettings(raise_periods=1, clear_periods=1, **settings)
        )
        self.now_ns = start_ns
        self._owners = {port.name: port for port in self.ports.ports}
        self._port: dict[str, dict[str, int]] = {}
        self._queue: dict[tuple[str, int], dict[str, int]] = {}
        self._nic: dict[str, dict[str, int]] = {}
        self._sequence = 0

    def grow(self, port: str, **counters: int) -> None:
        """Increase a port's counters."""
        known = self._port.setdefault(port, {})
        for name, more in counters.items():
            known[name] = known.get(name, 0) + more

    def queue(self, port: str, priority: int = 3, *, depth_bytes: int = 0, **counters: int) -> None:
        """Increase a queue's counters and set its depth."""
        self.grow(port)
        known = self._queue.setdefault((port, priority), {})
        for name, more in counters.items():
            known[name] = known.get(name, 0) + more
        known["depth_bytes"] = depth_bytes
        known["max_depth_bytes"] = max(depth_bytes, known.get("max_depth_bytes", 0))

    def nic(self, port: str, **counters: int) -> None:
        """Set a NIC's own counters."""
        self.grow(port)
        self._nic[port] = counters

    def sample(self, *ports: str) -> None:
        """Send the counters of the given ports; default: all ports with counters."""
        self._sequence += 1
        for name in ports or tuple(self._port):
            owner = self._owners[name]
            topic = Topic(self._fabric, owner.source, owner.owner)
            self.observer.take(str(topic), encode([self._sample(name)]), self.now_ns)

    def scan(self, seconds: float = 1.0, *, sample: bool = True) -> None:
        """Advance time, sample, and end the period."""
        self.now_ns += round(seconds * S)
        if sample:
            self.sample()
        scan = self.observer.scan(self.now_ns)
        self.telemetry.tick(self.observer.snapshot(self.now_ns), self.observer.active())
        self.telemetry.publish_events(signal_events(scan.signals, self.ports, self.now_ns))

    def _sample(self, name: str) -> PortSample:
        port: dict[str, Any] = dict(self._port.get(name, {}))
        queues = [
            QueueSample(priority=p, **values) for (port_name, p), values in self._queue.items() if port_name == name
        ]
        return PortSample(
            port=name,
            timestamp_unix_ns=self.now_ns,
            sequence=self._sequence,
            boot_id=1,
            queues=tuple(sorted(queues, key=lambda queue: queue.priority)),
            nic_counters=self._nic.get(name, {}),
            **port,
        )
