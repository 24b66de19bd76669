"""The text of what changes: links, switches, jobs, congestion. Written once for all clients.

`StateText` remembers the parts that depend on values which are the same objects as the last time: at 10,000 flows the
planned loads take longer than all the rest, and most updates change measurements only.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from heddle.controller.brain.state import Job, State
from heddle.controller.dashboard.documents.fabric import end_of
from heddle.controller.dashboard.documents.moment import Moment
from heddle.controller.dashboard.documents.shapes.state import CongestedPort, Counts, JobFigures, SwitchFigures
from heddle.controller.dashboard.documents.text import flags_text, json_text, list_text, shares_text
from heddle.controller.model.job_state import JobState
from heddle.controller.model.steering_traits import traits_of
from heddle.controller.runtime.telemetry import TelemetryTick
from heddle.controller.views.cabling import cable_marks
from heddle.controller.views.congestion import Congested, congestion
from heddle.controller.views.isolation import Checked
from heddle.controller.views.link_states import bad_links, link_states, planned_utilisation
from heddle.controller.views.measured import LinkRows, pause_share_of_links, pfc_queues, utilisation_of_links
from heddle.controller.views.switch_faults import fault_of
from heddle.telemetry.detection.signal import SignalKind
from heddle.telemetry.detection.window import Snapshot

ROOTS_NS = 5_000_000_000
MAX_FAULTS = 20
MAX_JOBS = 1_000
"""The jobs of one state, the oldest first; `/api/jobs` has all."""
MAX_MISCABLINGS = 20
"""The causes of wrong cables in one state, those of the most cables first."""

_NOT_HOT = (SignalKind.SILENT, SignalKind.LOSS, SignalKind.SLOW)
"""Conditions of a port or its cable, not of what it carries."""


class Kept:
    """Values computed from others, computed again when one of these is another object."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[object, ...], Any]] = {}

    def value(self, name: str, make: Callable[[], Any], *sources: object) -> Any:
        """Return what `make` returned for these very objects, or what it returns now."""
        known = self._known.get(name)
        if known is not None and len(known[0]) == len(sources) and all(map(_same, known[0], sources)):
            return known[1]
        made = make()
        self._known[name] = (sources, made)
        return made


def _same(one: object, other: object) -> bool:
    return one is other


class Content(NamedTuple):
    """The text of a state but for its time, number and age of telemetry; equal where nothing has changed."""

    text: str


class StateText:
    """Writes states of one fabric, one at a time."""

    def __init__(self) -> None:
        self._kept = Kept()

    def content(self, moment: Moment) -> Content:
        """Return everything of a moment that is news where it differs from the moment before."""
        state, tick = moment.state, moment.tick
        found = self._congested(state, tick)
        parts = {
            "links": self._links(state, tick.snapshot if tick is not None else None),
            "switches": self._switches(state),
            "jobs": self._kept.value("jobs", lambda: list_text(job_figures(state)), state.jobs, state.certificate),
            "congested": list_text(congested_ports(found)),
            "miscablings": json_text(state.cabling.conditions[:MAX_MISCABLINGS]),
            "counts": json_text(counts(state, found, moment.checked)),
        }
        return Content(",".join(f'"{name}":{text}' for name, text in parts.items()))

    def _links(self, state: State, snapshot: Snapshot | None) -> str:
        kept = self._kept.value
        bad_cables = state.bad_cables
        planned = kept("planned", lambda: shares_text(planned_utilisation(state)), state.jobs, bad_cables)
        up, drained = kept(
            "up", lambda: tuple(map(flags_text, link_states(state))), state.health, state.drained, state.quarantines,
            bad_cables,
        )  # fmt: skip
        bad = kept("bad", lambda: flags_text(bad_links(state)), bad_cables)
        cabling = kept("cabling", lambda: json_text(list(map(int, cable_marks(state)))), state.cabling.verdict)
        used = paused = "null"
        if snapshot is not None:
            rows = kept("rows", lambda: LinkRows.of(state.fabric, snapshot.names), snapshot.names)
            used = shares_text(utilisation_of_links(rows, snapshot))
            paused = shares_text(pause_share_of_links(rows, snapshot))
        return (
            f'{{"utilisation":{used},"planned":{planned},"pause_share":{paused},"up":{up},"drained":{drained},'
            f'"cabling":{cabling},"bad":{bad}}}'
        )

    def _switches(self, state: State) -> str:
        kept = self._kept.value
        text: str = kept("switches", lambda: json_text(switch_figures(state)), state.switches, state.lacking)
        return text

    def _congested(self, state: State, tick: TelemetryTick | None) -> tuple[Congested, ...]:
        """Explain the raised conditions, from all flows: again for a new condition or job, else after ROOTS_NS."""
        if tick is None or not tick.active:
            return ()
        signals = frozenset((each.kind, each.port, each.priority, each.since_unix_ns) for each in tick.active)
        last = self._kept.value("conditions", lambda: [None], state.jobs)
        now_ns = tick.snapshot.now_ns
        if last[0] is None or last[0][0] != signals or now_ns - last[0][1] >= ROOTS_NS:
            last[0] = (signals, now_ns, congestion(state, tick.active, pfc_queues(tick.snapshot)))
        found: tuple[Congested, ...] = last[0][2]
        return found


def state_head(moment: Moment, boot: str, sequence: int) -> str:
    """Return the fields that `Content` lacks."""
    telemetry = moment.telemetry(moment.age_ms)
    head = {"at_ms": moment.now_unix_ms, "boot": boot, "sequence": sequence, "telemetry": telemetry}
    return json_text(head)[1:-1]


def job_figures(state: State) -> Iterator[JobFigures]:
    """Yield the first jobs."""
    for job, _ in zip(state.jobs.values(), range(MAX_JOBS), strict=False):
        yield figures_of(job, state.certificate.lower_bound)


def figures_of(job: Job, bound: float) -> JobFigures:
    """Return the figures of one job; `bound` is that of the plan."""
    return {
        "id": job.request.job_id,
        "tenant": job.request.tenant,
        "state": job.state.value,
        "flows": len(job.flows.flows),
        "max_utilisation": round(job.flows.own_max_link_utilisation, 3),
        "bound": round(bound, 3),
        "degraded": job.state is JobState.DEGRADED,
    }


def switch_figures(state: State) -> SwitchFigures:
    """Return the session and the rules of each switch."""
    switches = [(switch, state.switches[switch.id]) for switch in state.fabric.switches]
    return {
        "connected": [int(now.connected) for _, now in switches] if traits_of(state.fabric).has_sessions else None,
        "rules": [len(now.installed.rules) if now.installed else 0 for _, now in switches],
        "rule_limit": [switch.rule_budget for switch, _ in switches],
        "faults": {name: fault_of(state, name) for name in sorted(state.lacking)[:MAX_FAULTS]},
    }


def congested_ports(found: tuple[Congested, ...]) -> Iterator[CongestedPort]:
    """Yield the raised conditions; a root is a port that causes one, and that no other port pauses."""
    roots = {each.root_cause for each in found}
    roots -= {each.signal.port for each in found if each.root_cause not in ("", each.signal.port)}
    for each in found:
        end = end_of(each.signal.port)
        yield {
            "switch": end["node"],
            "port": end["port"],
            "cause": each.signal.kind.value,
            "since_ms": each.signal.since_unix_ns // 1_000_000,
            "root": each.signal.port in roots,
        }


def counts(state: State, found: tuple[Congested, ...], checked: Mapping[str, Checked]) -> Counts:
    """Return the counts of the page's head."""
    connected = sum(switch.connected for switch in state.switches.values())
    return {
        "jobs": len(state.jobs),
        "flows": sum(len(job.flows.flows) for job in state.jobs.values()),
        "switches_connected": connected if traits_of(state.fabric).has_sessions else None,
        "links_down": len(state.health.down_cables),
        "hot_links": len({each.signal.port for each in found if each.signal.kind not in _NOT_HOT}),
        "vpcs_kept": len({vpc for gateway in state.networks.gateways.values() for vpc in gateway.kept}),
        "vpcs_violated": len({vpc for each in checked.values() for vpc in each.differing} & state.networks.vpcs.keys()),
    }
