"""Compile rules in threads beside the control loop: the underlay for a state of the fabric, and the pins of a plan."""

from dataclasses import replace

from heddle.controller.brain.intent import dead_links, pin_rules_of, severed_pins
from heddle.controller.brain.steering.port_search.wanted import with_wanted
from heddle.controller.brain.steering.transition import slowed
from heddle.controller.model.effect import Compile, Solve
from heddle.controller.model.event import Compiled
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import Replan
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric


def compile_beside(fabric: Fabric, work: Compile) -> Compiled:
    """Compile the underlay; equal rules are the objects of before, so that comparing them later takes no time."""
    compiled = compile_fabric(fabric, layout_of(fabric), work.health)
    differing = frozenset(switch for switch, rules in compiled.items() if rules != work.before[switch])
    return Compiled(
        token=work.token,
        underlay={switch: rules if switch in differing else work.before[switch] for switch, rules in compiled.items()},
        differing=differing,
        pins=severed_pins(fabric, work.pinned, work.health),
    )


def with_pins(fabric: Fabric, problem: Solve, plan: Replan) -> Replan:
    """Return a plan with the pin rules of new jobs and of running jobs whose paths have changed.

    Where switches move running flows, it also has the rates for that time. On a fabric that hashes there are no pins:
    it has the flows that need a source port.
    """
    if fabric.hashes:
        return with_wanted(fabric, problem, plan)
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
