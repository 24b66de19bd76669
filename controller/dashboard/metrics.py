"""Metrics of the controller: switches, jobs, journal, telemetry, history. Those of ports are in `fabric_metrics`."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from heddle.controller.brain.cabling.following import followed_lately
from heddle.controller.brain.lacking import missing
from heddle.controller.brain.state import State
from heddle.controller.dashboard import fabric_metrics, mesh_metrics, steering_metrics
from heddle.controller.dashboard.exposition import Family, label_text, lines
from heddle.controller.dashboard.sources import Sources
from heddle.controller.model.found_cabling import as_found
from heddle.controller.model.job_state import JobState
from heddle.controller.model.observed import Reports
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.probe_sessions.assembly import Lie
from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.controller.runtime.inbox import Inbox
from heddle.controller.runtime.journal.writer import JournalWriter
from heddle.controller.runtime.limits.limited import Limit
from heddle.controller.runtime.limits.shares import Shares
from heddle.controller.runtime.telemetry import Telemetry
from heddle.controller.views.flow_rates import measured_of, measured_rates
from heddle.telemetry.detection.signal import SignalKind

JOB_STATES = tuple(state for state in JobState if state is not JobState.RELEASED)

SWITCHES = Family("heddle_switches", "gauge", "Switches of the fabric file.")
CONNECTED = Family("heddle_switches_connected", "gauge", "Switches with a session; absent on a fabric that hashes.")
LACKING = Family(
    "heddle_switches_lacking_rules", "gauge", "Switches that lack rules that they should hold: no new job uses them."
)
LAGGING = Family("heddle_switches_lagging", "gauge", "Switches that have not acknowledged their newest rules yet.")
MISSING = Family("heddle_switch_missing_rules", "gauge", "Rules that a switch should hold and does not.", ("switch",))
JOBS = Family("heddle_jobs", "gauge", "Jobs that hold paths.", ("state",))
LINKS_DOWN = Family("heddle_links_down", "gauge", "Cables that are down.")
BAD_CABLES = Family(
    "heddle_bad_cables", "gauge", "Cables that lose frames or are slow: kept at what they have left, or left out.",
    ("plans",),
)  # fmt: skip
LEFT = Family("heddle_bad_cable_left_ratio", "gauge", "What a bad cable has left of its rate.", ("cable",))
WAITING = Family("heddle_requests_waiting", "gauge", "Requests that wait for the planner.")
FULLEST = Family("heddle_max_link_utilisation", "gauge", "Planned utilisation of the fullest link, at the newest job.")
SLOWED = Family("heddle_flows_slowed", "gauge", "Planned flows with a max-min share below 1, at the newest job.")
OVERLOADED = Family("heddle_links_over_capacity", "gauge", "Links planned above their capacity, at the newest job.")
CONVERGENCES = Family("heddle_convergences_total", "counter", "Moves of all flows at once to a plan of all of them.")
BELOW_GOAL = Family(
    "heddle_jobs_below_goal",
    "gauge",
    "Mean speed of the jobs below that of the goal of a convergence, 0 to 1; 0 also where it is not known.",
)
GENERATION = Family("heddle_topology_generation", "gauge", "Number of the current topology; each change adds 1.")
REFUSED = Family("heddle_events_refused_total", "counter", "Events dropped because the inbox was full.")
INBOX = Family("heddle_events_waiting", "gauge", "Events that wait in a lane of the inbox.", ("lane",))
OVERTOOK = Family(
    "heddle_events_overtook_total", "counter", "Topology events handled before a request that had waited for longer."
)
UNRECORDED = Family(
    "heddle_recording_lost_turns_total", "counter", "Turns of the loop that could not be recorded for heddle replay."
)
UNAUDITED = Family("heddle_audit_lost_lines_total", "counter", "Lines of the audit trail that could not be written.")
PREVIEWS = Family("heddle_previews_limit", "gauge", "Previews that one caller may have in progress.")
REFUSED_PREVIEWS = Family("heddle_previews_refused_total", "counter", "Previews refused because of that limit.")
REPORTED = {
    "messages": Family("heddle_flow_reports_total", "counter", "Reports of queue pairs received from hosts."),
    "queue_pairs": Family("heddle_flow_reports_queue_pairs_total", "counter", "Queue pairs in these reports."),
    "foreign": Family(
        "heddle_flow_reports_foreign_total", "counter", "Reported queue pairs of a NIC that is not the reporter's."
    ),
    "surplus": Family(
        "heddle_flow_reports_surplus_total", "counter", "Reported queue pairs past the limit of one report."
    ),
    "path_errors": Family(
        "heddle_flow_reports_path_errors_total", "counter", "ICMPv6 errors that quote packets of reported queue pairs."
    ),
    "denied_paths": Family(
        "heddle_flow_reports_denied_paths_total", "counter", "Denied paths of queue pairs that spray, in all reports."
    ),
    "unknown_paths": Family(
        "heddle_flow_reports_unknown_paths_total",
        "counter",
        "Reported paths that are no shortest paths, or too many.",
    ),
    "pinned": Family("heddle_observed_jobs_total", "counter", "Jobs submitted for large reported flows."),
    "refused": Family("heddle_observed_jobs_refused_total", "counter", "Such jobs that were refused."),
}
MEASURED = {
    "flows": Family("heddle_job_measured_flows", "gauge", "Flows of a job whose rates hosts report.", ("job",)),
    "measured_bps": Family("heddle_job_measured_bits_per_second", "gauge", "Measured rate of these flows.", ("job",)),
    "planned_bps": Family("heddle_job_planned_bits_per_second", "gauge", "Planned rate of these flows.", ("job",)),
}
SUPPRESSED = Family(
    "heddle_log_suppressed_lines_total", "counter", "Log lines not written because their kind or peer logs too often."
)
JOURNALED = Family("heddle_journal_configured", "gauge", "1 if a state directory is configured.")
FAILING = Family(
    "heddle_journal_failing", "gauge", "1 while the journal cannot be written: new work is refused, what runs goes on."
)
JOURNAL = {
    "written": Family("heddle_journal_transactions_total", "counter", "Transactions written to the journal."),
    "values": Family("heddle_journal_values_total", "counter", "Values in these transactions."),
    "failed": Family("heddle_journal_failed_writes_total", "counter", "Attempts to write the journal that failed."),
}
LIMITED = Family(
    "heddle_limited_total",
    "counter",
    "Connections, calls, replies and events refused or ended by a limit of their port.",
    ("port", "limit"),
)
RULES = Family("heddle_switch_rules", "gauge", "Rules that a switch is known to hold.", ("switch",))
AGENTS = Family("heddle_probe_agents", "gauge", "Probe agents that are attached.")
PROBES = {
    "probes": Family("heddle_probes_total", "counter", "Probes that agents report as sent."),
    "replies": Family("heddle_probe_replies_total", "counter", "Replies to them that were asked for."),
    "orders": Family("heddle_probe_orders_total", "counter", "Orders to probe agents."),
    "orders_refused": Family(
        "heddle_probe_orders_refused_total", "counter", "Orders that an agent refused, or had too many of."
    ),
    "orders_overdue": Family("heddle_probe_orders_overdue_total", "counter", "Orders without a report in time."),
    "reports_late": Family("heddle_probe_reports_late_total", "counter", "Reports of orders that were overdue."),
    "unknown_addresses": Family(
        "heddle_probe_unknown_addresses_total", "counter", "Replies from addresses that are no port of the fabric."
    ),
    "searches_refused": Family(
        "heddle_probe_searches_refused_total", "counter", "Searches for ports refused because too many waited."
    ),
}
PROBES_OF = Family(
    "heddle_switch_probes_total",
    "counter",
    "Probes that a switch was expected to reply to; where several could, its part of them.",
    ("switch",),
)
REPLIES_OF = Family("heddle_switch_probe_replies_total", "counter", "Replies to probes by a switch.", ("switch",))
LIES = Family(
    "heddle_probe_lies_total", "counter", "What agents reported and cannot be so, by kind; it is ignored.", ("kind",)
)
CABLES = Family(
    "heddle_cables",
    "gauge",
    "Cables that are wrong, missing or unknown by what their ports hear, wrong ones that plans leave out, and those "
    "that plans use as found.",
    ("cabling",),
)
FOLLOWED = Family("heddle_cabling_followed", "gauge", "Attempts of the last hour to follow the cabling as found.")
FRAMES = Family(
    "heddle_lldp_frames_total", "counter", "LLDP frames sent, and received by what became of each.", ("result",)
)
CONFIGURED = Family("heddle_telemetry_configured", "gauge", "1 if a broker is configured.")
TICKS = Family("heddle_telemetry_ticks_total", "counter", "Periods that were published to readers.")
SKIPPED = Family("heddle_telemetry_skipped_ticks_total", "counter", "Periods skipped because readers were too slow.")
COLLECTED = {
    "received_messages": Family("heddle_telemetry_messages_total", "counter", "Messages received from the broker."),
    "received_bytes": Family("heddle_telemetry_bytes_total", "counter", "Bytes of the messages received."),
    "samples": Family("heddle_telemetry_samples_total", "counter", "Samples of ports accepted."),
    "overflowed_messages": Family(
        "heddle_telemetry_overflowed_messages_total", "counter", "Messages dropped because the collector was behind."
    ),
    "lost_connections": Family("heddle_telemetry_lost_connections_total", "counter", "Lost connections to the broker."),
    "late_scans": Family("heddle_telemetry_late_looks_total", "counter", "Periods that were processed late."),
}
ODD = Family(
    "heddle_telemetry_odd_inputs_total", "counter", "Unusual or dropped inputs from the broker, by kind.", ("kind",)
)
CONDITIONS = Family("heddle_conditions", "gauge", "Conditions that are raised.", ("kind",))
HISTORY = {
    "skipped_snapshots": Family(
        "heddle_history_skipped_snapshots_total",
        "counter",
        "Snapshots skipped because the writer was too slow; their growth is kept.",
    ),
    "dropped_events": Family(
        "heddle_history_dropped_events_total", "counter", "Events dropped because the writer was too slow."
    ),
    "written_batches": Family("heddle_history_written_batches_total", "counter", "Batches written."),
    "failed_batches": Family("heddle_history_failed_batches_total", "counter", "Batches that failed to be written."),
    "used_bytes": Family("heddle_history_used_bytes", "gauge", "Used bytes of the file, at the last trimming."),
}
FAMILIES = (
    SWITCHES, CONNECTED, LACKING, LAGGING, MISSING, JOBS, LINKS_DOWN, BAD_CABLES, LEFT, WAITING, FULLEST, SLOWED,
    OVERLOADED, CONVERGENCES, BELOW_GOAL, GENERATION, REFUSED, INBOX, OVERTOOK, UNRECORDED, SUPPRESSED, UNAUDITED,
    JOURNALED, FAILING,
    *JOURNAL.values(), PREVIEWS, REFUSED_PREVIEWS,
    *REPORTED.values(), *MEASURED.values(), LIMITED, RULES, AGENTS, *PROBES.values(), PROBES_OF, REPLIES_OF, LIES,
    CABLES, FRAMES,
    *steering_metrics.FAMILIES, *mesh_metrics.FAMILIES,
    CONFIGURED, TICKS, SKIPPED, *COLLECTED.values(), ODD, CONDITIONS, *HISTORY.values(),
)  # fmt: skip


def metrics_text(sources: Sources, limited: Counter[Limit], unaudited: int = 0) -> Iterator[str]:
    """Yield all metrics in pieces.

    `limited` is what the limits of HTTP have refused, `unaudited` counts lines that the audit trail lacks.
    """
    loop, telemetry, attached = sources.loop, sources.feeds.telemetry, sources.attached
    tick, limited = telemetry.ticks.value, sources.limited + limited
    fabric = fabric_metrics.fabric_lines(loop.state.fabric, tick.snapshot) if tick is not None else ()
    return chain(
        _state_lines(loop.state),
        _inbox_lines(loop.inbox),
        lines(UNRECORDED, [("", sources.unrecorded())]),
        lines(SUPPRESSED, [("", sources.suppressed_lines())]),
        lines(UNAUDITED, [("", unaudited)]),
        _journal_lines(sources.gate.journal),
        _preview_lines(sources.previews),
        chain.from_iterable(lines(family, [("", attached.flows.counts[name])]) for name, family in REPORTED.items()),
        _measured_lines(loop.state, attached.flows.newest),
        lines(LIMITED, [(_limit_label(limit), limited[limit]) for limit in Limit]),
        _probe_lines(attached.probe_agents),
        steering_metrics.steering_lines(sources.probing),
        mesh_metrics.mesh_lines(sources.mesh),
        _cabling_lines(loop.state, sources.frames, loop.now_unix_ms()),
        _telemetry_lines(telemetry, len(loop.state.cabling.conditions)),
        fabric,
    )


def _state_lines(state: State) -> Iterator[str]:
    jobs = Counter(job.state for job in state.jobs.values())
    rules = [(name, len(switch.installed.rules)) for name, switch in state.switches.items() if switch.installed]
    yield from lines(SWITCHES, [("", len(state.switches))])
    if traits_of(state.fabric).has_sessions:
        yield from lines(CONNECTED, [("", sum(switch.connected for switch in state.switches.values()))])
        yield from lines(LACKING, [("", len(state.lacking))])
        yield from lines(LAGGING, [("", sum(switch.lagging for switch in state.switches.values()))])
        lacking = sorted(state.lacking)
        yield from lines(MISSING, [(label_text(("switch", name)), missing(state, name)) for name in lacking])
    yield from lines(JOBS, [(label_text(("state", name)), jobs[name]) for name in JOB_STATES])
    yield from lines(LINKS_DOWN, [("", len(state.health.down_cables))])
    yield from _bad_cable_lines(state)
    yield from lines(WAITING, [("", len(state.queue))])
    yield from lines(FULLEST, [("", state.certificate.max_link_utilisation)])
    yield from lines(SLOWED, [("", state.certificate.flows_slowed)])
    yield from lines(OVERLOADED, [("", state.certificate.links_over_capacity)])
    yield from lines(CONVERGENCES, [("", state.convergence.count)])
    yield from lines(BELOW_GOAL, [("", state.certificate.below_goal)])
    yield from lines(GENERATION, [("", state.topology_generation)])
    yield from lines(RULES, [(label_text(("switch", name)), count) for name, count in rules])


def _inbox_lines(inbox: Inbox) -> Iterator[str]:
    yield from lines(REFUSED, [("", inbox.overflowed)])
    waiting = zip(("topology", "requests"), inbox.waiting, strict=True)
    yield from lines(INBOX, [(label_text(("lane", lane)), count) for lane, count in waiting])
    yield from lines(OVERTOOK, [("", inbox.overtook)])


def _bad_cable_lines(state: State) -> Iterator[str]:
    bad, cables = state.bad_cables, state.fabric.cable_by_link
    counts = {"keep": len(bad) - len(state.left_out), "leave_out": len(state.left_out)}
    yield from lines(BAD_CABLES, [(label_text(("plans", name)), count) for name, count in counts.items()])
    left = ((name, each.left_bps / cables[name].capacity_bps) for name, each in bad.items())
    yield from lines(LEFT, [(label_text(("cable", name)), share) for name, share in left])


def _journal_lines(journal: JournalWriter | None) -> Iterator[str]:
    yield from lines(JOURNALED, [("", int(journal is not None))])
    yield from lines(FAILING, [("", int(journal is not None and journal.is_failing))])
    for name, family in JOURNAL.items():
        yield from lines(family, [("", getattr(journal, name, 0))])


def _measured_lines(state: State, reports: Reports) -> Iterator[str]:
    measured = measured_of(reports.rates_bps(state.fabric))
    sources = {name for each in measured for name in (each.src_nic, state.fabric.nic_by_id[each.src_nic].rank)}
    jobs = [job for job in state.jobs.values() if not sources.isdisjoint(job.request.ranks)]
    found = {job.request.job_id: measured_rates(job.flows.flows, measured) for job in jobs}
    for name, family in MEASURED.items():
        yield from lines(
            family, [(label_text(("job", job_id)), getattr(of, name)) for job_id, of in found.items() if of.flows]
        )


def _limit_label(limit: Limit) -> str:
    port, name = limit.value
    return label_text(("port", port), ("limit", name))


def _preview_lines(previews: Shares) -> Iterator[str]:
    yield from lines(PREVIEWS, [("", previews.limit)])
    yield from lines(REFUSED_PREVIEWS, [("", previews.refused)])


def _probe_lines(probing: ProbeAgents) -> Iterator[str]:
    yield from lines(AGENTS, [("", len(probing.by_host))])
    for name, family in PROBES.items():
        yield from lines(family, [("", probing.counts[name])])
    expected = [(label_text(("switch", name)), round(count)) for name, count in probing.expected.items()]
    yield from lines(PROBES_OF, expected)
    yield from lines(REPLIES_OF, [(label_text(("switch", name)), count) for name, count in probing.replied.items()])
    yield from lines(LIES, [(label_text(("kind", lie)), probing.lies[lie]) for lie in Lie])


def _cabling_lines(state: State, frames: Counter[str], now: int) -> Iterator[str]:
    verdict = state.cabling.verdict
    found = {name: len(getattr(verdict, name)) for name in ("wrong", "missing", "unknown", "left_out")}
    found["as_found"] = len(as_found(state.fabric))
    yield from lines(CABLES, [(label_text(("cabling", name)), count) for name, count in found.items()])
    yield from lines(FOLLOWED, [("", len(followed_lately(state.cabling, now)))])
    yield from lines(FRAMES, [(label_text(("result", name)), frames[name]) for name in sorted(frames)])


def _telemetry_lines(telemetry: Telemetry, miscabled: int) -> Iterator[str]:
    tick = telemetry.ticks.value
    raised = Counter(signal.kind for signal in tick.active) if tick is not None else Counter()
    counts = dict(telemetry.counts)
    counts.pop("scans", None)  # the ticks, once more
    yield from lines(CONFIGURED, [("", int(telemetry.configured))])
    yield from lines(TICKS, [("", telemetry.ticks.number)])
    yield from lines(SKIPPED, [("", telemetry.skipped_ticks)])
    for name, family in COLLECTED.items():
        yield from lines(family, [("", counts.pop(name, 0))])
    yield from lines(ODD, [(label_text(("kind", kind)), count) for kind, count in sorted(counts.items())])
    conditions = [*((kind, raised[kind]) for kind in SignalKind), ("cabling", miscabled)]
    yield from lines(CONDITIONS, [(label_text(("kind", kind)), count) for kind, count in conditions])
    if telemetry.history is not None:
        written = telemetry.history.counts()
        for name, family in HISTORY.items():
            yield from lines(family, [("", written.get(name, 0))])
