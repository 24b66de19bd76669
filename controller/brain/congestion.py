"""Move planned flows off links that traffic of no job congests, check whether it helped, and back off.

A decision needs fresh telemetry, planned flows on the link, and more traffic than they have planned. The traffic's
senders are named. Then the links that the flows have taken are watched for CHECK_PERIODS: where one of them becomes
congested, the flows return. Each decision for a port doubles the pause before the next. A port to a NIC is an incast of
more senders than planned: `receivers`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from heddle.controller.brain.install import Outcome, take_token
from heddle.controller.brain.intent import dead_links
from heddle.controller.brain.receivers import capacity_bps, is_receiver, others_share_bps
from heddle.controller.brain.state import Active, HotPort, Job, ReplanWork, State
from heddle.controller.brain.steering.transition import slowed
from heddle.controller.brain.transactions.replan import applied, enqueue_replan, limit_of
from heddle.controller.model.effect import Effect, Note
from heddle.controller.model.event import Congested, HotLink
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import JobFlows, Moved, Replan
from heddle.foundation.backoff import doubled_ms

MIN_EXCESS = 0.05
"""The share of a link's capacity from which unplanned traffic is acted on: less is ACKs and headers."""
CHECK_PERIODS = 6
"""A condition takes three periods over its threshold; what flows do to their new links shows a little later."""
FORGET_PERIODS = 10
MAX_NAMED = 4


def congested(state: State, event: Congested, now: int) -> Outcome:
    """Name what congests each hot link, and re-plan where planned flows can leave it or give way."""
    state, stale = _stale(state, event, now)
    state = _still_used(state, event, now)
    state, effects = _checked(_forgotten(state, event, now), event, now)
    effects = (*stale, *effects)
    for hot in event.hot:
        if capacity_bps(state.fabric, hot.link) is not None:
            state, more = _handled(state, hot, event, now)
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


def _still_used(state: State, event: Congested, now: int) -> State:
    """Keep what is known of ports that are not congested any more, but carry what no job has planned."""
    for calm in event.calm:
        port = state.hot_ports.get(calm.port)
        if port is not None and port.excess_bps and _excess_bps(state, calm):
            state = _with_port(state, calm.port, replace(port, seen_unix_ms=now, stale=False))
    return state


def _excess_bps(state: State, hot: HotLink) -> int:
    """Return the traffic of no job on a link, 0 where it is too little to act on."""
    return hot.excess_bps if hot.excess_bps >= MIN_EXCESS * (capacity_bps(state.fabric, hot.link) or 0) else 0


def _handled(state: State, hot: HotLink, event: Congested, now: int) -> Outcome:
    known = state.hot_ports.get(hot.port)
    if known is not None and (known.check_unix_ms is not None or now < known.quiet_until_unix_ms):
        # The excess that a decision was made for stays: the flows that left are not there to be measured.
        return _with_port(state, hot.port, replace(known, seen_unix_ms=now, stale=False)), ()
    was = known or HotPort(link=hot.link, excess_bps=0, seen_unix_ms=now)
    excess_bps = _excess_bps(state, hot)
    cause = _cause(hot, excess_bps, event.over)
    note = Note(severity="warning", subject=hot.port, text=cause + _flows_there(hot))
    if is_receiver(state.fabric, hot.link):
        excess_bps = others_share_bps(state.fabric, hot, excess_bps, len(event.over))
        if abs(excess_bps - was.excess_bps) < MIN_EXCESS * (capacity_bps(state.fabric, hot.link) or 0):
            excess_bps = was.excess_bps  # rates are for that
    pause = doubled_ms(state.settings.congestion_pause_ms, was.decisions)
    acts = state.settings.acts_on_telemetry
    port = replace(
        was, excess_bps=excess_bps if acts else 0, seen_unix_ms=now, stale=False, decisions=was.decisions + 1,
        quiet_until_unix_ms=now + pause,
    )  # fmt: skip
    state = _with_port(state, hot.port, port)
    work = _work(state, hot, f"{hot.port} {cause}", was, now) if acts else None
    return enqueue_replan(state, work) if work is not None else state, (note,)


def _work(state: State, hot: HotLink, cause: str, was: HotPort, now: int) -> ReplanWork | None:
    """Return what is to do for a hot link: move flows off it, or change the rates of an incast; None for nothing."""
    excess_bps = state.hot_ports[hot.port].excess_bps
    if is_receiver(state.fabric, hot.link):
        reason = f"{cause}: its planned senders share what is left"
        work = ReplanWork(cause=Cause.CONGESTION, reason=reason, ports=(hot.port,), moves=False)
        return work if hot.planned_bps and excess_bps != was.excess_bps else None
    if not hot.planned_bps or not excess_bps or _has_taken_flows(state, hot.port, now):
        return None
    return ReplanWork(cause=Cause.CONGESTION, reason=cause, ports=(hot.port,))


def _has_taken_flows(state: State, name: str, now: int) -> bool:
    """Return whether flows have left another port for this one, in the pause that follows: they do not move again."""
    return any(name in port.watched and now < port.quiet_until_unix_ms for port in state.hot_ports.values())


def _with_port(state: State, name: str, port: HotPort) -> State:
    return replace(state, hot_ports={**state.hot_ports, name: port})


def _cause(hot: HotLink, excess_bps: int, over: tuple[tuple[str, int], ...]) -> str:
    """Say what a hot link carries, how much of it is planned, and which NICs send more than planned."""
    planned_bps = hot.measured_bps - hot.excess_bps
    text = f"congested: {hot.measured_bps / 1e6:.1f} Mbit/s, of which {planned_bps / 1e6:.1f} planned"
    if not excess_bps:
        return f"{text}; no unplanned traffic, nothing to move"
    senders = ", ".join(f"{nic} ({bps / 1e6:.1f} Mbit/s)" for nic, bps in over[:MAX_NAMED])
    more = f" and {len(over) - MAX_NAMED} more" if len(over) > MAX_NAMED else ""
    return f"{text}; NICs that send more than planned: {senders or 'none is measured'}{more}"


def _flows_there(hot: HotLink) -> str:
    """Name the planned flows on a hot link: how many of each job, and the first of them."""
    named = [
        f"{flows} of job {job_id} ({', '.join(names)}{', ...' if flows > len(names) else ''})"
        for job_id, flows, names in hot.jobs[:MAX_NAMED]
    ]
    more = f" and of {len(hot.jobs) - MAX_NAMED} more jobs" if len(hot.jobs) > MAX_NAMED else ""
    return f"; planned flows there: {', '.join(named) or 'none'}{more}"


def _forgotten(state: State, event: Congested, now: int) -> State:
    """Forget ports that have been well for long: plans may use their links again, and senders have their rates back."""
    old, hot = now - FORGET_PERIODS * state.settings.period_ms, {each.port for each in event.hot}
    kept = {
        name: port
        for name, port in state.hot_ports.items()
        if port.seen_unix_ms >= old or name in hot or now < port.quiet_until_unix_ms or port.check_unix_ms is not None
    }
    gone = {name: port for name, port in state.hot_ports.items() if name not in kept}
    state = replace(state, hot_ports=kept) if gone else state
    for name, port in gone.items():
        if port.excess_bps and is_receiver(state.fabric, port.link):
            reason = f"{name} carries no unplanned traffic any more: rates as before"
            state = enqueue_replan(state, ReplanWork(cause=Cause.RELEASE, reason=reason, moves=False))
    return state


def moved_off(
    state: State, ports: tuple[str, ...], was: Mapping[str, Job], moved: Mapping[str, Moved], now: int
) -> Outcome:
    """Begin to watch the links that flows have taken, or say that no other path has room; `was` are the jobs before."""
    effects: list[Effect] = []
    if not ports:  # what flows have taken is costly to find
        return state, ()
    before = {job_id: was[job_id] for job_id in moved if job_id in state.jobs and job_id in was}
    after = {job_id: state.jobs[job_id].generation for job_id in before}
    before = {job_id: replace(job, generation=after[job_id] - 1) for job_id, job in before.items()}
    watched = frozenset(link.partition(">")[0] for job in before.values() for link in _fuller(state, job))
    for name in ports:
        port = state.hot_ports.get(name)
        if port is None or is_receiver(state.fabric, port.link):
            continue
        if any(port.link in links for each in moved.values() for links in each.old_links.values()):
            check = now + CHECK_PERIODS * state.settings.period_ms
            state = _with_port(state, name, replace(port, check_unix_ms=check, before=before, watched=watched))
        else:
            limited = limit_of(state, Cause.CONGESTION).moves_none
            why = "the limit for congestion is none" if limited else "no other path has room"
            text = f"{why}: nothing is moved"
            effects.append(Note(severity="warning", subject=name, text=text))
    return state, tuple(effects)


def _fuller(state: State, job: Job) -> Iterator[str]:
    """Yield the links on which a job has more load than before; `job` is as it was."""
    before = job.flows.link_loads_bps
    for link, load_bps in state.jobs[job.request.job_id].flows.link_loads_bps.items():
        if load_bps > before.get(link, 0):
            yield link


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
        state = _with_port(state, name, replace(port, check_unix_ms=None, before={}))
        if worse:
            state, more = _returned(state, port.before, f"{worse[0]} is congested since flows left {name}", now)
            effects += more
    return state, tuple(effects)


def _returned(state: State, before: Mapping[str, Job], reason: str, now: int) -> Outcome:
    """Begin to return jobs to the paths that they had; rates are computed again once the flows are back.

    A job stays where it has been planned again since, where its earlier links have failed, and where flows had no path.
    """
    dead = dead_links(state.fabric, state.out_of_use)
    jobs = {
        job_id: job
        for job_id, job in before.items()
        if (is_now := state.jobs.get(job_id)) is not None
        and is_now.generation == job.generation + 1
        and not job.stranded
        and dead.isdisjoint(_links(job.flows))
    }
    if not jobs:
        return state, ()
    pins = {job_id: job.pin_rules for job_id, job in jobs.items() if job.flows.pinned}
    back = tuple(job.flows for job in jobs.values())
    plan = Replan(
        jobs=back,
        certificate=state.certificate,
        moved={job_id: _moved_back(state, job_id) for job_id in jobs},
        pins=pins,
        slowed=slowed({job_id: state.jobs[job_id].flows for job_id in jobs}, back) if pins else {},
    )
    work = ReplanWork(cause=Cause.CONGESTION, reason=f"rolled back: {reason}", moves=False)
    state, token = take_token(state)
    state = replace(state, active=Active(token=token, work=work, health=state.out_of_use))
    state, effects = applied(state, plan, work.reason, now, work.cause)
    again = ReplanWork(cause=Cause.RELEASE, reason=f"flows returned: {reason}", moves=False)
    return enqueue_replan(state, again), effects


def _moved_back(state: State, job_id: str) -> Moved:
    """Return the flows that the last decision for a job has moved, with the links that they take now."""
    generation = state.jobs[job_id].generation
    records = (each.moved for each in reversed(state.moves) if (each.job_id, each.generation) == (job_id, generation))
    moved = next(records, Moved(flows=0, old_links={}))
    flows = state.jobs[job_id].flows.flows
    return Moved(
        flows=moved.flows, old_links={flow.flow_id: flow.links for flow in flows if flow.flow_id in moved.old_links}
    )


def _links(flows: JobFlows) -> frozenset[str]:
    """Return the links that the flows and their ACKs take."""
    return flows.reverse_links.union(flows.link_loads_bps)
