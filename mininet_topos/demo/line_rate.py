"""At which line rate a demo is measured: the highest of a few that this machine carries, found by measuring.

A rate is given up when a run at it is invalid twice in a row: the calibration before the first run, which is full load
between all neighbouring leaves, or any run. Then everything is measured anew at the next lower rate, in all modes, for
runs at different rates are not to be compared. At the lowest rate an invalid run stays what it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mininet_topos.demo.options import DemoOptions
from mininet_topos.demo.queue_pairs import QueuePair, hashed_pairs
from mininet_topos.demo.results.summary import rate_text
from mininet_topos.demo.results.values import DemoResult, GivenUpRate
from mininet_topos.demo.workloads import Workload, compute_nics, rotation
from mininet_topos.lab import Lab

PORTS_TRIED = 32


class RateTooHighError(Exception):
    """A run was invalid twice at a rate that is not the last: `run` says which, `problem` why."""

    def __init__(self, run: str, problem: str) -> None:
        """Take what is to be told."""
        super().__init__(f"{run}: {problem}")
        self.run, self.problem = run, problem


def measure_at_highest_rate(
    options: DemoOptions, measure: Callable[[DemoOptions, bool], DemoResult], say: Callable[[str], None]
) -> DemoResult:
    """Return the result at the first rate that holds, with those that did not.

    `measure` is told whether it may raise RateTooHighError: there is a lower rate.
    """
    given_up: list[GivenUpRate] = []
    for at in (options, *options.slower[:-1]) if options.slower else ():
        try:
            return replace(measure(at, True), rates_given_up=tuple(given_up))
        except RateTooHighError as fault:
            given_up.append(GivenUpRate(line_rate_bps=at.line_rate_bps, run=fault.run, problem=fault.problem))
            say(f"this machine does not carry {rate_text(at.line_rate_bps)}: everything anew at the next lower rate")
    return replace(measure((options, *options.slower)[-1], False), rates_given_up=tuple(given_up))


def full_load(lab: Lab, seconds: float) -> tuple[Workload, list[QueuePair]]:
    """Return a rotation with source ports under which hashing spreads it over the links; as yet unpaced."""
    workload = rotation(compute_nics(lab.fabric), seconds)
    pairs = hashed_pairs(lab.fabric, workload, "ecmp")
    return workload, spread(pairs, lambda pair: lab.path_of(lab.stream_of(pair.request)))


def spread(pairs: Sequence[QueuePair], path_of: Callable[[QueuePair], tuple[str, ...]]) -> list[QueuePair]:
    """Give each queue pair, one after the other, the port (of some) and path whose fullest link has least on it."""
    load_bps: dict[str, int] = {}
    found = []
    for pair in pairs:
        least_bps, best = None, pair
        for step in range(PORTS_TRIED):
            port = _port(pair.udp_source_port, step)
            tried = replace(pair, udp_source_port=port)
            links = path_of(tried)
            fullest_bps = max((load_bps.get(link, 0) for link in links), default=0)
            if least_bps is None or fullest_bps < least_bps:
                least_bps, best = fullest_bps, replace(tried, links=links)
            if not least_bps:
                break
        for link in best.links:
            load_bps[link] = load_bps.get(link, 0) + pair.demand_bps
        found.append(best)
    return found


def _port(port: int, step: int) -> int:
    """Return another port of the same range, 49152 to 65535."""
    return (port + 977 * step) % 0x4000 | 0xC000
