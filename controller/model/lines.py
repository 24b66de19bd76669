"""Word events and effects of the brain as lines of `heddle replay`; short ones are worded in their classes."""

from collections.abc import Iterable
from typing import Any

from heddle.controller.model.error import HeddleError
from heddle.controller.model.moves import MAX_MOVES, MoveLimit
from heddle.controller.model.plan import Infeasible, JobPlan, Replan
from heddle.controller.model.traits import Line

MAX_NAMED = 4


def about(text: str, *job_ids: str) -> Line:
    """Return a line, and the jobs that it is about."""
    return Line(text, frozenset(job_ids))


def submit(each: Any) -> Line:
    """Word the request of a job, or of its preview."""
    job_id, what = each.request.job_id, "preview" if each.preview else "submit"
    return about(f"caller {each.reply}: {what} job {job_id}, {len(each.request.ranks)} ranks", job_id)


def drain(each: Any) -> Line:
    """Word the request of a drain."""
    what, dry = "undrain" if each.undrain else "drain", ", dry run" if each.dry_run else ""
    return Line(f"caller {each.reply}: {what} {each.target}{dry}")


def network(each: Any) -> Line:
    """Word the objects of a network file."""
    counts = {"VPCs": each.vpcs, "peerings": each.peerings, "load balancers": each.load_balancers}
    named = [f"{len(found)} {what}" for what, found in counts.items() if found]
    named += [] if each.border is None else [f"a border of {len(each.border)} rules"]
    return Line(f"caller {each.reply}: apply {', '.join(named) or 'nothing'}")


def suggested(each: Any) -> Line:
    """Word whether there are places for a job."""
    return Line("places found" if isinstance(each.outcome, tuple) else f"no places: {each.outcome}")


def ports_found(each: Any) -> Line:
    """Word what a search for source ports has found."""
    found = each.found
    return Line(f"{len(found.ports)} ports found by {found.probes} probes, {len(found.missing)} flows have none")


def solved(each: Any) -> Line:
    """Word what the planner has found."""
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


def congested(each: Any) -> Line | None:
    """Word the congested links of a period; None where there are none."""
    if not each.hot and not each.stale and not each.storms:
        return None
    hot = _named(f"{hot.port} ({hot.measured_bps / 1e6:.1f} Mbit/s)" for hot in each.hot)
    more = {"stale": each.stale, "NICs that pause without end": each.storms}
    texts = [f"congested: {hot or 'none'}", *(f"{what}: {_named(names)}" for what, names in more.items() if names)]
    return Line("; ".join(texts))


def cables_judged(each: Any) -> Line:
    """Word which cables are bad."""
    return Line(f"bad cables: {_named(found.cable for found in each.cables) or 'none'}")


def solve(each: Any) -> Line:
    """Word what the planner is to plan."""
    new = frozenset(request.job_id for request in each.requests)
    what = f"job {_named(new)} beside {len(each.kept)} jobs" if new else f"{len(each.kept)} running jobs"
    what += " all again" if each.converge else ""
    on_behalf = f", for {each.subject}" if each.subject and each.subject not in new else ""
    jobs = new | ({each.subject} if each.subject else frozenset())
    return Line(f"plan {what}{on_behalf}; {_limit(each.limit)}", jobs)


def install(each: Any) -> Line:
    """Word what is sent to switches."""
    switches = {name for step in each.steps for name in step.changes}
    changes = sum(len(changes) for step in each.steps for changes in step.changes.values())
    wait = f" after {each.after_ms} ms" if each.after_ms else ""
    return Line(f"install {changes} changes on {len(switches)} switches ({_named(switches)}){wait}")


def reply(each: Any) -> Line:
    """Word what a caller gets."""
    caller = f"caller {each.reply}"
    match each.outcome:
        case HeddleError() as error:
            return Line(f"{caller}: refused: {error}")
        case JobPlan() as plan:
            return about(f"{caller}: {generation(plan)}", plan.job_id)
        case int(number):
            return Line(f"{caller}: done ({number})")
        case tuple(places):
            return Line(f"{caller}: {len(places)} places")
        case drained:
            done = "in use again" if drained.undrain else "drained"
            return Line(f"{caller}: {done}, {drained.flows_moved} flows moved")


def generation(plan: JobPlan) -> str:
    """Return a generation of a job, and why there is one."""
    return f"job {plan.job_id} generation {plan.generation} {plan.state}: {plan.reason}"


def _limit(limit: MoveLimit) -> str:
    if limit.moves_none:
        return "no moves"
    count = "unlimited" if limit.max_flows == MAX_MOVES else limit.max_flows
    return f"moves: {limit.whose.name.lower()} {count}"


def _named(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return ", ".join(listed[:MAX_NAMED]) + more
