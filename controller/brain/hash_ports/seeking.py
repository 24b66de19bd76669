"""Seek source ports for a plan on a fabric that hashes, before anything of it takes effect.

Probes look for a port of every flow whose path is new (`FindPorts`). Flows that find none get other paths (`Solve` with
`amend`) and are sought again, a few times; then a new job is refused, and a running flow keeps its path. So each flow
of a job that runs has a port whose path has been seen.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from controller.brain.hash_ports.port_search import Seeking
from controller.brain.install import take_token
from controller.brain.lifecycle import WorkKind
from controller.brain.state import Active, State
from controller.model.effect import Effect, FindPorts, Note
from controller.model.event import PortsFound, Solved
from controller.model.fabric import Role
from controller.model.plan import Amend, Confirmed, Infeasible, JobFlows, Replan, WantedRows
from controller.planner.flow_table import FlowTable
from probing.flow import Found, Wanted

MAX_ROUNDS = 4
"""The searches for one plan: with a hash that mixes well 3 flows in 10,000 need a second one."""


class Step(NamedTuple):
    """A step of a search: `solved` is the plan, to be handled now; None while probes or other plans are due."""

    state: State
    effects: tuple[Effect, ...] = ()
    solved: Solved | None = None


def begin(state: State, event: Solved, now: int) -> Step:
    """Seek ports for the flows of a plan that have none yet."""
    active = state.active
    assert active is not None
    seeking = active.seeking
    if seeking is None or _is_void(state, active):
        return Step(state, solved=event)
    seeking = replace(seeking, solve_ns=seeking.solve_ns + event.solve_ns)
    if not isinstance(event.outcome, Replan):
        return Step(state, solved=_refused_again(state, seeking, event))
    seeking = replace(seeking, plan=event.outcome)
    flows = tuple(flow for flow in _wanted(event.outcome) if flow not in seeking.ports)
    if not flows:
        return _confirmed(state, active, seeking, event.outcome, now)
    state, token = take_token(state)
    seeking = replace(seeking, token=token, rounds=seeking.rounds + 1)
    state = replace(state, active=replace(active, seeking=seeking))
    return Step(state, (FindPorts(token=token, flows=flows, ways=state.fabric.max_paths),))


def _is_void(state: State, active: Active) -> bool:
    """Return whether a plan is for another state of the fabric, or changes nothing: a dry run, or all callers left."""
    work = active.work
    if active.health != state.out_of_use:
        return True
    if work.kind is WorkKind.DRAIN:
        return work.dry_run
    return work.kind is WorkKind.PLAN and not any(each.replies for each in work.submissions)


def _refused_again(state: State, seeking: Seeking, event: Solved) -> Solved:
    """Return the refusal of a plan, with what the probes have found where it is that of other paths."""
    if not seeking.missing or not isinstance(event.outcome, Infeasible):
        return event
    return replace(event, outcome=Infeasible(why=f"{_refusal(state, seeking)}; {event.outcome.why}"))


def _wanted(plan: Replan) -> list[Wanted]:
    return [flow for each in plan.wanted.values() for flow in each.flows]


def ports_found(state: State, event: PortsFound, now: int) -> Step:
    """Record the ports; where flows have none, plan these again. A late event changes nothing."""
    active = state.active
    if active is None or active.seeking is None or active.seeking.token != event.token:
        return Step(state)
    seeking, found = active.seeking, event.found
    plan = seeking.plan
    assert plan is not None
    asked = [flow for flow in _wanted(plan) if flow not in seeking.ports]
    ports = {flow: found.ports[flow.flow_id] for flow in asked if flow.flow_id in found.ports}
    missing = {flow.flow_id: flow for flow in asked if flow not in ports}
    seeking = replace(
        seeking,
        token=0,
        ports={**seeking.ports, **ports},
        missing={flow_id: found.missing.get(flow_id, "the search did not name it") for flow_id in missing},
        probes=seeking.probes + found.probes,
        search_ns=seeking.search_ns + event.search_ns,
    )
    if _is_void(state, active):
        return Step(state, solved=Solved(token=active.token, outcome=plan, solve_ns=seeking.solve_ns))
    if not missing:
        return _confirmed(state, active, seeking, plan, now)
    return _elsewhere(state, active, _without_port(seeking, missing, found), plan, now)


def _without_port(seeking: Seeking, missing: Mapping[str, Wanted], found: Found) -> Seeking:
    """Record the paths that found no port; running flows stay after the last round, or where nothing was seen.

    Silence says nothing about a path: no running flow moves because of it.
    """
    avoid = {flow_id: seeking.avoid.get(flow_id, frozenset()) | {flow.path} for flow_id, flow in missing.items()}
    reached = {flow_id: found.reached.get(flow_id, frozenset()) for flow_id in missing}
    new, last = _new_jobs(seeking), seeking.rounds == MAX_ROUNDS
    stay = {flow_id for flow_id in missing if flow_id.partition("/")[0] not in new and (last or not reached[flow_id])}
    unseen = {flow_id for flow_id in stay if missing[flow_id].port}
    return replace(
        seeking,
        avoid={**seeking.avoid, **avoid},
        reached={**seeking.reached, **reached},
        stay=seeking.stay | stay,
        unseen=seeking.unseen | unseen,
    )


def _new_jobs(seeking: Seeking) -> frozenset[str]:
    return frozenset(request.job_id for request in seeking.solve.requests)


def _elsewhere(state: State, active: Active, seeking: Seeking, plan: Replan, now: int) -> Step:
    """Plan the flows that found no port again; refuse new jobs with flows that have been sought in vain."""
    left = seeking.missing.keys() - seeking.stay
    new = _new_jobs(seeking)
    blind = any(not seeking.reached[flow_id] for flow_id in left if flow_id.partition("/")[0] in new)
    if left and (blind or seeking.rounds == MAX_ROUNDS):
        refused = Infeasible(why=_refusal(state, seeking))
        return Step(state, solved=Solved(token=active.token, outcome=refused, solve_ns=seeking.solve_ns))
    notes: tuple[Effect, ...] = ()
    if seeking.rounds == 1:
        text = f"{len(seeking.missing)} flows found no source port for their paths; "
        notes = (Note(severity="warning", subject="fabric", text=text + _why(state, seeking)),)
    if not left and seeking.stay <= seeking.unseen:
        step = _confirmed(state, active, seeking, plan, now)
        return step._replace(effects=notes)
    avoid = {flow_id: seeking.avoid[flow_id] for flow_id in left}
    amend = Amend(jobs=plan.jobs, avoid=avoid, reached=seeking.reached, stay=seeking.stay)
    state, token = take_token(state)
    state = replace(state, active=replace(active, token=token, seeking=seeking))
    return Step(state, (*notes, replace(seeking.solve, token=token, amend=amend)))


def _refusal(state: State, seeking: Seeking) -> str:
    flow_id = next(iter(seeking.missing))
    paths = sorted(seeking.avoid[flow_id])
    more = f" and {len(paths) - 1} other paths" if len(paths) > 1 else ""
    others = f" ({len(seeking.missing) - 1} more flows have none)" if len(seeking.missing) > 1 else ""
    over = f"{' '.join(paths[0][1:-1])}{more}{others}"
    return f"flow {flow_id}: no UDP source port leads over {over}: {_why(state, seeking)}"


def _why(state: State, seeking: Seeking) -> str:
    """Return why flows found no port, and the remedy, by the flow whose probes reached the fewest paths."""
    ways = state.fabric.paths_up
    reached = [seeking.reached[flow_id] for flow_id in seeking.missing if seeking.reached.get(flow_id)]
    fewest = min(map(len, reached), default=ways)
    if fewest == 1 < ways:
        return f"its probes take 1 of {ways} paths up; let switches hash UDP ports too, not addresses only"
    if 2 * fewest <= ways and not any(switch.role is Role.AGG for switch in state.fabric.switches):
        return f"its probes reach {fewest} of {ways} paths up: the hash uses few bits of the port; choose another hash"
    if 2 * fewest <= ways:
        return f"its probes reach {fewest} of {ways} paths up: tiers hash alike (polarised); give each tier a seed"
    return next(iter(seeking.missing.values()))


def _confirmed(state: State, active: Active, seeking: Seeking, plan: Replan, now: int) -> Step:
    """Return the plan with its ports."""
    jobs, confirmed = [], {}
    new = _new_jobs(seeking)
    for job in plan.jobs:
        rows = plan.wanted.get(job.job_id, WantedRows((), ()))
        unseen = sum(flow_id.partition("/")[0] == job.job_id for flow_id in seeking.unseen)
        found, reaimed = _with_ports(job, rows, seeking.ports)
        jobs.append(found)
        if rows.rows or unseen or job.job_id in new:
            whole = job.job_id in new or (seeking.solve.confirm and not unseen)
            confirmed[job.job_id] = Confirmed(now, seeking.probes, whole, reaimed, unseen)
    plan = replace(plan, jobs=tuple(jobs), wanted={}, confirmed=confirmed)
    state = replace(state, active=replace(active, seeking=seeking))
    return Step(state, solved=Solved(token=active.token, outcome=plan, solve_ns=seeking.solve_ns))


def _with_ports(job: JobFlows, rows: WantedRows, ports: Mapping[Wanted, int]) -> tuple[JobFlows, int]:
    """Return a job with the ports that were found, the same object where it has them; and how many flows had others."""
    pairs = zip(rows.rows, rows.flows, strict=True)
    found = {row: (flow, ports[flow]) for row, flow in pairs if ports.get(flow, flow.port) != flow.port}
    if not found:
        return job, 0
    assert isinstance(job.flows, FlowTable)
    table = job.flows.with_ports({row: port for row, (_, port) in found.items()})
    return replace(job, flows=table), sum(flow.port > 0 for flow, _ in found.values())
