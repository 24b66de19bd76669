"""Drain a cable, switch or NIC's port, and return it: flows leave before anything is taken away: no packet is lost.

The paths are planned without the target first. Then the underlay is compiled without it, and the caller gets the reply
when the switches have acknowledged both. A drain that leaves a flow without a path is refused. A dry run is decided by
the same plan, and ends where the drain would change something. A bad cable is drained, and returned, by rule: without a
caller, and only where the plan says that it is worth it.
"""

from dataclasses import replace

from heddle.controller.brain.install import Outcome, changed_topology
from heddle.controller.brain.lacking import holds_underlay
from heddle.controller.brain.state import Active, DrainWork, State
from heddle.controller.brain.transactions.bad_cables import decided, gains
from heddle.controller.brain.transactions.replan import after_replans, announced, applied, limit_of, solve_for
from heddle.controller.model.admission import quoted
from heddle.controller.model.effect import Drained, Effect, Note, Reply
from heddle.controller.model.error import HeddleError, NoAdmissiblePlanError, NotFoundError, UnavailableError
from heddle.controller.model.event import Drain, InstallFailed, Solved
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.moves import Cause
from heddle.controller.model.plan import Infeasible, Replan


def drain(state: State, event: Drain, now: int) -> Outcome:
    """Queue a drain, or reply at once where the target is unknown."""
    target = _named(state.fabric, event.target)
    if target is None:
        ports = [port.id for port in state.fabric.ports_of.get(event.target, ())]
        unknown = (
            f"target: {event.target} is a NIC with several ports: drain one of them, {' or '.join(ports)}"
            if ports
            else f"target: there is no link, switch or NIC {quoted(event.target)}; `heddle topology` lists them"
        )
        return state, (Reply(reply=event.reply, outcome=NotFoundError(unknown)),)
    work = DrainWork(reply=event.reply, target=target, undrain=event.undrain, dry_run=event.dry_run)
    return replace(state, queue=(*state.queue, work)), ()


def _named(fabric: Fabric, name: str) -> str | None:
    """Return the id of a cable, switch or NIC by its own name or that of one of its links; a NIC with ports has none.

    A NIC with several ports is each of them: jobs go on over the others.
    """
    if (cable := fabric.cable_by_link.get(name)) is not None:
        return cable.id
    if name in fabric.switch_by_id or name in fabric.nic_by_id:
        return name
    return next((nic.id for nic in fabric.nics if name in (nic.up_link, nic.down_link)), None)


def start_drain(state: State, work: DrainWork) -> Outcome:
    """Request a plan of the running jobs without the target, or with it."""
    if work.by_rule:
        bad = state.bad_cables.get(work.target)
        if bad is None or bad.left_out is not work.undrain:
            return state, ()  # it is repaired, or was decided meanwhile
    elif (work.target in state.drained) != work.undrain:
        if (behind := _behind(state)) is not None:
            why = f"switch {behind} has not acknowledged its rules yet; {work.target} {_stays(work)}, and rules follow"
            return state, _reply(work, UnavailableError(why))
        return state, _reply(work, Drained(flows_moved=0, certificate=state.certificate, undrain=work.undrain))
    return solve_for(state, work, limit=limit_of(state, Cause.DRAIN), health=_planned(state, work).out_of_use)


def _behind(state: State) -> str | None:
    """Return a connected switch that does not hold its underlay, but for those that are known to lack rules."""
    behind = [
        (not state.switches[name].lagging, name)
        for name in state.dirty - state.lacking
        if state.switches[name].connected and not holds_underlay(state, name)
    ]
    return min(behind)[1] if behind else None


def _stays(work: DrainWork) -> str:
    return "stays in use" if work.undrain else "stays drained"


def _planned(state: State, work: DrainWork) -> State:
    """Return the state with the target drained, or not any more."""
    if work.by_rule:
        known = state.bad_cables.get(work.target)
        bad = {} if known is None else {work.target: replace(known, left_out=not work.undrain)}
        return replace(state, bad_cables={**state.bad_cables, **bad})
    return replace(state, drained=state.drained - {work.target} if work.undrain else state.drained | {work.target})


def drain_solved(state: State, work: DrainWork, event: Solved, now: int) -> Outcome:
    """Let the flows leave the target; refuse a drain that leaves one of them without a path."""
    active, plan = state.active, event.outcome
    assert active is not None
    if active.health != state.out_of_use:
        return replace(state, active=None, queue=after_replans(state, work)), ()
    if work.by_rule and not _is_worth_it(state, work, plan):
        shown = plan.certificate if isinstance(plan, Replan) and _newly_stranded(state, plan) is None else None
        return decided(replace(state, active=None), work, state.certificate, shown)
    if not isinstance(plan, Replan):
        return _refuse(state, work, NoAdmissiblePlanError(plan.why) if isinstance(plan, Infeasible) else plan)
    if (flow := _newly_stranded(state, plan)) is not None and not work.undrain:
        why = f"flow {flow} has no path without {work.target}; release its job first"
        return _refuse(state, work, NoAdmissiblePlanError(why))
    what = "returned to use" if work.undrain else "drained"
    moved = sum(moved.flows for moved in plan.moved.values())
    jobs = tuple(job_id for job_id, each in plan.moved.items() if each.flows)
    response = Drained(flows_moved=moved, certificate=plan.certificate, undrain=work.undrain, jobs=jobs)
    if work.dry_run:
        return replace(state, active=None), _reply(work, response)
    was = state.certificate
    state = replace(state, active=replace(active, response=response))
    state, effects = applied(state, plan, f"{work.target} {what}", now, Cause.DRAIN, barriers=frozenset())
    if not work.undrain:
        state, more = _before_the_underlay(state)
        effects += more
    state, changed = changed_topology(_planned(state, work))
    note = Note(severity="info", subject=work.target, text=f"{what}; {moved} flows moved")
    state, more = decided(state, work, was, plan.certificate) if work.by_rule else (state, ())
    return state, (*effects, *changed, note, *more)


def _is_worth_it(state: State, work: DrainWork, plan: object) -> bool:
    """Return whether a bad cable is to be drained, or returned, by this plan."""
    if not isinstance(plan, Replan) or (_newly_stranded(state, plan) is not None and not work.undrain):
        return False
    return gains(work, state.certificate, plan.certificate)


def _before_the_underlay(state: State) -> Outcome:
    """Publish plans that need no pins, so that their flows have left before the underlay diverts what is left."""
    active = state.active
    if active is None or not active.announces:
        return state, ()
    before = active.before or {}
    if any(state.jobs[job_id].pin_rules is not job.pin_rules for job_id, job in before.items()):
        return state, ()
    waiting = replace(active, announces=(), wait_ms=state.settings.follow_ms)
    return replace(state, active=waiting), announced(state, active.announces)


def _newly_stranded(state: State, plan: Replan) -> str | None:
    """Return a flow that has a path now, and none in the plan."""
    for job_id, flows in plan.stranded.items():
        job = state.jobs.get(job_id)
        if job is not None and len(flows) > job.stranded:
            return flows[0]
    return None


def _refuse(state: State, work: DrainWork, why: HeddleError) -> Outcome:
    return replace(state, active=None), _reply(work, why)


def drain_installed(state: State, work: DrainWork, active: Active, install_ns: int) -> Outcome:
    """Publish the jobs whose flows have moved, and reply."""
    done = _reply(work, active.response) if active.response is not None else ()
    return state, (*announced(state, active.announces), *done)


def drain_failed(state: State, work: DrainWork, active: Active, event: InstallFailed) -> Outcome:
    """Publish the jobs whose flows have moved; the caller learns which switch has not acknowledged."""
    why = f"switch {event.switch} did not acknowledge ({event.reason}); the target {_stays(work)}, and rules follow"
    return state, (*announced(state, active.announces), *_reply(work, UnavailableError(why)))


def _reply(work: DrainWork, outcome: Drained | HeddleError) -> tuple[Effect, ...]:
    """Return the reply to the caller, if there is one."""
    return () if work.reply is None else (Reply(reply=work.reply, outcome=outcome),)
