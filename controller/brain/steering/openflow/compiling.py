"""Compile the underlay anew when other links or switches are out of use: beside the control loop, then install it."""

from dataclasses import replace

from heddle.controller.brain.install import Outcome, take_token
from heddle.controller.brain.intent import severed_pins
from heddle.controller.brain.state import Compiling, State
from heddle.controller.model.effect import Compile, Wake
from heddle.controller.model.event import Compiled
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.steering import layout_of
from heddle.controller.rules.compile import compile_fabric

MAX_COMPILE_PAUSE_MS = 5_000


def start_compile(state: State, now: int) -> Outcome:
    """Compile the underlay where it is not that of what is out of use now; one compilation at a time.

    After one, the next waits as long as it took: a fabric that flaps gets its rules in between. The clock may be set.
    """
    pauses = 0 < state.compile_pause_unix_ms - now <= MAX_COMPILE_PAUSE_MS
    if state.compiling is not None or state.compiled_for == state.out_of_use or pauses:
        return state, ()
    state, token = take_token(state)
    state = replace(state, compiling=Compiling(token=token, health=state.out_of_use, since_unix_ms=now))
    pinned = tuple((job.request, job.flows, job.number, job.severed) for job in state.jobs.values() if job.flows.pinned)
    work = Compile(token=token, health=state.out_of_use, base=state.compiled_for, before=state.underlay, pinned=pinned)
    return state, (work,)


def compiled(state: State, event: Compiled, now: int) -> Outcome:
    """Use a new underlay; pins of flows whose path has failed go, so that exceptions forward them meanwhile."""
    if state.compiling is None or state.compiling.token != event.token:
        return state, ()
    jobs, dirty = dict(state.jobs), set(state.dirty | event.differing)
    for job_id, found in event.pins.items():
        job = jobs.get(job_id)
        if job is not None and job.flows.flows is found.flows.flows:
            jobs[job_id] = replace(job, pin_rules=found.pins, severed=found.severed)
            dirty |= {*job.pin_rules, *found.pins}
    pause_ms = min(max(now - state.compiling.since_unix_ms, 0), MAX_COMPILE_PAUSE_MS)
    state = replace(
        state,
        underlay=event.underlay,
        compiled_for=state.compiling.health,
        compiling=None,
        compile_pause_unix_ms=now + pause_ms,
        jobs=jobs,
        dirty=frozenset(dirty),
    )
    return state, (Wake(after_ms=pause_ms),) if pause_ms else ()


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
