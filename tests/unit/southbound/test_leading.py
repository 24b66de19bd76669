"""A controller that does not lead asks nothing of switches, and one whose lease has ended sends them nothing more."""

import asyncio

import pytest

from heddle.controller.model.lease_clock import granted
from heddle.controller.model.rule import Change, ChangeOp, FlowRule, Match, Output, Step
from heddle.controller.runtime.leadership import Leadership
from heddle.controller.runtime.ports import InstallError
from heddle.controller.southbound.server import OpenFlowServer
from heddle.testing.switches.openflow_switch import FLOW_MOD, ROLE_REQUEST, FakeSwitch
from tests.support.fabrics.southbound_events import RecordedEvents
from tests.unit.southbound.conftest import NAMES, QUICK

RULE = FlowRule(table=0, priority=1, match=Match(in_port=1), actions=(Output(2),), cookie=0)
STEPS = [Step(changes={"leaf1": (Change(op=ChangeOp.RULE_ADD, item=RULE),)})]


class Follower:
    """A server whose controller waits, with a clock that the test sets."""

    def __init__(self):
        self.now_ns = 0
        self.events = RecordedEvents()
        self.switch = FakeSwitch(1)
        self.leadership = Leadership(lambda: self.now_ns)
        self.server = OpenFlowServer("127.0.0.1", 0, NAMES.get, self.events, QUICK, self.leadership)

    def lead(self):
        self.leadership.lease = granted(self.now_ns, 1_000)
        self.leadership.begin(99)


@pytest.fixture
async def follower():
    found = Follower()
    address = await found.server.start()
    await found.switch.connect(*address)
    yield found
    await found.switch.disconnect()
    await found.server.close()


async def echoed(switch):
    """Wait until the session has lived for some echo periods."""
    before = switch.received.total()
    while switch.received.total() < before + 4:
        await asyncio.sleep(0.02)


async def test_a_session_waits_without_a_role_until_its_controller_leads(follower):
    await echoed(follower.switch)
    assert follower.switch.received[ROLE_REQUEST] == 0
    follower.lead()
    await follower.events.wait_for("switch_up", "leaf1")
    assert follower.switch.generation == 99
    await follower.server.install(STEPS)
    assert follower.switch.received[FLOW_MOD] == 1


async def test_nothing_is_sent_after_the_end_of_the_lease(follower):
    follower.lead()
    await follower.events.wait_for("switch_up", "leaf1")
    follower.now_ns = 1_000
    with pytest.raises(InstallError, match="no longer leads"):
        await follower.server.install(STEPS)
    assert follower.switch.received[FLOW_MOD] == 0


async def test_a_switch_that_comes_after_the_end_of_the_lease_gets_no_role_request(follower):
    await echoed(follower.switch)
    follower.lead()
    follower.now_ns = 1_000  # before the waiting session continues
    await follower.switch.closed()
    assert follower.switch.received[ROLE_REQUEST] == 0
    assert "no longer leads" in follower.server.refusals[-1]
