"""The agent: read every source at least once per period and publish its samples under the contract's topics.

One task per source, so that a slow source delays no other, and one for the MQTT session. A source that fails is read
again at the next period. Any other exception is a programming error and ends the process, for its supervisor to see.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.telemetry.agent.outbox import Outbox
from heddle.telemetry.agent.pace import next_tick_ns
from heddle.telemetry.agent.reporter import QueuePairReporter
from heddle.telemetry.agent.session import Broker, BrokerSession, cancelled, raise_first
from heddle.telemetry.agent.source import CounterSource, DeviceSamples, SourceError, is_sound
from heddle.telemetry.agent.stamp import Stamps
from heddle.telemetry.complaint import Complaints
from heddle.telemetry.samples.topic import Source, nics_topic, ports_topic, status_topic

log = logging.getLogger(__name__)

OFFLINE_TIMEOUT_S = 2.0  # for the publication of `offline` at the end

_TOPIC_OF = {Source.SWITCH: ports_topic, Source.HOST: nics_topic}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Fabric and agent names, and the sampling period."""

    fabric: str
    agent: str
    period_ns: int

    def __post_init__(self) -> None:
        status_topic(self.fabric, self.agent)
        if self.period_ns < 1:
            raise ValueError("the period must be positive")


class Agent:
    """Read `sources` and publish their samples to `broker`; beside them, `reporter` reports to a controller."""

    def __init__(
        self, settings: AgentSettings, broker: Broker, sources: Sequence[CounterSource],
        reporter: QueuePairReporter | None = None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._reporter = reporter
        self._sources = sources
        self._outbox = Outbox()
        self._stamps = Stamps(settings.period_ns)
        self._complaints = Complaints()
        identifier = f"heddle-{settings.fabric}-{settings.agent}"
        self._session = BrokerSession(broker, identifier, status_topic(settings.fabric, settings.agent), self._outbox)
        self.faults = self.missed_ticks = 0

    async def run(self, ended: asyncio.Event) -> None:
        """Sample and publish until `ended` is set, then publish `offline`; raises on programming errors."""
        ending = asyncio.create_task(ended.wait())
        session = asyncio.create_task(self._session.run())
        samplers = [asyncio.create_task(self._sample(source)) for source in self._sources]
        if self._reporter is not None:
            samplers.append(asyncio.create_task(self._reporter.run()))
        try:
            await asyncio.wait([ending, session, *samplers], return_when=asyncio.FIRST_COMPLETED)
            self._session.end()
            await asyncio.wait([session], timeout=OFFLINE_TIMEOUT_S)
        finally:
            tasks = [ending, session, *samplers]
            await cancelled(tasks)
            for source in self._sources:
                await source.close()
        raise_first(tasks)

    def counts(self) -> dict[str, int]:
        """Return cumulative counts by name."""
        return {
            "connects": self._session.connects,
            "messages": self._session.messages,
            "samples": self._session.samples,
            "samples_replaced": self._outbox.replaced,
            "samples_refused": self._outbox.refused,
            "samples_unchanged": self._stamps.unchanged,
            "source_faults": self.faults,
            "missed_ticks": self.missed_ticks,
            **({} if self._reporter is None else self._reporter.counts()),
        }

    async def _sample(self, source: CounterSource) -> None:
        period_ns = self._settings.period_ns // source.reads_per_period
        start_ns, expected = time.monotonic_ns(), 1
        while True:
            try:
                self._offer(source, await source.read(time.time_ns()), time.time_ns())
            except SourceError as fault:
                self._complain(source, fault)
            due_ns, number = next_tick_ns(start_ns, period_ns, time.monotonic_ns())
            self.missed_ticks += number - expected
            expected = number + 1
            await asyncio.sleep((due_ns - time.monotonic_ns()) / 1e9)

    def _offer(self, source: CounterSource, devices: Sequence[DeviceSamples], now_unix_ns: int) -> None:
        for device in devices:
            try:
                topic = _TOPIC_OF[device.kind](self._settings.fabric, device.device)
            except ValueError as fault:
                raise SourceError(str(fault)) from None
            sound = [sample for sample in device.samples if is_sound(sample)]
            if len(sound) < len(device.samples):
                wrong = next(sample for sample in device.samples if not is_sound(sample))
                self._complain(source, SourceError(f"port {wrong.port[:70]!r} has an invalid name or timestamp"))
            self._outbox.offer(topic, self._stamps.stamp(sound, now_unix_ns))
        self._session.offered()

    def _complain(self, source: CounterSource, fault: SourceError) -> None:
        self.faults += 1
        self._complaints.add("source_fault", source.name, str(fault))
        for complaint in self._complaints.due(time.monotonic_ns()):
            log.warning("%s", complaint)
