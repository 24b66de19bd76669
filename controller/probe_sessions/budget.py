"""Limit the rate of probes that expire at each switch, because a switch replies to them by its CPU.

Where several switches may reply to a probe, each is charged its part of it. What they did reply corrects that, so a
hash that leads all probes over one switch slows the search down to that switch's rate. Time is an argument.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

Load = Mapping[str, float]
"""Probes by switch that is expected to reply to them."""


def load_of(questions: Iterable[frozenset[str]]) -> dict[str, float]:
    """Return the load of probes, each given by the switches that may reply to it."""
    load: defaultdict[str, float] = defaultdict(float)
    for switches, number in Counter(questions).items():
        for switch in switches:
            load[switch] += number / len(switches)
    return dict(load)


class Budget:
    """Until when every switch is busy with replies, at `rate_pps` probes a second for each."""

    def __init__(self, rate_pps: float) -> None:
        self._rate_pps = rate_pps
        self._busy_until_s: dict[str, float] = {}

    def spread_s(self, load: Load, now_s: float) -> float:
        """Charge a load; return the time in seconds over which it has to be spread."""
        for switch, probes in load.items():
            self._busy_until_s[switch] = max(now_s, self._busy_until_s.get(switch, now_s)) + probes / self._rate_pps
        return max((self._busy_until_s[switch] - now_s for switch in load), default=0.0)

    def correct(self, load: Load, replied: Load, now_s: float) -> None:
        """Replace the expected replies of a load by the replies received; silence stays charged as expected.

        `load` is that of the questions that were replied to.
        """
        for switch in load.keys() | replied.keys():
            extra = replied.get(switch, 0) - load.get(switch, 0)
            self._busy_until_s[switch] = self._busy_until_s.get(switch, now_s) + extra / self._rate_pps


def rates(numbers: Mapping[int, int], limits_pps: Mapping[int, float], spread_s: float) -> dict[int, float]:
    """Return each agent's rate for its number of probes: all take `spread_s`, or longer where an agent is slower."""
    return {
        source: min(limits_pps[source], number / spread_s) if spread_s > 0 else limits_pps[source]
        for source, number in numbers.items()
    }
