"""Keep jobs of reported flows from those that tenants submit: they have a share, and leave where others need the room.

No tenant has requested them, and their flows go on by ECMP without them.
"""

from collections.abc import Mapping
from dataclasses import replace

from heddle.controller.brain.intent import rule_counts
from heddle.controller.brain.state import Job, State
from heddle.controller.model.error import BudgetExceededError
from heddle.controller.model.observed import is_observed
from heddle.controller.model.rule import FlowRule

SHARE = 4
"""Jobs of reported flows have one part in so many of the jobs, and of the rules that a switch has for jobs."""
Pins = Mapping[str, Mapping[str, tuple[FlowRule, ...]]]


def count_refusal(state: State, observed: bool) -> BudgetExceededError | None:
    """Return why there may not be another job: submitted ones do not count the observed."""
    count = sum(is_observed(job.request) for job in state.jobs.values())
    most, here = state.settings.max_jobs, len(state.jobs) - count
    if observed and (count >= most // SHARE or len(state.jobs) >= most):
        return BudgetExceededError(f"{count} jobs of reported flows hold paths already")
    if here >= most:
        return BudgetExceededError(f"{here} jobs hold paths already; release one first")
    return None


def share_passed(state: State, pins: Pins) -> BudgetExceededError | None:
    """Return the error for the first switch where observed jobs, with these new pins, would have more than a share."""
    own = {name: job.pin_rules for name, job in state.jobs.items() if is_observed(job.request)}
    counts: dict[str, int] = {}
    for rules_of in (own | dict(pins)).values():
        for switch, rules in rules_of.items():
            counts[switch] = counts.get(switch, 0) + len(rules)
    for each in state.fabric.switches:
        if each.rule_budget is not None:
            share = max(0, each.rule_budget - len(state.underlay[each.id].rules)) // SHARE
            if counts.get(each.id, 0) > share:
                return BudgetExceededError(f"switch {each.id} has room for {share} rules of reported flows")
    return None


def yielding(state: State, pins: Pins) -> tuple[Job, ...]:
    """Return the observed jobs, newest first, that have to leave for pins past a rule budget to fit.

    None where all of them would not be enough.
    """
    counts, budgets = rule_counts(state, pins), {each.id: each.rule_budget for each in state.fabric.switches}
    over = {name: count - budget for name, count in counts.items() if (budget := budgets[name]) is not None}
    over = {name: surplus for name, surplus in over.items() if surplus > 0}
    leaving: list[Job] = []
    for job in sorted(filter(_is_observed, state.jobs.values()), key=lambda each: -each.number):
        held = pins.get(job.request.job_id, job.pin_rules)
        if any(over.get(switch, 0) > 0 for switch in held):
            leaving.append(job)
            over = {switch: surplus - len(held.get(switch, ())) for switch, surplus in over.items()}
    return tuple(leaving) if all(surplus <= 0 for surplus in over.values()) else ()


def without(state: State, leaving: tuple[Job, ...]) -> State:
    """Return the state without these jobs; their rules go with the next installation."""
    names = {job.request.job_id for job in leaving}
    jobs = {name: job for name, job in state.jobs.items() if name not in names}
    return replace(state, jobs=jobs, dirty=state.dirty.union(*(job.pin_rules for job in leaving)))


def _is_observed(job: Job) -> bool:
    return is_observed(job.request)
