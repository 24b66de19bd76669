"""Word events and effects of the brain as lines of a timeline, each with the jobs that it is about; pure."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from heddle.controller.model import effect, event
from heddle.controller.model.effect import Drained, Effect
from heddle.controller.model.error import HeddleError
from heddle.controller.model.event import Event
from heddle.controller.model.moves import MAX_MOVES, MoveLimit
from heddle.controller.model.plan import Infeasible, JobPlan, Replan

MAX_NAMED = 4


class Line(NamedTuple):
    """What an event or a decision is, and the ids of its jobs."""

    text: str
    jobs: frozenset[str] = frozenset()


def event_line(each: Event) -> Line | None:
    """Return an event as a line; None for one that says nothing by itself."""
    word = _EVENTS.get(type(each))
    return word(each) if word is not None else Line(type(each).__name__)


def effect_line(each: Effect) -> Line | None:
    """Return a decision as a line; None for one that says nothing by itself."""
    word = _EFFECTS.get(type(each))
    return word(each) if word is not None else None


def _named(names: Any) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more


def _submit(each: event.Submit) -> Line:
    request, what = each.request, "preview" if each.preview else "submit"
    return Line(f"caller {each.reply}: {what} job {request.job_id}, {len(request.ranks)} ranks", _job(request.job_id))


def _solved(each: event.Solved) -> Line:
    match each.outcome:
        case Replan() as plan:
            moved = "; ".join(f"{found.flows} flows of {job_id} move" for job_id, found in plan.moved.items())
            lost = "; ".join(f"{len(flows)} flows of {job_id} have no path" for job_id, flows in plan.stranded.items())
            jobs = frozenset((*plan.moved, *plan.stranded))
            text = "; ".join(filter(None, (f"{len(plan.jobs)} jobs", moved, lost)))
        case Infeasible(why=why):
            text, jobs = f"no plan: {why}", frozenset[str]()
        case error:
            text, jobs = f"no plan: {error}", frozenset[str]()
    return Line(f"planned in {each.solve_ns / 1e6:.1f} ms: {text}", jobs)


def _congested(each: event.Congested) -> Line | None:
    if not each.hot and not each.stale and not each.storms:
        return None
    hot = _named(f"{hot.port} ({hot.measured_bps / 1e6:.1f} Mbit/s)" for hot in each.hot)
    more = {"stale": each.stale, "NICs that pause without end": each.storms}
    texts = [f"congested: {hot or 'none'}", *(f"{what}: {_named(names)}" for what, names in more.items() if names)]
    return Line("; ".join(texts))


def _job(job_id: str) -> frozenset[str]:
    return frozenset((job_id,))


def _limit(limit: MoveLimit) -> str:
    if limit.moves_none:
        return "no moves"
    count = "unlimited" if limit.max_flows == MAX_MOVES else limit.max_flows
    return f"moves: {limit.whose.name.lower()} {count}"


def _solve(each: effect.Solve) -> Line:
    new = frozenset(request.job_id for request in each.requests)
    what = f"job {_named(new)} beside {len(each.kept)} jobs" if new else f"{len(each.kept)} running jobs"
    about = f", for {each.subject}" if each.subject and each.subject not in new else ""
    return Line(f"plan {what}{about}; {_limit(each.limit)}", new | ({each.subject} if each.subject else frozenset()))


def _install(each: effect.Install) -> Line:
    switches = {name for step in each.steps for name in step.changes}
    changes = sum(len(changes) for step in each.steps for changes in step.changes.values())
    wait = f" after {each.after_ms} ms" if each.after_ms else ""
    return Line(f"install {changes} changes on {len(switches)} switches ({_named(switches)}){wait}")


def _reply(each: effect.Reply) -> Line:
    match each.outcome:
        case HeddleError() as error:
            return Line(f"caller {each.reply}: refused: {error}")
        case JobPlan() as plan:
            return Line(f"caller {each.reply}: {_generation(plan)}", _job(plan.job_id))
        case Drained(flows_moved=moved, undrain=undrain):
            return Line(f"caller {each.reply}: {'in use again' if undrain else 'drained'}, {moved} flows moved")
        case int(number):
            return Line(f"caller {each.reply}: done ({number})")
        case places:
            return Line(f"caller {each.reply}: {len(places)} places")


def _generation(plan: JobPlan) -> str:
    return f"job {plan.job_id} generation {plan.generation} {plan.state}: {plan.reason}"


_EVENTS: Mapping[type, Callable[[Any], Line | None]] = {
    event.Submit: _submit,
    event.Suggest: lambda e: Line(f"caller {e.reply}: suggest places for {e.shape.ranks} ranks"),
    event.Withdraw: lambda e: Line(f"caller {e.reply} left"),
    event.Renew: lambda e: Line(f"caller {e.reply}: renew job {e.job_id}", _job(e.job_id)),
    event.Release: lambda e: Line(f"caller {e.reply}: release job {e.job_id}", _job(e.job_id)),
    event.SwitchUp: lambda e: Line(f"switch {e.switch} connected, {len(e.installed.rules)} rules installed"),
    event.SwitchDown: lambda e: Line(f"switch {e.switch} disconnected: {e.reason}"),
    event.PortStatus: lambda e: Line(f"port {e.switch}:{e.port} {'up' if e.up else 'down'}"),
    event.RulesRead: lambda e: None if e.audit else Line(f"rules of {e.switch} read: {len(e.installed.rules)}"),
    event.Drain: lambda e: Line(
        f"caller {e.reply}: {'undrain' if e.undrain else 'drain'} {e.target}{', dry run' if e.dry_run else ''}"
    ),
    event.Congested: _congested,
    event.Solved: _solved,
    event.PortsFound: lambda e: Line(
        f"{len(e.found.ports)} ports found by {e.found.probes} probes, {len(e.found.missing)} flows have none"
    ),
    event.Compiled: lambda e: Line(f"underlay compiled: {len(e.differing)} switches differ", frozenset(e.pins)),
    event.Suggested: lambda e: Line("places found" if isinstance(e.outcome, tuple) else f"no places: {e.outcome}"),
    event.Installed: lambda e: Line(f"acknowledged in {e.install_ns / 1e6:.1f} ms"),
    event.InstallFailed: lambda e: Line(f"installation failed on {e.switch}: {e.reason}"),
    event.Tick: lambda e: None,
}
_EFFECTS: Mapping[type, Callable[[Any], Line]] = {
    effect.Solve: _solve,
    effect.FindPorts: lambda e: Line(f"find the source ports of {len(e.flows)} flows by probes"),
    effect.Compile: lambda e: Line("compile the underlay for what is out of use now"),
    effect.Place: lambda e: Line(f"find places for {e.shape.ranks} ranks beside {len(e.kept)} jobs"),
    effect.Install: _install,
    effect.Reply: _reply,
    effect.Announce: lambda e: Line(f"publish {_generation(e.plan)}", _job(e.plan.job_id)),
    effect.Note: lambda e: Line(f"{e.severity}: {e.subject}: {e.text}", _job(e.subject)),
    effect.NetworksChanged: lambda e: Line(f"publish generation {e.generation} of the virtual networks"),
    effect.Persist: lambda e: Line(f"write {len(e.values)} values to the journal"),
    effect.EndSession: lambda e: Line(f"end session {e.session} of {e.gateway_id}"),
}
