"""Compute plans and rules without a running controller, with the same rules and budgets; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from heddle.controller.brain.intent import budget_passed, pin_rules_of, rule_counts
from heddle.controller.brain.lifecycle import JobEvent, after
from heddle.controller.brain.state import Job, State, wanted
from heddle.controller.model.error import BudgetExceededError
from heddle.controller.model.job import JobRequest
from heddle.controller.model.plan import JobPlan, Plan
from heddle.controller.model.rule import SwitchRules
from heddle.controller.model.steering_traits import traits_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """Every job's plan, and the rules of every switch under it."""

    jobs: tuple[JobPlan, ...]
    rules: Mapping[str, SwitchRules]


class Origin(NamedTuple):
    """The generation of a job's plan and its cause; of a kept job, how many of its flows moved."""

    generation: int = 1
    reason: str = "planned offline"
    flows_moved: int = 0


def offline(
    state: State, requests: Sequence[JobRequest], plan: Plan, solve_ns: int, origins: Mapping[str, Origin] | None = None
) -> Offline | BudgetExceededError:
    """Add a plan for `requests` to an initial state; return an error value where a rule budget is exceeded.

    `origins` has the kept jobs by id; the others are new.
    """
    origins = origins or {}
    flows_of = {flows.job_id: flows for flows in plan.jobs}
    for number, request in enumerate(requests, start=1):
        flows = flows_of[request.job_id]
        pins = pin_rules_of(state.fabric, request, flows, number)
        origin = origins.get(request.job_id, Origin())
        refused = budget_passed(state, {request.job_id: pins})
        if refused is not None:
            return refused
        job = Job(
            request=request,
            number=number,
            generation=origin.generation,
            state=after(None, JobEvent.ADMITTED),
            reason="; ".join((origin.reason, *flows.notes)),
            lease_expires_unix_ms=0,
            flows=flows,
            pin_rules=pins,
        )
        state = replace(state, jobs={**state.jobs, request.job_id: job})
    counts = rule_counts(state, {})
    certificate = replace(
        plan.certificate,
        solve_ns=solve_ns,
        probed=traits_of(state.fabric).is_probed,
        flows_moved=sum(origin.flows_moved for origin in origins.values()),
        rules_installed=sum(len(rules) for job in state.jobs.values() for rules in job.pin_rules.values()),
        max_rules_on_a_switch=max(counts.values(), default=0),
    )
    return Offline(
        jobs=tuple(replace(job.as_plan(certificate), certificate=certificate) for job in state.jobs.values()),
        rules={switch: wanted(state, switch) for switch in state.underlay},
    )
