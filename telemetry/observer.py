"""The pure half of the collector: messages and times in, the results of scans out.

A message of any content is stored or counted and never raises. The same messages at the same times give the same
results, so a recorded stream can be replayed offline.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heddle.telemetry.complaint import UNKNOWN, Complaint, Complaints
from heddle.telemetry.detection.detector import Detector
from heddle.telemetry.detection.signal import Signal
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.detection.window import LinkChange, Period, Snapshot, Window, settings_for
from heddle.telemetry.neighbours.heard import Heard
from heddle.telemetry.neighbours.table import HeardTable
from heddle.telemetry.samples.decode import Batch, BatchDecoder
from heddle.telemetry.samples.ports import PortTable
from heddle.telemetry.samples.sample import Refusal, Rejected
from heddle.telemetry.samples.topic import OFFLINE, ONLINE, Source, Topic, parse

MAX_OTHER_AGENTS = 64
"""The agents online whose names are no switch's or host's of the fabric (one for a whole lab, for example)."""
MAX_CHANGES = 4_096
"""The changed statuses that one scan reports."""
UNKNOWN_COUNTER = "unknown_nic_counter"


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """The last status that an agent, or its last will, published."""

    agent: str
    online: bool
    since_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The result of a scan: signals, changed agents and links, complaints to log, and the number of new samples.

    is_whole: the scan ends a sampling period. heard: what all ports hear of their neighbours, None if nothing changed.
    """

    number: int
    now_ns: int
    is_whole: bool
    signals: tuple[Signal, ...]
    agents: tuple[AgentStatus, ...]
    complaints: tuple[Complaint, ...]
    samples: int
    links: tuple[LinkChange, ...] = ()
    heard: Mapping[str, Heard] | None = None


class Observer:
    """Windows and detector of one fabric. One owner calls `take` per message and `scan` at least once per period."""

    def __init__(self, fabric: str, ports: PortTable, settings: DetectorSettings) -> None:
        window_settings = settings_for(settings.period_ms * 1_000_000)
        self.fabric = fabric
        self.window = Window(ports, window_settings)
        self.detector = Detector(ports, settings, stale_after_ns=window_settings.stale_after_ns)
        self.complaints = Complaints()
        self.agents: dict[str, AgentStatus] = {}
        self._others: set[str] = set()
        self.messages = 0
        self.samples = 0
        self._heard = HeardTable()
        self._reader = BatchDecoder()
        self._changed: list[AgentStatus] = []
        self._reported_samples = 0
        self._last: Period | None = None

    def take(self, topic_text: str, payload: bytes, now_ns: int) -> None:
        """Store or count one message; `now_ns` is the Unix time of its arrival."""
        self.messages += 1
        topic = parse(topic_text)
        if topic is None or topic.fabric != self.fabric:
            self.complaints.add(Refusal.TOPIC, UNKNOWN, f"topic {topic_text[:100]!r} is not of this fabric")
        elif topic.source is Source.AGENT:
            self._take_status(topic, payload, now_ns)
        elif not self.window.ports.knows(topic.source, topic.name):
            text = f"{topic.source} {topic.name} is not in the fabric file"
            self.complaints.add(Refusal.UNKNOWN_SOURCE, UNKNOWN, text)
        else:
            self._take_samples(topic, payload, now_ns)

    def scan(self, now_ns: int) -> Scan:
        """Run the detector on the samples since the last scan."""
        period = self._last = self.window.roll(now_ns)
        agents, self._changed = tuple(self._changed), []
        samples, self._reported_samples = self.samples - self._reported_samples, self.samples
        return Scan(
            number=period.number,
            now_ns=now_ns,
            is_whole=period.is_whole,
            signals=self.detector.step(period),
            agents=agents,
            complaints=self.complaints.due(now_ns),
            samples=samples,
            links=self.window.link_changes(),
            heard=self._heard.changed(),
        )

    def active(self) -> tuple[Signal, ...]:
        """Return every condition that is raised as of the last scan."""
        return self.detector.active(self._last) if self._last is not None else ()

    def snapshot(self, now_ns: int) -> Snapshot:
        """Copy the windows, for readers."""
        return self.window.snapshot(now_ns)

    def _take_status(self, topic: Topic, payload: bytes, now_ns: int) -> None:
        if payload not in (ONLINE, OFFLINE):
            self.complaints.add(Refusal.MALFORMED, UNKNOWN, f"agent {topic.name}: neither online nor offline")
            return
        online, before = payload == ONLINE, self.agents.get(topic.name)
        if not self._may_keep(topic.name, online):
            return
        if before is None or before.online != online:
            status = self.agents[topic.name] = AgentStatus(topic.name, online, now_ns)
            if len(self._changed) < MAX_CHANGES:
                self._changed.append(status)
        if topic.name in self._others and not online:
            self._others.remove(topic.name)
            del self.agents[topic.name]

    def _may_keep(self, agent: str, online: bool) -> bool:
        """Return whether an agent's status is kept: always if the fabric has its name, else of a few while online.

        So invented names take no memory, and what a broker retains of agents long gone is ignored.
        """
        ports = self.window.ports
        if ports.knows(Source.SWITCH, agent) or ports.knows(Source.HOST, agent) or agent in self._others:
            return True
        if online and len(self._others) < MAX_OTHER_AGENTS:
            self._others.add(agent)
            return True
        if online:
            text = f"agent {agent}: no switch or host has its name, and {MAX_OTHER_AGENTS} such agents are online"
            self.complaints.add(Refusal.UNKNOWN_SOURCE, UNKNOWN, text)
        return False

    def _take_samples(self, topic: Topic, payload: bytes, now_ns: int) -> None:
        source = f"{topic.source} {topic.name}"
        batch = self._reader.read(payload)
        if isinstance(batch, Rejected):
            self.complaints.add(batch.kind, source, batch.text)
            return
        if batch.unknown_counters:
            self.complaints.add(UNKNOWN_COUNTER, source, "unknown NIC counters ignored", batch.unknown_counters)
        found = self.window.ports.find(topic.source, topic.name, batch.names)
        if found.unknown:
            known = set(found.positions.tolist())
            name = next(name for position, name in enumerate(batch.names) if position not in known)
            self.complaints.add(Refusal.UNKNOWN_PORT, source, f"{name} is not one of its ports", found.unknown)
        if not found.rows.size:
            return
        stored = self.window.store(batch.rows, found.positions, found.rows, now_ns)
        self.samples += stored.taken
        self._take_heard(batch, stored.positions.tolist() if batch.heard else (), source)
        for refusal, count in stored.refused.items():
            self.complaints.add(refusal, source, "samples dropped", count)
        for notice, count in stored.noticed.items():
            self.complaints.add(notice, source, _NOTICES[notice], count)

    def _take_heard(self, batch: Batch, positions: Iterable[int], source: str) -> None:
        """Keep what ports hear of their neighbours, of samples that are taken."""
        for position in positions:
            report = batch.heard.get(position)
            if report is not None and not self._heard.store(batch.names[position], report):
                text = f"what {batch.names[position]} hears of its neighbours is malformed or too long"
                self.complaints.add(Refusal.NEIGHBOURS, source, text)


_NOTICES = {
    "gap": "samples missing between two received ones",
    "reset": "counters restarted; totals continue from their last value",
    "wrap": "counters wrapped at the end of their range",
}
