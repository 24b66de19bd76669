"""A state as metrics in Prometheus' text format (exposition format 0.0.4)."""

from collections import Counter
from collections.abc import Iterator, Sequence

from controller.brain.state import State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JOB_STATES = ("planned", "running", "degraded")


def metrics_text(state: State, refused_events: int) -> str:
    """Write what a monitor asks of a controller; `refused_events` found the loop's inbox full."""
    return "\n".join(_lines(state, refused_events)) + "\n"


def _lines(state: State, refused_events: int) -> Iterator[str]:
    jobs = Counter(job.state for job in state.jobs.values())
    connected = sum(switch.connected for switch in state.switches.values())
    yield from _metric("heddle_switches", "gauge", "Switches of the fabric file.", [("", len(state.switches))])
    yield from _metric("heddle_switches_connected", "gauge", "Switches with a session.", [("", connected)])
    yield from _metric(
        "heddle_jobs", "gauge", "Jobs that hold paths.", [(f'{{state="{name}"}}', jobs[name]) for name in JOB_STATES]
    )
    yield from _metric("heddle_links_down", "gauge", "Cables out of use.", [("", len(state.health.down_cables))])
    yield from _metric("heddle_requests_waiting", "gauge", "Work that waits its turn.", [("", len(state.queue))])
    newest = next(reversed(state.jobs.values()), None)
    fullest = newest.certificate.max_link_utilisation if newest else 0.0
    yield from _metric("heddle_max_link_utilisation", "gauge", "Planned, when the newest job came.", [("", fullest)])
    generation = state.topology_generation
    yield from _metric("heddle_topology_generation", "counter", "Changes of the topology.", [("", generation)])
    yield from _metric("heddle_events_refused_total", "counter", "The inbox was full.", [("", refused_events)])
    rules = [(f'{{switch="{name}"}}', len(s.installed.rules)) for name, s in state.switches.items() if s.installed]
    yield from _metric("heddle_switch_rules", "gauge", "Rules that a switch is known to hold.", rules)


def _metric(name: str, kind: str, text: str, samples: Sequence[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        yield f"{name}{labels} {value}"
