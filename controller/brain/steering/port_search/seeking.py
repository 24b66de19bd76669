"""Seek source ports for a plan on a fabric that hashes, before anything of it takes effect.

Probes search a port for every flow whose path is new (`FindPorts`). Flows that find none get other paths (`Solve` with
`amend`) and are sought again, a few times; then a new job is refused, and a running flow keeps its path. So each flow
of a job that runs has a port whose path has been seen.
"""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain.install import take_token
from heddle.controller.brain.lifecycle import WorkKind
from heddle.controller.brain.port_search import Seeking
from heddle.controller.brain.state import Active, State
from heddle.controller.brain.steering.interface import Step
from heddle.controller.brain.steering.port_search.following import (
    Seen,
    is_within_bound,
    live_paths,
    that_fit,
    with_paths,
)
from heddle.controller.model.effect import Effect, FindPorts, Note
from heddle.controller.model.error import HeddleError
from heddle.controller.model.event import PortsFound, Solved
from heddle.controller.model.fabric import Role
from heddle.controller.model.plan import Amend, Confirmed, Infeasible, JobFlows, Moved, Replan, WantedRows
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.probing.flow import Found, Wanted

MAX_ROUNDS = 4
"""The searches for one plan: with a hash that mixes well 3 flows in 10,000 need a second one."""


MAX_TRIALS = 2
"""The plans with paths as seen: with all of them, and with those that fit."""


def begin(state: State, event: Solved, now: int) -> Step:
    """Seek ports for the flows of a plan that have none yet."""
    active = state.active
    assert active is not None
    seeking = active.seeking
    if seeking is None or _is_void(state, active):
        return Step(state, solved=event)
    seeking = replace(seeking, solve_ns=seeking.solve_ns + event.solve_ns)
    if seeking.base is not None:
        return _tried(state, active, seeking, seeking.base, event.outcome, now)
    if not isinstance(event.outcome, Replan):
        return Step(state, solved=_refused_again(state, seeking, event))
    return _next(state, active, seeking, event.outcome, now)


def _next(state: State, active: Active, seeking: Seeking, plan: Replan, now: int) -> Step:
    """Probe for a plan: first the ports that running flows have, then for the flows that need one."""
    seeking = replace(seeking, plan=plan)
    left = _left(seeking, plan)
    if not left:
        return _confirmed(state, active, seeking, plan, now)
    flows = _own(seeking, left)
    if not flows:
        flows = [flow._replace(port=0) for flow in left]
        seeking = replace(seeking, rounds=seeking.rounds + 1)
    state, token = take_token(state)
    state = replace(state, active=replace(active, seeking=replace(seeking, token=token)))
    return Step(state, (FindPorts(token=token, flows=tuple(flows), ways=state.fabric.max_paths),))


def _left(seeking: Seeking, plan: Replan) -> list[Wanted]:
    """Return the flows of a plan that probes have still to confirm."""
    return [flow for flow in _wanted(plan) if flow not in seeking.ports and flow.flow_id not in seeking.stay]


def _own(seeking: Seeking, flows: list[Wanted]) -> list[Wanted]:
    """Return the flows whose own port has not been probed."""
    return [flow for flow in flows if flow.port and flow.flow_id not in seeking.freed]


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
    left = _left(seeking, plan)
    own = _own(seeking, left)
    asked = own or left
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
    if own:
        return _own_probed(state, active, seeking, missing, found, now)
    if not missing:
        return _confirmed(state, active, seeking, plan, now)
    return _elsewhere(state, active, _without_port(seeking, missing, found), plan, now)


def _own_probed(
    state: State, active: Active, seeking: Seeking, missing: Mapping[str, Wanted], found: Found, now: int
) -> Step:
    """Plan running flows whose port leads elsewhere as they are; free those that need another port.

    Silence says nothing about a path: a flow whose planned path is that of before stays.
    """
    plan = seeking.plan
    assert plan is not None
    unseen = missing.keys() - found.elsewhere.keys() - _moved(seeking, plan)
    seen = live_paths(state.fabric, active.health, plan, {name: path for name, path in found.elsewhere.items() if path})
    seeking = replace(
        seeking,
        stay=seeking.stay | unseen,
        unseen=seeking.unseen | unseen,
        freed=seeking.freed | (missing.keys() - unseen),
    )
    if not seen:
        return _next(state, active, seeking, plan, now)
    return _try(state, active, replace(seeking, base=plan), plan, seen)


def _moved(seeking: Seeking, plan: Replan) -> frozenset[str]:
    """Return the flows that a plan leads over another path than the one that they run on."""
    running = {request.job_id: job.flows for request, job in seeking.solve.kept}
    found = set()
    for job in plan.jobs:
        rows, was, table = plan.wanted.get(job.job_id), running.get(job.job_id), job.flows
        if rows is not None and isinstance(was, FlowTable) and isinstance(table, FlowTable):
            pairs = zip(rows.rows, rows.flows, strict=True)
            found |= {flow.flow_id for row, flow in pairs if (table.hops[row] != was.hops[row]).any()}
    return frozenset(found)


def _try(state: State, active: Active, seeking: Seeking, plan: Replan, seen: Seen) -> Step:
    """Request the plan with flows on the paths that were seen."""
    amend = Amend(jobs=with_paths(plan, seen), avoid={}, stay=seeking.stay, seen=frozenset(seen))
    state, token = take_token(state)
    seeking = replace(seeking, seen=seen, trials=seeking.trials + 1)
    state = replace(state, active=replace(active, token=token, seeking=seeking))
    return Step(state, (replace(seeking.solve, token=token, amend=amend),))


def _tried(
    state: State, active: Active, seeking: Seeking, base: Replan, outcome: Replan | Infeasible | HeddleError, now: int
) -> Step:
    """Take a plan with seen paths if it is within the bound; else one with those that fit, or none of them."""
    if isinstance(outcome, Replan) and is_within_bound(base, outcome):
        seeking = replace(seeking, base=None)
        return _next(state, active, seeking, outcome, now)
    if seeking.trials < MAX_TRIALS and (fewer := that_fit(state.fabric, base, seeking.seen)):
        return _try(state, active, seeking, base, fewer)
    return _next(state, active, replace(seeking, base=None, seen={}), base, now)


def _without_port(seeking: Seeking, missing: Mapping[str, Wanted], found: Found) -> Seeking:
    """Record the paths that found no port; running flows stay after the last round, or where nothing was seen.

    Silence says nothing about a path: no running flow moves because of it.
    """
    avoid = {flow_id: seeking.avoid.get(flow_id, frozenset()) | {flow.path} for flow_id, flow in missing.items()}
    reached = {flow_id: found.reached.get(flow_id, frozenset()) for flow_id in missing}
    new, last = _new_jobs(seeking), seeking.rounds == MAX_ROUNDS
    stay = {flow_id for flow_id in missing if flow_id.partition("/")[0] not in new and (last or not reached[flow_id])}
    plan = seeking.plan
    assert plan is not None
    moved = _moved(seeking, plan)
    unseen = {flow_id for flow_id in stay if missing[flow_id].port and flow_id not in moved}
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
    amend = Amend(jobs=plan.jobs, avoid=avoid, reached=seeking.reached, stay=seeking.stay, seen=frozenset(seeking.seen))
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
    most = state.fabric.paths_up
    reached = [seeking.reached[flow_id] for flow_id in seeking.missing if seeking.reached.get(flow_id)]
    fewest = min(map(len, reached), default=most)
    if fewest == 1 < most:
        return f"its probes take 1 of {most} paths up; let switches hash UDP ports too, not addresses only"
    if 2 * fewest <= most and not any(switch.role is Role.AGG for switch in state.fabric.switches):
        return f"its probes reach {fewest} of {most} paths up: the hash uses few bits of the port; choose another hash"
    if 2 * fewest <= most:
        return f"its probes reach {fewest} of {most} paths up: tiers hash alike (polarised); give each tier a seed"
    return next(iter(seeking.missing.values()))


def _confirmed(state: State, active: Active, seeking: Seeking, plan: Replan, now: int) -> Step:
    """Return the plan with its ports."""
    jobs, confirmed = [], {}
    new = _new_jobs(seeking)
    for job in plan.jobs:
        rows = plan.wanted.get(job.job_id, WantedRows((), ()))
        unseen = sum(flow_id.partition("/")[0] == job.job_id for flow_id in seeking.unseen)
        followed = sum(flow_id.partition("/")[0] == job.job_id for flow_id in seeking.seen)
        found, reaimed = _with_ports(job, rows, seeking.ports)
        jobs.append(found)
        if rows.rows or unseen or followed or job.job_id in new:
            whole = job.job_id in new or (seeking.solve.confirm.issuperset(state.fabric.leaves) and not unseen)
            confirmed[job.job_id] = Confirmed(now, seeking.probes, whole, reaimed, unseen, followed)
    moved = {name: left for name, each in plan.moved.items() if (left := _by_us(each, seeking.seen, name)) is not None}
    plan = replace(plan, jobs=tuple(jobs), wanted={}, confirmed=confirmed, moved=moved)
    state = replace(state, active=replace(active, seeking=seeking))
    return Step(state, solved=Solved(token=active.token, outcome=plan, solve_ns=seeking.solve_ns))


def _by_us(moved: Moved, seen: Seen, job_id: str) -> Moved | None:
    """Return the moves of a job without those of flows that keep their port: their hosts do nothing."""
    mine = {flow_id for flow_id in seen if flow_id.partition("/")[0] == job_id}
    left = {flow_id: links for flow_id, links in moved.old_links.items() if flow_id not in mine}
    return Moved(flows=moved.flows - len(mine), old_links=left) if moved.flows > len(mine) else None


def _with_ports(job: JobFlows, rows: WantedRows, ports: Mapping[Wanted, int]) -> tuple[JobFlows, int]:
    """Return a job with the ports that were found, the same object where it has them; and how many flows had others."""
    if not rows.rows:
        return job, 0
    assert isinstance(job.flows, FlowTable)
    pairs = list(zip(rows.rows, rows.flows, strict=True))
    reaimed = sum(0 < flow.port != ports.get(flow, flow.port) for flow in rows.flows)
    found = {row: ports[flow] for row, flow in pairs if flow in ports and ports[flow] != job.flows.ports[row]}
    return (replace(job, flows=job.flows.with_ports(found)) if found else job), reaimed
