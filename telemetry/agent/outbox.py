"""What waits to be published: the newest sample of each port, and nothing older.

Counters are cumulative, so a newer sample of a port says all that an older one said. While the broker is away or
slow, a port's waiting sample is replaced and counted; memory is bounded by the number of ports, whatever the time.
"""

from collections.abc import Iterable, Sequence
from itertools import islice

from telemetry.samples.sample import MAX_PORTS, PortSample

MAX_PENDING_PORTS = 16_384


class Outbox:
    """Samples by topic and port; `replaced` and `refused` count what was not, and will not be, published."""

    def __init__(self, most_ports: int = MAX_PENDING_PORTS) -> None:
        self._waiting: dict[str, dict[str, PortSample]] = {}
        self._count = 0
        self._most_ports = most_ports
        self.replaced = 0
        self.refused = 0

    def __len__(self) -> int:
        return self._count

    def offer(self, topic: str, samples: Iterable[PortSample]) -> None:
        """Let samples wait; one for a port that waits already takes its place, one for a port too many is refused."""
        waiting = self._waiting.setdefault(topic, {})
        for sample in samples:
            if sample.port in waiting:
                self.replaced += 1
            elif self._count == self._most_ports:
                self.refused += 1
                continue
            else:
                self._count += 1
            waiting[sample.port] = sample
        if not waiting:
            del self._waiting[topic]

    def put_back(self, topic: str, samples: Sequence[PortSample]) -> None:
        """Let samples wait again that could not be sent; those with a newer one in their place are not needed."""
        waiting = self._waiting.get(topic, {})
        self.replaced += sum(sample.port in waiting for sample in samples)
        self.offer(topic, [sample for sample in samples if sample.port not in waiting])

    def take(self, most: int = MAX_PORTS) -> tuple[str, list[PortSample]] | None:
        """Return the topic that has waited longest with at most `most` of its samples; None where nothing waits."""
        for topic, waiting in self._waiting.items():
            taken = [waiting.pop(port) for port in list(islice(waiting, most))]
            del self._waiting[topic]
            if waiting:
                self._waiting[topic] = waiting  # what is left queues up again behind the others
            self._count -= len(taken)
            return topic, taken
        return None
