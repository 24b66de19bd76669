"""Read which back ends answer none of their new connections, from the counters of the data process."""

from collections.abc import Iterable, Set

from heddle.dataplane.balancer.compiler.numbering import MAX_BACK_ENDS, BackEndName, Numbering, service_name
from heddle.dataplane.balancer.memory.state import Count
from heddle.dataplane.balancer.silence import READING_S, Conduct, Reading, observed
from heddle.dataplane.config.balancers import BalancerConfig, LoadBalancer
from heddle.dataplane.jit import Ints

_NEW = Conduct()


class SilentBackEnds:
    """What the back ends of services with passive checks have done; call `read` every READING_S."""

    def __init__(self) -> None:
        self.closings = 0
        """Back ends that were closed, since the start."""
        self._counts: dict[int, Reading] = {}
        self._conduct: dict[BackEndName, Conduct] = {}

    def read(
        self, services: BalancerConfig, down: Set[BackEndName], numbering: Numbering, counters: Ints
    ) -> frozenset[BackEndName]:
        """Return the back ends that are silent after one more reading.

        Args:
            services: what the balancer serves.
            down: back ends whose probes fail.
            numbering: that of the tables in use.
            counters: `memory.state.State.counters`.
        """
        before, counts = self._conduct, dict[int, Reading]()
        self._conduct = {}
        for each in services.balancers:
            if each.health is not None and each.health.passive:
                numbers = {name: numbering.back_ends[name] for name in usable(each, down)}
                counts |= {number: _count(counters, number) for number in numbers.values()}
                news = {name: _since(self._counts.get(number), counts[number]) for name, number in numbers.items()}
                self._conduct |= observed({name: before.get(name, _NEW) for name in news}, news)
        self._counts = counts
        silent = frozenset(name for name, conduct in self._conduct.items() if conduct.pause)
        self.closings += sum(not before.get(name, _NEW).pause for name in silent)
        return silent

    def pause_s(self, name: BackEndName) -> float:
        """Return for how long a silent back end stays closed unless it answers."""
        return self._conduct[name].pause * READING_S


def usable(each: LoadBalancer, down: Set[BackEndName]) -> Iterable[BackEndName]:
    """Yield the back ends that may get new connections by their probes and weights."""
    for end in each.back_ends:
        name = BackEndName(service_name(each), end.ip, end.port)
        if name not in down and end.weight > 0 and not end.draining:
            yield name


def _count(counters: Ints, number: int) -> Reading:
    row = number % MAX_BACK_ENDS
    return Reading(int(counters[Count.OPENED + row]), int(counters[Count.ANSWERED + row]))


def _since(before: Reading | None, now: Reading) -> Reading:
    """Return what was counted since; nothing for a new row, or in a data process that began anew."""
    if before is None or now.opened < before.opened or now.answered < before.answered:
        return Reading(0, 0)
    return Reading(now.opened - before.opened, now.answered - before.answered)
