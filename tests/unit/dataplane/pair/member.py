"""One member of a pair, its partner's heartbeats, and what it does."""

from dataclasses import dataclass, field
from typing import Any

from heddle.dataplane.control.pair.heartbeat import Heartbeat
from heddle.dataplane.control.pair.ownership import (
    Announce,
    Ownership,
    SendHeartbeat,
    Terms,
)

NONE: frozenset[str] = frozenset()
A, B = frozenset({"a"}), frozenset({"b"})


@dataclass
class Member:
    """One member, and the heartbeats of its partner, which are up to date unless a field says otherwise.

    It waits for no copy of its connections, unless `more` says so.
    """

    me: str = "a"
    roles: frozenset[str] = A
    more: dict = field(default_factory=dict)
    sequence: int = 0

    def __post_init__(self):
        self.partner = "b" if self.me == "a" else "a"
        more = {"copy_ticks": 0} | self.more
        self.core = Ownership(Terms(me=self.me, partner=self.partner, roles=self.roles, **more), boot=7)

    def hear(self, **fields):
        self.sequence += 1
        usual: dict[str, Any] = {
            "sender": self.partner,
            "receiver": self.me,
            "boot": 5,
            "sequence": self.sequence,
            "hears": True,
        }
        usual |= {"well": True, "holds": NONE, "offers": NONE, "wants": NONE, "knows": NONE}
        return self.core.heard(Heartbeat(**(usual | fields)))

    def ticks(self, count):
        return [self.core.tick() for _ in range(count)]

    def sent(self):
        return beat_of(self.core.tick())

    def holding(self):
        """Hold the role of `a`: nothing was heard for long enough."""
        self.ticks(6)
        assert self.core.holds == self.roles
        return self


def beat_of(effects):
    """Return the one heartbeat that is sent."""
    (beat,) = (effect.heartbeat for effect in effects if isinstance(effect, SendHeartbeat))
    return beat


def kinds(effects):
    return [type(effect) for effect in effects]


def announced(member, count):
    """Return in which of the next ticks the addresses are announced, from 1 on."""
    return [number for number, effects in enumerate(member.ticks(count), 1) if Announce() in effects]
