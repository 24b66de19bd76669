"""The loop has the cabling judged in a thread: conditions are published, and a fault there ends nothing."""

import asyncio

from heddle.controller.brain.begin import begin
from heddle.controller.model.cabling import Peer
from heddle.controller.model.event import Heard
from heddle.controller.model.fabric import PortRef
from heddle.controller.runtime import loop as module
from tests.support.controllers.bare_loop import bare_loop
from tests.unit.brain.driver import small_fabric

STRANGE = {PortRef("leaf1", 1): Peer("leaf2", 1), PortRef("leaf2", 1): Peer("leaf1", 1)}


async def judged(loop):
    """Let ports hear what is strange, and wait for the verdict."""
    loop.post(Heard(changes=STRANGE))
    running = asyncio.create_task(loop.run())
    async with asyncio.timeout(30):
        while not loop.state.cabling.heard or loop.state.cabling.stale or loop.state.cabling.token is not None:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_condition_is_an_event_of_the_log():
    loop = bare_loop(begin(small_fabric()))
    await judged(loop)
    events = loop._by.feeds.telemetry.recent()
    assert {event.text for event in events} == set(loop.state.cabling.verdict.conditions) != set()
    assert {(event.kind, event.severity) for event in events} == {("cabling_raised", "warning")}


async def test_a_fault_of_the_diagnosis_leaves_the_verdict_as_it_was(monkeypatch, caplog):
    def broken(fabric, work):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(module, "judge", broken)
    loop = bare_loop(begin(small_fabric()))
    await judged(loop)
    assert loop.state.cabling.heard.keys() == STRANGE.keys()
    assert loop.state.cabling.verdict.conditions == ()
    assert "the last verdict stays" in caplog.text
