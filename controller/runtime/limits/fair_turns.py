"""Give turns to callers one after the other: groups first, then the members of a group, then each one's calls in order.

So a caller with many calls waiting delays another group by one of them at most, and another member of its own group by
one for each member. Where few may wait, the group with the most calls gives way to one with fewer, and so do members.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import NamedTuple


class Place(NamedTuple):
    """Whose turn it is: a group, for example a user, and its member, for example a connection."""

    group: str = ""
    member: str = ""


class NoRoomError(Exception):
    """As many calls as may be wait for their turns, and no other caller has more of them."""


class FairTurns:
    """`turns` may be taken at a time, and `room` calls may wait. All calls are of one event loop."""

    def __init__(self, turns: int, room: float = inf) -> None:
        self._free, self._room = turns, room
        self._waiting: OrderedDict[str, OrderedDict[str, deque[asyncio.Future[None]]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, place: Place) -> AsyncIterator[None]:
        """Wait for a turn, and hold it while the context lasts; raises NoRoomError, also while the call waits."""
        await self._take(place)
        try:
            yield
        finally:
            self._free += 1
            self._grant()

    async def _take(self, place: Place) -> None:
        if not self._free and sum(map(_count, self._waiting.values())) >= self._room:
            self._make_room(place)
        granted = asyncio.get_running_loop().create_future()
        members = self._waiting.setdefault(place.group, OrderedDict())
        members.setdefault(place.member, deque()).append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.cancelled():
                self._remove(place, granted)
            else:  # granted at the same moment
                self._free += 1
                self._grant()
            raise

    def _make_room(self, place: Place) -> None:
        """End the newest call of the member with the most in the group with the most; raises NoRoomError.

        They have more left than the new call's then, or as many.
        """
        own = self._waiting.get(place.group, OrderedDict())
        group = max(self._waiting, key=lambda name: _count(self._waiting[name]), default=place.group)
        if group == place.group or _count(self._waiting[group]) <= _count(own) + 1:
            group, members = place.group, own
            least = len(own.get(place.member, ())) + 1
        else:
            members, least = self._waiting[group], 0
        member = max(members, key=lambda name: len(members[name]), default="")
        if not members or len(members[member]) <= least:
            raise NoRoomError
        last = members[member][-1]
        self._remove(Place(group, member), last)
        if not last.done():  # its caller waits still
            last.set_exception(NoRoomError())

    def _remove(self, place: Place, call: "asyncio.Future[None]") -> None:
        members = self._waiting.get(place.group, OrderedDict())
        calls = members.get(place.member, deque())
        if call in calls:
            calls.remove(call)
            self._drop_empty(place)

    def _grant(self) -> None:
        while self._free and self._waiting:
            granted = self._next()
            if not granted.done():  # its caller waits still
                self._free -= 1
                granted.set_result(None)

    def _next(self) -> "asyncio.Future[None]":
        """Remove the call whose turn is next; its member and its group are the last of theirs then."""
        group, members = next(iter(self._waiting.items()))
        member, calls = next(iter(members.items()))
        granted = calls.popleft()
        members.move_to_end(member)
        self._waiting.move_to_end(group)
        self._drop_empty(Place(group, member))
        return granted

    def _drop_empty(self, place: Place) -> None:
        members = self._waiting[place.group]
        if not members[place.member]:
            del members[place.member]
        if not members:
            del self._waiting[place.group]


def _count(members: "OrderedDict[str, deque[asyncio.Future[None]]]") -> int:
    return sum(map(len, members.values()))
