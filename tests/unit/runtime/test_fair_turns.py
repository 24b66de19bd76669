import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.runtime.limits.fair_turns import FairTurns, NoRoomError, Place


class Calls:
    """Calls that wait for turns; `began` has the places in the order in which their turns began."""

    def __init__(self, turns):
        self.fair, self.began, self.running, self.most = FairTurns(turns), [], 0, 0

    async def call(self, *place):
        async with self.fair.turn(Place(*place)):
            self.began.append(place)
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0)
            self.running -= 1

    async def all_of(self, places):
        await asyncio.gather(*(self.call(*place) for place in places))
        return self.began


async def test_another_group_waits_for_one_call_of_each_group():
    flood = [("flood", f"connection {i % 100}") for i in range(800)]
    began = await Calls(1).all_of([*flood, ("other", "a"), ("third", "b")])
    assert {began.index(("other", "a")), began.index(("third", "b"))} == {2, 3}  # one had a turn, one was the first


async def test_members_of_a_group_wait_for_one_call_of_each_other():
    began = await Calls(1).all_of([("uid 7", "flood")] * 50 + [("uid 7", "a"), ("uid 7", "b")])
    assert [member for _, member in began[:5]] == ["flood", "flood", "a", "b", "flood"]


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=40))
def test_every_call_has_its_turn_and_none_that_waits_is_passed_over(turns, places):
    calls = Calls(turns)
    began = asyncio.run(calls.all_of(places))
    assert Counter(began) == Counter(places)
    assert calls.most <= turns
    waited = began[turns:]  # the first ones found free turns
    check_rounds([group for group, _ in waited])
    for group in "abc":
        check_rounds([member for one, member in waited if one == group])


def check_rounds(names):
    """Check that between two turns of one name each other name has one that has turns afterwards too."""
    for i, name in enumerate(names):
        if name in names[i + 1 :]:
            again = names.index(name, i + 1)
            assert set(names[again + 1 :]) - {name} <= set(names[i + 1 : again])


async def test_a_call_that_leaves_takes_no_turn():
    calls = Calls(1)
    async with calls.fair.turn(Place()):
        left, stays = (asyncio.create_task(calls.call("a", str(i))) for i in range(2))
        await asyncio.sleep(0)
        left.cancel()
    await asyncio.wait_for(stays, 20)
    granted = asyncio.create_task(calls.call("b", ""))
    async with calls.fair.turn(Place()):
        await asyncio.sleep(0)
    granted.cancel()  # its turn was granted at the same moment
    await asyncio.wait([granted])
    assert await asyncio.wait_for(calls.all_of([("c", "")]), 20) == [("a", "1"), ("c", "")]


async def waiting_at(room, arrivals):
    """Let calls arrive while another has the only turn; return who waits then, and how many were refused."""
    fair, began, refused = FairTurns(1, room), [], 0

    async def call(place):
        nonlocal refused
        try:
            async with fair.turn(Place(*place)):
                began.append(place)
        except NoRoomError:
            refused += 1

    async with fair.turn(Place("first", "")):
        tasks = []
        for place in arrivals:
            tasks.append(asyncio.create_task(call(place)))
            await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*tasks), 20)
    return Counter(began), refused


def fair_shares(room, demands):
    """Return how many calls each has of `room`, one after the other in rounds: the most even division (an oracle)."""
    shares = dict.fromkeys(demands, 0)
    while sum(shares.values()) < min(room, sum(demands.values())):
        for name in sorted(shares, key=shares.__getitem__):
            if shares[name] < demands[name]:
                shares[name] += 1
                break
    return shares


@given(st.integers(1, 9), st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), max_size=40))
def test_the_calls_that_wait_are_divided_as_evenly_as_can_be_among_groups_whatever_the_order(room, arrivals):
    began, refused = asyncio.run(waiting_at(room, arrivals))
    assert began.total() == min(room, len(arrivals))
    assert refused == len(arrivals) - began.total()
    groups, wanted = Counter[str](), Counter(group for group, _ in arrivals)
    for (group, _), count in began.items():
        groups[group] += count
    assert sorted(groups.values()) == sorted(filter(None, fair_shares(room, wanted).values()))
    for group, count in groups.items():
        own = {member: number for (one, member), number in Counter(arrivals).items() if one == group}
        most = max(number for (one, _), number in began.items() if one == group)
        for member, number in own.items():
            assert began[group, member] >= min(number, most - 1), count


async def test_a_caller_with_no_call_in_progress_finds_room_however_many_others_have_filled_it():
    flood = [(f"caller {number % 5}", "") for number in range(15)]
    began, refused = await waiting_at(15, [*flood, ("late", "")])
    assert (began["late", ""], refused) == (1, 1)


async def test_a_call_that_left_takes_no_room():
    fair = FairTurns(1, 1)
    async with fair.turn(Place("first", "")):
        left = asyncio.create_task(fair._take(Place("a", "")))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait([left])
        stays = asyncio.create_task(fair._take(Place("b", "")))
        await asyncio.sleep(0)
        with pytest.raises(NoRoomError):
            await fair._take(Place("c", ""))
    await asyncio.wait_for(stays, 20)
