"""The queue of samples to publish: only the newest sample of each port.

Counters are cumulative, so a newer sample of a port contains all that an older one did. While the broker is unreachable
or slow, a newer sample replaces the pending one of its port, which is counted. The number of ports bounds the memory.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from heddle.telemetry.samples.sample import MAX_PORTS, PortSample

MAX_PENDING_PORTS = 16_384


class Outbox:
    """Pending samples by topic and port; `replaced` and `refused` count samples that are never published."""

    def __init__(self, max_ports: int = MAX_PENDING_PORTS) -> None:
        self._waiting: dict[str, dict[str, PortSample]] = {}
        self._count = 0
        self._max_ports = max_ports
        self.replaced = 0
        self.refused = 0

    def __len__(self) -> int:
        return self._count

    def offer(self, topic: str, samples: Iterable[PortSample]) -> None:
        """Queue samples; each replaces the pending one of its port. Samples of ports beyond the limit are refused."""
        waiting = self._waiting.setdefault(topic, {})
        for sample in samples:
            if sample.port in waiting:
                self.replaced += 1
            elif self._count == self._max_ports:
                self.refused += 1
                continue
            else:
                self._count += 1
            waiting[sample.port] = sample
        if not waiting:
            del self._waiting[topic]

    def put_back(self, topic: str, samples: Sequence[PortSample]) -> None:
        """Queue samples again that could not be sent, except where a newer one of the same port is pending."""
        waiting = self._waiting.get(topic, {})
        self.replaced += sum(sample.port in waiting for sample in samples)
        self.offer(topic, [sample for sample in samples if sample.port not in waiting])

    def take(self, limit: int = MAX_PORTS) -> tuple[str, list[PortSample]] | None:
        """Return the topic pending longest with up to `limit` of its samples; None if the outbox is empty."""
        for topic, waiting in self._waiting.items():
            taken = [waiting.pop(port) for port in list(islice(waiting, limit))]
            del self._waiting[topic]
            if waiting:
                self._waiting[topic] = waiting  # the rest queues behind the other topics
            self._count -= len(taken)
            return topic, taken
        return None
