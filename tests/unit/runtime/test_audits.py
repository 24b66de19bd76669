"""The loop reads the rules of one switch after another when it audits them."""

import asyncio

from heddle.controller.brain.begin import begin
from heddle.controller.model.effect import ReadRules
from heddle.controller.model.rule import SwitchRules
from heddle.controller.runtime import loop as module
from tests.fakes.thread_compiler import ThreadCompiler
from tests.fakes.thread_planner import ThreadPlanner
from tests.support.controllers.bare_loop import bare_loop
from tests.unit.brain.driver import small_fabric

FABRIC = small_fabric()


class SlowSwitches:
    """Replies to a read after some turns of the event loop, and counts how many are under way."""

    def __init__(self):
        self.reading = self.most = 0
        self.read = []

    async def install(self, steps, watch):
        raise AssertionError("nothing is installed here")

    async def caught_up(self, switch_id):
        return True

    async def read_rules(self, switch_id):
        self.reading += 1
        self.most = max(self.most, self.reading)
        for _ in range(5):
            await asyncio.sleep(0)
        self.reading -= 1
        self.read.append(switch_id)
        return SwitchRules()


async def reads(effects):
    switches = SlowSwitches()
    loop = bare_loop(begin(FABRIC), ThreadPlanner(FABRIC), ThreadCompiler(FABRIC))
    loop.connect(switches)
    for effect in effects:
        loop._on_read_rules(effect)
    while loop._tasks:
        await asyncio.sleep(0)
    loop.close()
    return switches


async def test_audits_read_one_switch_after_another_in_order():
    switches = await reads([ReadRules(switch=f"leaf{n}", audit=7) for n in (3, 1, 2)])
    assert switches.most == 1
    assert switches.read == ["leaf3", "leaf1", "leaf2"]


async def test_rules_that_are_unknown_are_read_at_once():
    switches = await reads([ReadRules(switch=f"leaf{n}") for n in (3, 1, 2)])
    assert switches.most == 3


async def test_audits_that_a_slow_switch_keeps_waiting_are_dropped(monkeypatch):
    monkeypatch.setattr(module, "MAX_AUDITS_WAITING", 2)
    switches = await reads([ReadRules(switch=f"leaf{n}", audit=7) for n in (3, 1, 2)])
    assert switches.read == ["leaf3", "leaf1"]
