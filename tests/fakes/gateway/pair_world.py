"""Two members of a pair and the network between them, in simulated milliseconds.

Members can die, return, stop for a while and lose their data process; each direction of the network can lose, delay
(and so reorder) and repeat heartbeats. The world records for how long no member and for how long both members serve a
share.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from heddle.dataplane.control.pair.heartbeat import decode, encode
from heddle.dataplane.control.pair.ownership import Announce, Ownership, SendHeartbeat, Serve, Terms

INTERVAL_MS = 100
MAX_DELAY_MS = 90
COPYING_MS = 300
"""After this time without an interruption each has a copy of the other's connections."""
KEY = b"secret"


@dataclass
class Member:
    terms: Terms
    core: Ownership | None = None
    served: frozenset[str] = frozenset()
    """By its effects: the shares that a gateway's tables would serve."""
    alive_since: int = 0
    stopped_until: int = -1
    well: bool = True
    well_since: int = 0
    waiting: list[bytes] = field(default_factory=list)
    """What arrived while it was stopped."""
    announced: int = -1
    boots: int = 0

    def runs(self, now: int) -> bool:
        return self.core is not None and now >= self.stopped_until

    def able_since(self, now: int) -> int | None:
        """Return the time since which it could have served."""
        if not self.runs(now) or not self.well:
            return None
        return max(self.alive_since, self.stopped_until, self.well_since)


class World:
    """Time advances by `run`; the invariants are checked after every event."""

    def __init__(self, seed: int, *, active_active: bool = False, preempt: bool = False, hold_ticks: int = 20) -> None:
        self.chance = random.Random(seed)
        self.now = 0
        self.roles = frozenset({"a", "b"} if active_active else {"a"})
        self.members = [
            Member(Terms(me=me, partner=it, roles=self.roles, preempt=preempt, hold_ticks=hold_ticks))
            for me, it in (("a", "b"), ("b", "a"))
        ]
        self.loss = [0.0, 0.0]
        """By sender: the share of its heartbeats that are lost."""
        self.delay_ms = 5
        self.repeats = 0.0
        self.refuses = True
        """Whether a dead member's machine replies "port unreachable"; without power it does not."""
        self.clean_since = [0, 0]
        """By sender: since when all that it sent has arrived, or will within MAX_DELAY_MS."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self.none_since: dict[str, int | None] = dict.fromkeys(self.roles, 0)
        self.two_since: dict[str, int | None] = dict.fromkeys(self.roles)
        self.longest_none = self.longest_two = 0

    def start(self, number: int) -> None:
        member = self.members[number]
        if member.core is not None:
            return
        member.boots += 1
        member.core = Ownership(member.terms, boot=1000 * (number + 1) + member.boots)
        member.alive_since, member.served, member.stopped_until = self.now, frozenset(), -1
        member.waiting.clear()
        if not member.well:
            self._perform(number, member.core.set_health(False))
        core = member.core
        self._at(self.now + self.chance.randrange(INTERVAL_MS), lambda: self._tick(number, core))

    def core(self, number: int) -> Ownership:
        core = self.members[number].core
        assert core is not None
        return core

    def kill(self, number: int) -> None:
        self.members[number].core, self.members[number].served = None, frozenset()

    def stop(self, number: int, for_ms: int) -> None:
        if self.members[number].core is not None:
            self.members[number].stopped_until = max(self.members[number].stopped_until, self.now + for_ms)

    def health(self, number: int, well: bool) -> None:
        member = self.members[number]
        if member.well != well:
            member.well, member.well_since = well, self.now
            if member.core:
                self._perform(number, member.core.set_health(well))

    def run(self, for_ms: int) -> None:
        end = self.now + for_ms
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self._watch()
        self.now = end
        self._watch()

    def _at(self, when: int, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, event))

    def _tick(self, number: int, core: Ownership) -> None:
        member = self.members[number]
        if member.core is not core:
            return  # of a former life
        if not member.runs(self.now):
            self._at(member.stopped_until, lambda: self._tick(number, core))
            return
        for data in member.waiting:
            self._hear(number, data)
        member.waiting.clear()
        core.set_given(0 if self._is_copied() else None)
        self._perform(number, core.tick())
        self._at(self.now + INTERVAL_MS, lambda: self._tick(number, core))

    def _is_copied(self) -> bool:
        since = max(*self.clean_since, *(max(each.alive_since, each.stopped_until) for each in self.members))
        return all(each.runs(self.now) for each in self.members) and self.now - since >= COPYING_MS

    def _hear(self, number: int, data: bytes) -> None:
        core, beat = self.members[number].core, decode(data, KEY)
        assert beat is not None
        if core is not None:
            self._perform(number, core.heard(beat))

    def _arrive(self, number: int, data: bytes) -> None:
        member = self.members[number]
        if member.core is None:
            self._refuse(1 - number)
        elif member.runs(self.now):
            self._hear(number, data)
        else:
            member.waiting.append(data)

    def _refuse(self, number: int) -> None:
        """Return a "port unreachable" to the sender of a heartbeat, unless the network loses it."""
        member = self.members[number]
        if (
            self.refuses
            and member.core is not None
            and member.runs(self.now)
            and self.chance.random() >= self.loss[1 - number]
        ):
            self._perform(number, member.core.partner_gone())

    def _perform(self, number: int, effects: list) -> None:
        member = self.members[number]
        for effect in effects:
            match effect:
                case SendHeartbeat(beat):
                    self._send(number, encode(beat, KEY))
                case Serve(roles):
                    member.served = roles
                case Announce():
                    member.announced = self.now
        assert member.core is None or member.served == member.core.holds

    def _send(self, number: int, data: bytes) -> None:
        if self.chance.random() < self.loss[number]:
            self.clean_since[number] = self.now
            return
        for _ in range(1 + (self.chance.random() < self.repeats)):
            delay = self.chance.randint(1, self.delay_ms)
            self._at(self.now + delay, lambda: self._arrive(1 - number, data))

    def _watch(self) -> None:
        for share in self.roles:
            holders = [m for m in self.members if m.core is not None and share in m.served]
            # A stopped control process's data process goes on.
            if any(member.well for member in holders):
                self.none_since[share] = None
            elif self.none_since[share] is None:
                self.none_since[share] = self.now
            both = len(holders) == 2 and all(member.runs(self.now) for member in holders)
            if not both:
                self.two_since[share] = None
            elif self.two_since[share] is None:
                self.two_since[share] = self.now
        self.longest_none = max(self.longest_none, self._none_for())
        self.longest_two = max(self.longest_two, self._two_for())

    def _none_for(self) -> int:
        """Return for how long a share has had no server although a member could serve it."""
        able = [since for member in self.members if (since := member.able_since(self.now)) is not None]
        begun = [since for since in self.none_since.values() if since is not None]
        return max((self.now - max(one, two) for one in able for two in begun), default=0)

    def _two_for(self) -> int:
        """Return for how long both members have served a share although they hear each other."""
        able = [member.able_since(self.now) for member in self.members]
        if None in able:
            return 0
        since = max(*(each for each in able if each is not None), *self.clean_since)
        begun = [each for each in self.two_since.values() if each is not None]
        return max((self.now - max(since, each) for each in begun), default=0)
