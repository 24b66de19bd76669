"""What the network reports overtakes requests; each lane keeps its order, and requests always advance."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.event import Due, PortStatus, Renew, SwitchDown, SwitchUp, Tick, Withdraw
from heddle.controller.model.rule import SwitchRules
from heddle.controller.runtime import inbox as module
from heddle.controller.runtime.inbox import MAX_REQUESTS, Inbox

SWITCHES, GATEWAYS = ("leaf1", "leaf2"), ("gateway a", "gateway b")


async def test_a_failure_overtakes_ten_thousand_requests():
    inbox = Inbox(Counter())
    for number in range(10_000):
        inbox.put(Withdraw(reply=number))
    failure = SwitchDown(switch="leaf1", reason="")
    inbox.put(failure, "leaf1")
    assert (await inbox.take(1_024))[0] is failure
    assert inbox.overtook == 1
    assert inbox.waiting == (0, 10_000 - MAX_REQUESTS)


async def test_requests_alone_overtake_nothing():
    inbox = Inbox(Counter())
    inbox.put(SwitchDown(switch="leaf1", reason=""), "leaf1")
    inbox.put(Withdraw(reply=1))
    await inbox.take(10)
    assert inbox.overtook == 0


async def test_a_full_lane_of_requests_refuses_no_failure(monkeypatch):
    monkeypatch.setattr(module, "LANE_LIMIT", 2)
    inbox = Inbox(Counter())
    assert [inbox.put(Withdraw(reply=number)) for number in range(3)] == [True, True, False]
    assert inbox.put(SwitchDown(switch="leaf1", reason=""), "leaf1")
    assert inbox.overflowed == 1


async def test_the_end_of_a_lease_waits_for_a_renewal_that_came_before():
    inbox = Inbox(Counter())
    renewal = Renew(reply=1, job_id="a")
    inbox.put(renewal)
    inbox.put(Tick())
    inbox.put(Due())
    assert await inbox.take(10) == [Due(), renewal, Tick()]


def topology_events(switch):
    """Events of a switch; its ports are numbered, so that none replaces another."""
    return st.one_of(
        st.builds(PortStatus, switch=st.just(switch), port=st.integers(1, 10_000), up=st.booleans()),
        st.builds(SwitchDown, switch=st.just(switch), reason=st.text(max_size=2)),
        st.just(SwitchUp(switch=switch, ports={}, installed=SwitchRules())),
    )


posted = st.one_of(
    *(st.tuples(topology_events(switch), st.just(switch)) for switch in SWITCHES),
    *(st.tuples(st.builds(Withdraw, reply=st.integers(0, 9)), st.just(name)) for name in (*GATEWAYS, "")),
)


@given(st.lists(st.lists(posted, max_size=60), min_size=1, max_size=12), st.integers(1, 8))
async def test_each_source_keeps_its_order_and_each_turn_advances_both_lanes(turns, most):
    inbox = Inbox(Counter())
    put: dict[str, list[Any]] = {}
    taken: dict[Any, list[Any]] = {}
    for turn in (*turns, *([[]] * 1_000)):
        for event, peer in turn:
            before = inbox.waiting
            assert inbox.put(event, peer)
            if inbox.waiting != before:  # no newer state of a port that waits
                put.setdefault(peer, []).append(event)
            else:
                place = max(n for n, old in enumerate(put[peer]) if _same_port(old, event))
                put[peer][place] = event
        waiting = inbox.waiting
        if waiting == (0, 0):
            continue
        events: list[Any] = list(await inbox.take(most))
        advanced = [old - new for old, new in zip(waiting, inbox.waiting, strict=True)]
        assert advanced == [min(most, waiting[0]), min(MAX_REQUESTS, waiting[1])]
        for event in events:
            taken.setdefault(type(event) is Withdraw or event.switch, []).append(event)
    assert all(taken.get(switch, []) == put.get(switch, []) for switch in SWITCHES)
    assert inbox.waiting == (0, 0)


def _same_port(old, event):
    return isinstance(old, PortStatus) and isinstance(event, PortStatus) and old.port == event.port


@given(st.lists(st.tuples(st.sampled_from((*GATEWAYS, "")), st.integers(0, 99)), max_size=80))
async def test_requests_are_taken_in_the_order_in_which_they_came(requests):
    inbox = Inbox(Counter())
    taken: list[Any] = []
    for peer, number in requests:
        inbox.put(Withdraw(reply=number), peer)
    while inbox.waiting != (0, 0):
        taken += await inbox.take(1)
    assert [event.reply for event in taken] == [number for _, number in requests]
