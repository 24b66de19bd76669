"""Move planned flows off links that traffic of no job congests, check whether it helped, and back off.

A decision needs fresh telemetry, planned flows on the link, and more traffic than they have planned. The traffic's
senders are named. Then the links that the flows have taken are watched for CHECK_PERIODS: where one of them becomes
congested, the flows return. Each decision for a port doubles the pause before the next.
"""

from collections.abc import Mapping
from dataclasses import replace

from controller.brain.install import Outcome
from controller.brain.intent import dead_links
from controller.brain.lifecycle import JobEvent, after
from controller.brain.replan import enqueue_replan
from controller.brain.state import HotPort, Job, ReplanWork, State
from controller.model.effect import Announce, Effect, Note
from controller.model.event import Congested, HotLink
from controller.model.moves import Cause
from controller.model.plan import JobFlows

MIN_EXCESS = 0.05
"""The share of a link's capacity from which unplanned traffic is acted on: less is ACKs and headers."""
CHECK_PERIODS = 3
FORGET_PERIODS = 10
MAX_NAMED = 4
MAX_DOUBLINGS = 6


def congested(state: State, event: Congested, now: int) -> Outcome:
    """Name what congests each hot link, and re-plan where planned flows can leave it."""
    event = replace(event, hot=tuple(hot for hot in event.hot if hot.link in state.fabric.cable_by_link))
    state, stale = _stale(state, event, now)
    state, effects = _checked(_forgotten(state, now), event, now)
    effects = (*stale, *effects)
    loads = _planned_bps(state, {hot.link for hot in event.hot})
    for hot in event.hot:
        state, more = _handled(state, hot, loads.get(hot.link, 0), event, now)
        effects = (*effects, *more)
    return state, effects


def _stale(state: State, event: Congested, now: int) -> Outcome:
    """Keep what is known of ports whose telemetry is stale, and say once that nothing is done."""
    effects: list[Effect] = []
    for name in event.stale:
        port = state.hot_ports.get(name)
        if port is not None:
            state = _with_port(state, name, replace(port, seen_unix_ms=now, stale=True))
            if not port.stale:
                effects.append(Note(severity="warning", subject=name, text="its telemetry is stale: no action"))
    return state, tuple(effects)


def _handled(state: State, hot: HotLink, planned_bps: int, event: Congested, now: int) -> Outcome:
    capacity_bps = state.fabric.cable_by_link[hot.link].capacity_bps
    excess_bps = max(0, hot.measured_bps - planned_bps)
    excess_bps = excess_bps if excess_bps >= MIN_EXCESS * capacity_bps else 0
    known = state.hot_ports.get(hot.port)
    if known is not None and (known.check_unix_ms is not None or now < known.quiet_until_unix_ms):
        # The excess that a decision was made for stays: the flows that left are not there to be measured.
        return _with_port(state, hot.port, replace(known, seen_unix_ms=now, stale=False)), ()
    port = known or HotPort(link=hot.link, excess_bps=0, seen_unix_ms=now)
    pause = state.settings.congestion_pause_ms << min(port.decisions, MAX_DOUBLINGS)
    port = replace(
        port, excess_bps=excess_bps, seen_unix_ms=now, stale=False, decisions=port.decisions + 1,
        quiet_until_unix_ms=now + pause,
    )  # fmt: skip
    cause = _cause(state, hot, planned_bps, excess_bps, event.over)
    note = Note(severity="warning", subject=hot.port, text=cause)
    if not planned_bps or not excess_bps or not state.settings.acts_on_telemetry:
        return _with_port(state, hot.port, port), (note,)
    work = ReplanWork(cause=Cause.CONGESTION, reason=f"{hot.port} {cause}", subject="", port=hot.port)
    return enqueue_replan(_with_port(state, hot.port, port), work), (note,)


def _with_port(state: State, name: str, port: HotPort) -> State:
    return replace(state, hot_ports={**state.hot_ports, name: port})


def _cause(state: State, hot: HotLink, planned_bps: int, excess_bps: int, over: tuple[tuple[str, int], ...]) -> str:
    """Say what a hot link carries, how much of it is planned, and which NICs send more than planned."""
    text = f"congested: {hot.measured_bps / 1e6:.1f} Mbit/s, of which {planned_bps / 1e6:.1f} planned"
    if not excess_bps:
        return f"{text}; no unplanned traffic, nothing to move"
    senders = ", ".join(f"{nic} ({bps / 1e6:.1f} Mbit/s)" for nic, bps in over[:MAX_NAMED])
    more = f" and {len(over) - MAX_NAMED} more" if len(over) > MAX_NAMED else ""
    return f"{text}; NICs that send more than planned: {senders or 'none is measured'}{more}"


def _planned_bps(state: State, links: set[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for job in state.jobs.values():
        for link in links:
            found[link] = found.get(link, 0) + job.flows.link_loads_bps.get(link, 0)
    return found


def _forgotten(state: State, now: int) -> State:
    """Forget ports that have been well for long, so that plans may use their links again."""
    old = now - FORGET_PERIODS * state.settings.period_ms
    kept = {
        name: port
        for name, port in state.hot_ports.items()
        if port.seen_unix_ms >= old or now < port.quiet_until_unix_ms or port.check_unix_ms is not None
    }
    return replace(state, hot_ports=kept) if len(kept) < len(state.hot_ports) else state


def moved_off(state: State, work: ReplanWork, was: Mapping[str, Job], now: int) -> Outcome:
    """Begin to watch the links that flows have taken, or say that no other path has room; `was` are the jobs before."""
    port = state.hot_ports.get(work.port)
    if port is None:
        return state, ()
    before = {
        job_id: job
        for job_id, job in was.items()
        if job_id in state.jobs and state.jobs[job_id].flows.flows is not job.flows.flows
    }
    if not before:
        text = "no other path has room: nothing is moved"
        return state, (Note(severity="warning", subject=work.port, text=text),)
    new = {link for job_id in before for link in state.jobs[job_id].flows.link_loads_bps}
    old = {link for job in before.values() for link in job.flows.link_loads_bps}
    check = now + CHECK_PERIODS * state.settings.period_ms
    watched = frozenset(link.partition(">")[0] for link in new - old)
    return _with_port(state, work.port, replace(port, check_unix_ms=check, before=before, watched=watched)), ()


def _checked(state: State, event: Congested, now: int) -> Outcome:
    """Return flows whose new links have become congested, once no plan is under way; the others stay."""
    effects: list[Effect] = []
    hot = {each.port for each in event.hot}
    for name, port in state.hot_ports.items():
        worse = sorted(hot & port.watched - {name})
        if port.check_unix_ms is None or (now < port.check_unix_ms and not worse):
            continue
        if worse and state.active is not None:  # its plan is for the paths that the flows have now
            continue
        state = _with_port(state, name, replace(port, check_unix_ms=None, before={}, watched=frozenset()))
        if worse:
            state, more = _returned(state, port.before, f"{worse[0]} is congested since flows left {name}")
            effects += more
    return state, tuple(effects)


def _returned(state: State, before: Mapping[str, Job], reason: str) -> Outcome:
    """Return jobs to the paths that they had, and compute rates again.

    A job that has been planned again since stays, and one whose earlier links have failed.
    """
    jobs, effects, dirty = dict(state.jobs), list[Effect](), set(state.dirty)
    dead = dead_links(state.fabric, state.out_of_use)
    for job_id, job in before.items():
        now = jobs.get(job_id)
        if now is None or now.generation != job.generation + 1 or not dead.isdisjoint(_links(job.flows)):
            continue
        dirty |= {*now.pin_rules, *job.pin_rules} if now.pin_rules is not job.pin_rules else set()
        jobs[job_id] = replace(
            now, flows=job.flows, pin_rules=job.pin_rules, severed=job.severed, generation=now.generation + 1,
            state=after(now.state, JobEvent.REPLANNED), reason=f"rolled back: {reason}",
        )  # fmt: skip
        effects.append(Announce(plan=jobs[job_id].as_plan(state.certificate)))
    state = replace(state, jobs=jobs, dirty=frozenset(dirty))
    if effects:
        work = ReplanWork(cause=Cause.RELEASE, reason=f"flows returned: {reason}", moves=False)
        state = enqueue_replan(state, work)
    return state, tuple(effects)


def _links(flows: JobFlows) -> frozenset[str]:
    """Return the links that the flows and their ACKs take."""
    return flows.reverse_links.union(flows.link_loads_bps)
