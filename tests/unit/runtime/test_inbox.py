"""No peer takes the whole inbox, and none is forgotten half."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.event import PortStatus, SwitchDown, Tick
from heddle.controller.runtime import inbox as module
from heddle.controller.runtime.inbox import Inbox
from heddle.controller.runtime.limits.limited import Limit


def port(number, up, switch="leaf1"):
    return PortStatus(switch=switch, port=number, up=up)


async def test_a_peer_has_a_share_and_others_go_on(monkeypatch):
    monkeypatch.setattr(module, "PEER_SHARE", 2)
    refused = Counter()
    inbox = Inbox(refused)
    assert [inbox.put(Tick(), "gateway a") for _ in range(3)] == [True, True, False]
    assert inbox.put(Tick(), "gateway b")
    assert inbox.put(Tick())
    assert inbox.put(SwitchDown(switch="leaf1", reason=""), "gateway a")
    assert refused == {Limit.INBOX: 1}
    assert len(await inbox.take(2)) == 5
    assert inbox.put(Tick(), "gateway a")


async def test_all_events_together_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "LANE_LIMIT", 2)
    inbox = Inbox(Counter())
    assert [inbox.put(Tick()) for _ in range(3)] == [True, True, False]
    assert inbox.overflowed == 1


async def test_a_port_that_toggles_has_one_place_until_its_switch_reports_something_else():
    inbox = Inbox(Counter())
    for up in (True, False, True, False):
        assert inbox.put(port(1, up), "leaf1")
    down = SwitchDown(switch="leaf1", reason="")
    inbox.put(down, "leaf1")
    inbox.put(port(1, True), "leaf1")
    assert await inbox.take(10) == [port(1, False), down, port(1, True)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.booleans() | st.none()), max_size=40), st.data())
async def test_the_last_state_of_every_port_arrives_after_all_that_came_before(posted, data):
    """`up` None is the end of the switch's session, after which its ports have no state."""
    inbox, states, taken = Inbox(Counter()), {}, {}

    async def take(most):
        for event in await inbox.take(most):
            apply(taken, event)

    def apply(into, event):
        if isinstance(event, SwitchDown):
            for key in [key for key in into if key[0] == event.switch]:
                del into[key]
        else:
            into[event.switch, event.port] = event.up

    waiting = 0
    for switch, number, up in posted:
        event = SwitchDown(switch=switch, reason="") if up is None else port(number, up, switch)
        assert inbox.put(event, switch)
        apply(states, event)
        waiting = sum(inbox.waiting)
        if data.draw(st.booleans()):
            await take(data.draw(st.integers(1, 3)))
            waiting = sum(inbox.waiting)
    if waiting:
        await take(waiting)
    assert taken == states
