"""The controller's own metrics: switches, jobs, telemetry's health, the history. Those of ports: `fabric_metrics`."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from controller.brain.state import State
from controller.dashboard import fabric_metrics
from controller.dashboard.exposition import Family, label_text, lines
from controller.model.job_state import JobState
from controller.runtime.telemetry import Telemetry
from telemetry.detection.signal import Kind

JOB_STATES = tuple(state for state in JobState if state is not JobState.RELEASED)

SWITCHES = Family("heddle_switches", "gauge", "Switches of the fabric file.")
CONNECTED = Family("heddle_switches_connected", "gauge", "Switches with a session.")
JOBS = Family("heddle_jobs", "gauge", "Jobs that hold paths.", ("state",))
LINKS_DOWN = Family("heddle_links_down", "gauge", "Cables out of use.")
WAITING = Family("heddle_requests_waiting", "gauge", "Work that waits its turn.")
FULLEST = Family("heddle_max_link_utilisation", "gauge", "Planned, when the newest job came.")
GENERATION = Family("heddle_topology_generation", "gauge", "Changes of the topology so far, from 1.")
REFUSED = Family("heddle_events_refused_total", "counter", "The inbox was full.")
RULES = Family("heddle_switch_rules", "gauge", "Rules that a switch is known to hold.", ("switch",))
CONFIGURED = Family("heddle_telemetry_configured", "gauge", "1 where a broker is configured.")
TICKS = Family("heddle_telemetry_ticks_total", "counter", "Periods whose end was told to readers.")
SKIPPED = Family("heddle_telemetry_skipped_ticks_total", "counter", "Periods that readers of ports were too slow for.")
COLLECTED = {
    "received_messages": Family("heddle_telemetry_messages_total", "counter", "Messages that came over the bus."),
    "received_bytes": Family("heddle_telemetry_bytes_total", "counter", "Bytes of those messages."),
    "samples": Family("heddle_telemetry_samples_total", "counter", "Samples of ports that were taken."),
    "overflowed_messages": Family(
        "heddle_telemetry_overflowed_messages_total", "counter", "Messages dropped, for the collector was behind."
    ),
    "lost_connections": Family("heddle_telemetry_lost_connections_total", "counter", "Times the broker was lost."),
    "late_looks": Family("heddle_telemetry_late_looks_total", "counter", "Periods whose end came late."),
}
ODD = Family(
    "heddle_telemetry_odd_inputs_total", "counter", "What came over the bus and was dropped or stood out.", ("kind",)
)
CONDITIONS = Family("heddle_conditions", "gauge", "Conditions that are raised now.", ("kind",))
HISTORY = {
    "skipped_snapshots": Family(
        "heddle_history_skipped_snapshots_total", "counter", "Snapshots the writer was too slow for; growth is kept."
    ),
    "dropped_events": Family("heddle_history_dropped_events_total", "counter", "Events the writer was too slow for."),
    "written_batches": Family("heddle_history_written_batches_total", "counter", "Batches that were written."),
    "failed_batches": Family("heddle_history_failed_batches_total", "counter", "Batches that could not be written."),
    "used_bytes": Family("heddle_history_used_bytes", "gauge", "What of the file is in use, as of the last trimming."),
}
FAMILIES = (
    SWITCHES, CONNECTED, JOBS, LINKS_DOWN, WAITING, FULLEST, GENERATION, REFUSED, RULES,
    CONFIGURED, TICKS, SKIPPED, *COLLECTED.values(), ODD, CONDITIONS, *HISTORY.values(),
)  # fmt: skip


def metrics_text(state: State, telemetry: Telemetry, refused_events: int) -> Iterator[str]:
    """Write what a monitor asks of a controller, in pieces; `refused_events` found the loop's inbox full."""
    tick = telemetry.ticks.value
    fabric = fabric_metrics.fabric_lines(state.fabric, tick.snapshot) if tick is not None else ()
    return chain(_state_lines(state, refused_events), _telemetry_lines(telemetry), fabric)


def _state_lines(state: State, refused_events: int) -> Iterator[str]:
    jobs = Counter(job.state for job in state.jobs.values())
    newest = next(reversed(state.jobs.values()), None)
    rules = [(name, len(switch.installed.rules)) for name, switch in state.switches.items() if switch.installed]
    yield from lines(SWITCHES, [("", len(state.switches))])
    yield from lines(CONNECTED, [("", sum(switch.connected for switch in state.switches.values()))])
    yield from lines(JOBS, [(label_text(("state", name)), jobs[name]) for name in JOB_STATES])
    yield from lines(LINKS_DOWN, [("", len(state.health.down_cables))])
    yield from lines(WAITING, [("", len(state.queue))])
    yield from lines(FULLEST, [("", newest.certificate.max_link_utilisation if newest else 0.0)])
    yield from lines(GENERATION, [("", state.topology_generation)])
    yield from lines(REFUSED, [("", refused_events)])
    yield from lines(RULES, [(label_text(("switch", name)), count) for name, count in rules])


def _telemetry_lines(telemetry: Telemetry) -> Iterator[str]:
    tick = telemetry.ticks.value
    raised = Counter(signal.kind for signal in tick.active) if tick is not None else Counter()
    counts = dict(telemetry.counts)
    counts.pop("looks", None)  # the ticks, once more
    yield from lines(CONFIGURED, [("", int(telemetry.configured))])
    yield from lines(TICKS, [("", telemetry.ticks.number)])
    yield from lines(SKIPPED, [("", telemetry.skipped_ticks)])
    for name, family in COLLECTED.items():
        yield from lines(family, [("", counts.pop(name, 0))])
    yield from lines(ODD, [(label_text(("kind", kind)), count) for kind, count in sorted(counts.items())])
    yield from lines(CONDITIONS, [(label_text(("kind", kind)), raised[kind]) for kind in Kind])
    if telemetry.history is not None:
        written = telemetry.history.counts()
        for name, family in HISTORY.items():
            yield from lines(family, [("", written.get(name, 0))])
