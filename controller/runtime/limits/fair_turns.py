"""Give turns to callers one after the other: groups first, then the members of a group, then each one's calls in order.

So a caller with many calls waiting delays another group by one of them at most, and another member of its own group by
one for each member.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class Place(NamedTuple):
    """Whose turn it is: a group, for example a user, and its member, for example a connection."""

    group: str = ""
    member: str = ""


class FairTurns:
    """`turns` may be taken at a time. All calls are of one event loop."""

    def __init__(self, turns: int) -> None:
        self._free = turns
        self._waiting: OrderedDict[str, OrderedDict[str, deque[asyncio.Future[None]]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, place: Place) -> AsyncIterator[None]:
        """Wait for a turn, and hold it while the context lasts."""
        await self._take(place)
        try:
            yield
        finally:
            self._free += 1
            self._grant()

    async def _take(self, place: Place) -> None:
        granted = asyncio.get_running_loop().create_future()
        members = self._waiting.setdefault(place.group, OrderedDict())
        members.setdefault(place.member, deque()).append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():  # granted at the same moment
                self._free += 1
                self._grant()
            raise

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
        if not calls:
            del members[member]
        if not members:
            del self._waiting[group]
        return granted
