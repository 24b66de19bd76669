"""Choose the line rate of a demo: the highest of a few candidates that this machine carries, found by measuring.

A rate is given up when a run at it is invalid twice in a row: the calibration before the first run, which is full load
between neighbouring leaves, or any run. Then everything is measured again at the next lower rate, in all modes, because
runs at different rates cannot be compared. At the lowest rate an invalid run stays invalid.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from heddle.mininet_topos.demo.options import DemoOptions
from heddle.mininet_topos.demo.results.summary import rate_text
from heddle.mininet_topos.demo.results.values import DemoResult, GivenUpRate
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.traffic.queue_pairs import QueuePair, hashed_pairs
from heddle.mininet_topos.traffic.workloads import Workload, compute_nics, rotation

PORTS_TRIED = 32


class RateTooHighError(Exception):
    """A run was invalid twice at a rate that is not the lowest; `run` names it, `problem` is the reason."""

    def __init__(self, run: str, problem: str) -> None:
        """Set the name of the run and its problem."""
        super().__init__(f"{run}: {problem}")
        self.run, self.problem = run, problem


def measure_at_highest_rate(
    options: DemoOptions, measure: Callable[[DemoOptions, bool], DemoResult], log: Callable[[str], None]
) -> DemoResult:
    """Return the result at the highest rate that the machine carries, with the rates that were given up.

    `measure(options, may_give_up)` may raise RateTooHighError only if `may_give_up`, that is, if there is a lower rate.
    """
    given_up: list[GivenUpRate] = []
    for at in (options, *options.slower[:-1]) if options.slower else ():
        try:
            return replace(measure(at, True), rates_given_up=tuple(given_up))
        except RateTooHighError as fault:
            given_up.append(GivenUpRate(line_rate_bps=at.line_rate_bps, run=fault.run, problem=fault.problem))
            log(f"this machine does not carry {rate_text(at.line_rate_bps)}: measuring again at the next lower rate")
    return replace(measure((options, *options.slower)[-1], False), rates_given_up=tuple(given_up))


def full_load(lab: Lab, seconds: float) -> tuple[Workload, list[QueuePair]]:
    """Return a rotation and its queue pairs, with source ports that hash onto disjoint links; not yet paced."""
    workload = rotation(compute_nics(lab.fabric), seconds)
    pairs = hashed_pairs(lab.fabric, workload, "ecmp")
    return workload, spread(pairs, lambda pair: lab.path_of(lab.stream_of(pair.request)))


def spread(pairs: Sequence[QueuePair], path_of: Callable[[QueuePair], tuple[str, ...]]) -> list[QueuePair]:
    """Assign each queue pair in turn the source port, of `PORTS_TRIED`, that minimises the load of its fullest link."""
    load_bps: dict[str, int] = {}
    found = []
    for pair in pairs:
        best_bps, best = None, pair
        for step in range(PORTS_TRIED):
            port = _port(pair.udp_source_port, step)
            tried = replace(pair, udp_source_port=port)
            links = path_of(tried)
            fullest_bps = max((load_bps.get(link, 0) for link in links), default=0)
            if best_bps is None or fullest_bps < best_bps:
                best_bps, best = fullest_bps, replace(tried, links=links)
            if not best_bps:
                break
        for link in best.links:
            load_bps[link] = load_bps.get(link, 0) + pair.demand_bps
        found.append(best)
    return found


def _port(port: int, step: int) -> int:
    """Return the `step`-th alternative to a port, in the same range, 49152 to 65535."""
    return (port + 977 * step) % 0x4000 | 0xC000
