"""Switches that reply to echoes and to no barrier: installations report them, leave them behind, and end in time."""

import asyncio
import dataclasses

import pytest

from heddle.controller.model.rule import Change, ChangeOp, FlowRule, Match, Output, Step
from heddle.controller.runtime.ports import InstallError, InstallWatch
from heddle.testing.switches.openflow_switch import BARRIER_REQUEST, FLOW_MOD, MULTIPART_REQUEST, FakeSwitch, message
from tests.unit.southbound.conftest import QUICK

LAGS_SOON = dataclasses.replace(QUICK, lag_s=0.02)
SHORT = dataclasses.replace(LAGS_SOON, barrier_timeout_s=0.2)
RULES = tuple(
    Change(ChangeOp.RULE_ADD, FlowRule(table=0, priority=p, match=Match(in_port=3), actions=(Output(2),), cookie=9))
    for p in range(1, 4)
)


@pytest.fixture
def settings():
    return LAGS_SOON


class Watched:
    """An installation under way, and the switches that it has reported to lag."""

    def __init__(self, server, *steps):
        self.reported: asyncio.Queue[frozenset[str]] = asyncio.Queue()
        self.watch = InstallWatch(self.reported.put_nowait)
        self.task = asyncio.create_task(server.install([Step(step) for step in steps], self.watch))

    async def lags(self) -> set[str]:
        return set(await asyncio.wait_for(self.reported.get(), 20))

    async def error(self) -> InstallError:
        with pytest.raises(InstallError) as found:
            await asyncio.wait_for(self.task, 20)
        return found.value


@pytest.fixture
async def one_is_mute(southbound):
    """Leaf1, which replies to no barrier, and leaf2."""
    mute, well = await southbound.up(1), await southbound.up(2)
    mute.withheld.add(BARRIER_REQUEST)
    return mute, well


async def test_a_switch_that_lags_is_reported_and_waited_for(southbound, one_is_mute):
    mute, _ = one_is_mute
    found = Watched(southbound.server, {"leaf1": RULES, "leaf2": RULES})
    assert await found.lags() == {"leaf1"}
    await mute.release()
    await asyncio.wait_for(found.task, 20)


async def test_that_a_switch_has_caught_up_is_reported_to_a_later_step(southbound, one_is_mute):
    mute, _ = one_is_mute
    found = Watched(southbound.server, {"leaf1": RULES}, {"leaf2": RULES})
    assert await found.lags() == {"leaf1"}
    await mute.release()
    assert await found.lags() == set()
    await asyncio.wait_for(found.task, 20)


async def test_an_installation_that_is_given_up_names_what_lags_and_sends_no_later_step(southbound, one_is_mute):
    _, well = one_is_mute
    found = Watched(southbound.server, {"leaf1": RULES}, {"leaf2": RULES})
    await found.lags()
    found.watch.given_up.set()
    error = await found.error()
    assert (error.switch, set(error.lagging)) == ("leaf1", {"leaf1"})
    await southbound.server.install([Step({"leaf2": ()})])
    assert not well.received[FLOW_MOD]


async def test_a_switch_that_was_left_behind_has_caught_up_with_its_barrier(southbound, one_is_mute):
    mute, _ = one_is_mute
    found = Watched(southbound.server, {"leaf1": RULES})
    await found.lags()
    found.watch.given_up.set()
    await found.error()
    caught_up = asyncio.create_task(southbound.server.caught_up("leaf1"))
    await southbound.server.install([Step({"leaf2": ()})])
    assert not caught_up.done()
    await mute.release()
    assert await asyncio.wait_for(caught_up, 20)


async def test_a_switch_that_was_left_behind_and_refused_something_has_caught_up(southbound, one_is_mute):
    mute, _ = one_is_mute
    mute.refused[FLOW_MOD] = (4, 6)
    found = Watched(southbound.server, {"leaf1": RULES})
    await found.lags()
    found.watch.given_up.set()
    await found.error()
    caught_up = asyncio.create_task(southbound.server.caught_up("leaf1"))
    await asyncio.sleep(0)
    await mute.release()
    assert await asyncio.wait_for(caught_up, 20)


async def test_a_switch_that_was_left_behind_and_leaves_has_not_caught_up(southbound, one_is_mute):
    mute, _ = one_is_mute
    found = Watched(southbound.server, {"leaf1": RULES})
    await found.lags()
    found.watch.given_up.set()
    await found.error()
    caught_up = asyncio.create_task(southbound.server.caught_up("leaf1"))
    await asyncio.sleep(0)
    await mute.disconnect()
    assert not await asyncio.wait_for(caught_up, 20)


async def test_a_refusal_is_not_held_back_by_a_switch_that_lags(southbound, one_is_mute):
    _, well = one_is_mute
    well.refused[FLOW_MOD] = (4, 6)
    error = await Watched(southbound.server, {"leaf1": RULES, "leaf2": RULES}).error()
    assert (error.switch, set(error.lagging)) == ("leaf2", {"leaf1"})


async def test_a_refusal_names_the_first_rule_its_purpose_and_how_many_more(southbound, one_is_mute):
    _, well = one_is_mute
    well.refused[FLOW_MOD] = (4, 6)
    cookie = 0x4840 << 48
    items = (change.item for change in RULES if isinstance(change.item, FlowRule))
    rules = tuple(RULES[0]._replace(item=dataclasses.replace(item, cookie=cookie)) for item in items)
    error = await Watched(southbound.server, {"leaf2": rules}).error()
    assert error.reason == (
        f"BAD_MATCH/BAD_FIELD for RULE_ADD table 0 priority 1 cookie {cookie:#x} (CLASSIFY, in_port 0x3)"
        " (and 2 more were refused)"
    )


def becomes_impatient(southbound):
    """Wait less long for the barriers of leaf1 from now on, however slow the machine was when it connected."""
    southbound.server.sessions()["leaf1"].pace._settings = SHORT


async def test_a_missed_barrier_ends_the_session(southbound, one_is_mute):
    becomes_impatient(southbound)
    error = await Watched(southbound.server, {"leaf1": RULES}).error()
    assert (error.switch, set(error.lagging)) == ("leaf1", set())
    _, _, reason = await southbound.events.wait_for("switch_down", "leaf1")
    assert reason == "no reply to a barrier within 0.2 s; 3 changes were outstanding"


async def test_a_session_without_barrier_replies_is_never_up(southbound, one_is_mute):
    becomes_impatient(southbound)
    mute, _ = one_is_mute
    await Watched(southbound.server, {"leaf1": ()}).error()
    await mute.closed()
    again = FakeSwitch(1)
    again.withheld.add(BARRIER_REQUEST)
    await southbound.connected(again)
    await again.closed()
    assert "no reply to a barrier within 0.4 s" in southbound.server.refusals[-1]  # twice as long as before
    assert southbound.events.of("switch_up") == []


async def test_a_switch_that_does_not_show_its_rules_loses_its_session(southbound, one_is_mute):
    southbound.server.sessions()["leaf1"]._settings = dataclasses.replace(SHORT, request_timeout_s=0.1)
    mute, _ = one_is_mute
    mute.withheld = {MULTIPART_REQUEST}
    with pytest.raises(InstallError, match="could not be read"):
        await southbound.server.read_rules("leaf1")
    await southbound.events.wait_for("switch_down", "leaf1")


async def test_a_late_reply_to_a_barrier_of_another_session_is_none(southbound, one_is_mute):
    mute, _ = one_is_mute
    found = Watched(southbound.server, {"leaf1": RULES})
    await found.lags()
    mute.send(message(21, xid=0x7777))
    await southbound.server.install([Step({"leaf2": ()})])
    assert not found.task.done()
    await mute.release()
    await asyncio.wait_for(found.task, 20)
