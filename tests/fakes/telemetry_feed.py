"""A collector without a bus: the real windows and detector, fed by the test, shown to a controller's readers."""

from controller.brain.telling import signal_event
from telemetry.decode import Reader
from telemetry.detector import Detector
from telemetry.ports import Port, PortTable
from telemetry.sample import PortSample, QueueSample, Rejected, encode
from telemetry.thresholds import DetectorSettings
from telemetry.topic import Source
from telemetry.window import Window, settings_for

S = 1_000_000_000
START_NS = 1_790_000_000 * S


def port_table(fabric) -> PortTable:
    """Every switch port and NIC of a fabric."""
    ports = []
    for cable in fabric.cables:
        ports += [Port(str(end), Source.SWITCH, end.switch, cable.capacity_bps) for end in (cable.lower, cable.upper)]
    for nic in fabric.nics:
        ports.append(Port(str(nic.port), Source.SWITCH, nic.port.switch, nic.capacity_bps))
        ports.append(Port(nic.id, Source.HOST, nic.host, nic.capacity_bps))
    return PortTable(ports)


class TelemetryFeed:
    """Counters that grow as the test says; `look` ends a period of one second and publishes."""

    def __init__(self, telemetry, fabric, *, start_ns: int = START_NS, configured: bool = True, **settings):
        self.telemetry = telemetry
        telemetry.configured = configured
        self.ports = port_table(fabric)
        self.settings = DetectorSettings(raise_periods=1, clear_periods=1, **settings)
        window_settings = settings_for(S)
        self.window = Window(self.ports, window_settings)
        self.detector = Detector(self.ports, self.settings, stale_after_ns=window_settings.stale_after_ns)
        self.now_ns = start_ns
        self._reader = Reader()
        self._owners = {port.name: port for port in self.ports.ports}
        self._port: dict[str, dict[str, int]] = {}
        self._queue: dict[tuple[str, int], dict[str, int]] = {}
        self._nic: dict[str, dict[str, int]] = {}
        self._sequence = 0

    def grow(self, port: str, **counters: int) -> None:
        """Let a port's counters grow."""
        known = self._port.setdefault(port, {})
        for name, more in counters.items():
            known[name] = known.get(name, 0) + more

    def queue(self, port: str, priority: int = 3, *, depth_bytes: int = 0, **counters: int) -> None:
        """Let a queue's counters grow; the depth is as it is."""
        self.grow(port)
        known = self._queue.setdefault((port, priority), {})
        for name, more in counters.items():
            known[name] = known.get(name, 0) + more
        known["depth_bytes"] = depth_bytes
        known["max_depth_bytes"] = max(depth_bytes, known.get("max_depth_bytes", 0))

    def nic(self, port: str, **counters: int) -> None:
        """Say what a NIC's own counters are."""
        self.grow(port)
        self._nic[port] = counters

    def sample(self, *ports: str) -> None:
        """Send the counters of some ports, of all that ever counted where none is named."""
        self._sequence += 1
        for name in ports or tuple(self._port):
            owner = self._owners[name]
            batch = self._reader.read(encode([self._sample(name)]))
            assert not isinstance(batch, Rejected)
            found = self.ports.find(owner.source, owner.owner, batch.names)
            self.window.store(batch.rows, found.positions, found.rows, self.now_ns)

    def look(self, seconds: float = 1.0, *, sample: bool = True) -> None:
        """Let time pass, sample, and end the period."""
        self.now_ns += round(seconds * S)
        if sample:
            self.sample()
        period = self.window.roll(self.now_ns)
        signals = self.detector.step(period)
        self.telemetry.tick(self.window.snapshot(self.now_ns), self.detector.active(period))
        self.telemetry.happened(signal_event(signal, self.now_ns) for signal in signals)

    def _sample(self, name: str) -> PortSample:
        port = dict(self._port.get(name, {}))
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
