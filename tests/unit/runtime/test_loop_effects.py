"""The loop performs effects: what fails ends it, and callers that submit again together are planned together."""

import asyncio
import time
from contextlib import suppress

import pytest

from heddle.controller.brain.begin import begin
from heddle.controller.model.event import PortStatus, Submit, SwitchUp
from heddle.controller.runtime.loop import GATHER_S
from heddle.controller.runtime.ports import InstallError
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.controllers.bare_loop import bare_loop
from tests.unit.brain.driver import shift_job, small_fabric

FABRIC = small_fabric()
CALLERS = 6


class AgreeingSwitches:
    """Acknowledge at once; an audit, which begins where planning takes longer than a tick, reads no rules."""

    async def install(self, steps, watch):
        pass

    async def caught_up(self, switch_id):
        return True

    async def read_rules(self, switch_id):
        raise InstallError(switch_id, "nothing is read here")


class FailingCompiler(ThreadCompiler):
    """Raise where it is asked to compile."""

    async def compile(self, work):
        raise ZeroDivisionError(f"compiling for {len(work.health.down_cables)} failed cables")


class CountingPlanner(ThreadPlanner):
    """Record how many jobs are planned together."""

    def __init__(self, fabric):
        super().__init__(fabric)
        self.together = []

    async def solve(self, problem):
        self.together.append(len(problem.requests))
        return await super().solve(problem)


def loop_of(planner, compiler):
    loop = bare_loop(begin(FABRIC), planner, compiler)
    loop.connect(AgreeingSwitches())
    for switch in FABRIC.switches:
        loop.post(SwitchUp(switch=switch.id, ports={}, installed=loop.state.underlay[switch.id]))
    return loop


async def test_an_effect_that_fails_without_an_event_ends_the_loop():
    loop = loop_of(ThreadPlanner(FABRIC), FailingCompiler(FABRIC))
    loop.post(PortStatus(switch="leaf1", port=1, up=False))
    with pytest.RaisesGroup(pytest.RaisesExc(ZeroDivisionError, match="compiling for 1 failed cables")):
        await loop.run()
    loop.close()


@pytest.mark.parametrize("stall_s", [0.0, 2 * GATHER_S], ids=["at once", "with a stall of the process between them"])
async def test_callers_that_submit_again_together_are_planned_together(stall_s):
    planner = CountingPlanner(FABRIC)
    loop = loop_of(planner, ThreadCompiler(FABRIC))
    running = asyncio.create_task(loop.run())

    async def submit(caller):
        for turn in range(3):
            request = shift_job(f"job-{caller}-{turn}")
            await loop.request(lambda reply, request=request: Submit(reply=reply, request=request))
            if caller == CALLERS // 2:
                time.sleep(stall_s)

    callers = asyncio.gather(*(submit(caller) for caller in range(CALLERS)))
    await asyncio.wait({running, callers}, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await callers
    loop.close()
    assert planner.together == [CALLERS] * 3
