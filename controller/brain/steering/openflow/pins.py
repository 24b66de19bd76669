"""Compile the pins of a plan, and the rates that flows have while switches move them; in a thread beside the loop."""

from dataclasses import replace

from heddle.controller.brain.intent import dead_links, pin_rules_of
from heddle.controller.brain.steering.transition import slowed
from heddle.controller.model.effect import Solve
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import Replan


def with_pins(fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
    """Return a plan with the pin rules of new jobs and of running jobs whose paths have changed.

    Where switches move running flows, it also has the rates for that time.
    """
    kept = {request.job_id: (request, job) for request, job in problem.kept}
    new = {request.job_id: request for request in problem.requests}
    moving = [job for job in plan.jobs if job.pinned and (job.job_id in new or job.job_id in plan.moved)]
    dead, pins = dead_links(fabric, problem.health) if moving else frozenset[str](), {}
    for job in moving:
        request = new[job.job_id] if job.job_id in new else kept[job.job_id][0]
        pins[job.job_id] = pin_rules_of(fabric, request, job, problem.numbers[job.job_id], dead)
    if not pins:
        return plan
    running = {job_id: job for job_id, (_, job) in kept.items()}
    rates = slowed(running, plan.jobs) if any(job_id in plan.moved for job_id in pins) else {}
    return replace(plan, pins=pins, slowed=rates)
