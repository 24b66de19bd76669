"""Which member of a pair serves which share of the work: takeover, handover, and what happens when both think they do.

A share is called by the member whose it is at first. In active-standby there is one, of the lower id; in active-active
each member has its own. Each member tells the other at every interval what it holds; time is counted in ticks of that
interval, so a member that did not get to run for a while does not take its partner for dead when it wakes up.

Rules:

1. Nothing heard for `missed` ticks (5): hold every share. With a tick of 50 ms that is 300 ms after the last sign of
   life at the most. Where the partner's machine says that nobody listens there any more, GONE_TICKS are enough.
2. A share that neither holds: the member that knows the connections takes it at once, of equals the one whose it is;
   the other after VACANT_TICKS more. So a gateway that comes back at once finds that its partner has taken over.
3. Both hold a share and hear each other: the one whose it is keeps it, which in active-standby means that the higher
   id yields. One that does not hear the other never learns of it; after DEAF_BEATS of its heartbeats that say so, the
   other yields in its place. While nothing gets through at all, both serve: no rule can tell that from a death. Once
   heartbeats get through both ways, at most DEAF_BEATS + 1 intervals pass until one of the two has yielded.
4. Nothing goes back by itself unless `preempt` says so; then the returned member asks for its share once it knows the
   connections and has heard its partner without a break for `hold_ticks`. The holder offers, the other takes, the
   holder lets go when it hears that: for about one heartbeat both serve, at no time none.
5. A member whose data process does not run offers what it holds, and takes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from dataplane.control.pair.beat import Beat

VACANT_TICKS = 3
DEAF_BEATS = 3
OFFER_TICKS = 20
"""An offer that nobody takes ends."""
GONE_TICKS = 2
"""A heartbeat that was refused counts only where none has come for so long: a refusal can be forged, or be old."""


class Tell(NamedTuple):
    """Send a heartbeat to the partner."""

    beat: Beat


class Serve(NamedTuple):
    """Serve these shares from now on, and no others."""

    shares: frozenset[str]


class Announce(NamedTuple):
    """Tell the neighbourhood where the addresses of the shares that are held are."""


Effect = Tell | Serve | Announce


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What both members have agreed on."""

    me: str
    partner: str
    shares: frozenset[str]
    missed: int = 5
    preempt: bool = False
    hold_ticks: int = 300
    announce_ticks: tuple[int, ...] = (2, 6, 20, 60)
    """When after a takeover the addresses are announced again: a frame may be lost, a cache may be locked a second."""


class Ownership:
    """One member. `tick` is called once per interval, `heard` for each heartbeat that arrives."""

    def __init__(self, terms: Terms, boot: int) -> None:
        if terms.me == terms.partner or not terms.shares <= {terms.me, terms.partner}:
            raise ValueError("a pair is two members, and a share is called by one of them")
        self._terms = terms
        self._boot = boot
        self._sequence = 0
        self.holds: frozenset[str] = frozenset()
        self.takeovers = 0
        self.conflicts = 0
        self.ignored = 0
        """Heartbeats that were old, twice there, or of somebody else."""
        self._well = True
        self._copied = False
        self._knows: set[str] = set()
        self._offers: dict[str, int] = {}
        self._other: Beat | None = None
        self._known: tuple[int, int] = (0, -1)
        """Boot and sequence of the newest heartbeat, also of a partner that is gone."""
        self._missed = 0
        self._together = 0
        self._deaf = 0
        self._vacant: dict[str, int] = {}
        self._since_claim: int | None = None

    @property
    def hears_partner(self) -> bool:
        """Whether the partner is there."""
        return self._other is not None

    @property
    def partner_holds(self) -> frozenset[str]:
        """What the partner said last that it serves; nothing while it is not there."""
        return self._other.holds if self._other else frozenset()

    def told_health(self, well: bool) -> list[Effect]:
        """Say whether the data process runs."""
        changed, self._well = self._well != well, well
        return [*self._decide(), *self._tell()] if changed else []

    def told_copied(self, copied: bool) -> None:
        """Say whether there is, and is kept, a copy of all connections that the partner knows."""
        self._copied = copied
        self._knows |= self._copied_shares()

    def told_gone(self) -> list[Effect]:
        """Say that on no way there was anybody to take the last heartbeat."""
        if self._other is None or self._missed < GONE_TICKS:
            return []
        disputed = self.holds & self.partner_holds
        self._missed, self._other, self._together = self._terms.missed + 1, None, 0
        return [*self._decide(), *self._won(disputed), *self._tell()]

    def give(self, shares: Iterable[str]) -> list[Effect]:
        """Have the partner take these shares, if it is there and well; what it does not take soon stays here."""
        for share in self.holds.intersection(shares):
            self._offers[share] = OFFER_TICKS
        return self._tell()

    def tick(self) -> list[Effect]:
        """Let one interval pass."""
        self._missed += 1
        self._together += 1
        disputed = self.holds & self.partner_holds
        if self._other is not None and self._missed > self._terms.missed:
            self._other, self._together = None, 0
        for share in self._open():
            self._vacant[share] = self._vacant.get(share, 0) + 1
        self._offers = {share: left - 1 for share, left in self._offers.items() if left > 1 and share in self.holds}
        effects = [*self._decide(), *self._won(disputed)]
        if self._since_claim is not None:
            self._since_claim += 1
            if self._since_claim in self._terms.announce_ticks and self.holds:
                effects.append(Announce())
        return [*effects, *self._tell()]

    def heard(self, beat: Beat) -> list[Effect]:
        """Take a heartbeat."""
        boot = self._known[0]
        old = (beat.boot, beat.sequence) <= self._known if beat.boot == boot or self._other else False
        if beat.sender != self._terms.partner or beat.receiver != self._terms.me or old:
            self.ignored += 1
            return []
        if self._other is None or beat.boot != boot:
            self._together = 0
        before, disputed = self.holds, self.holds & self.partner_holds
        self._known, self._other, self._missed = (beat.boot, beat.sequence), beat, 0
        self._deaf = 0 if beat.hears else self._deaf + 1
        effects = [*self._decide(), *self._won(disputed)]
        # The other waits for it: a takeover, or a share that was let go.
        return [*effects, *self._tell()] if self.holds != before else effects

    def _decide(self) -> list[Effect]:
        before = self.holds
        for share in sorted(self._terms.shares):
            if share in self.holds:
                if self._yields(share):
                    self.holds -= {share}
                    self._offers.pop(share, None)
            elif self._takes(share):
                self.holds |= {share}
        for share in self._terms.shares - set(self._open()):
            self._vacant.pop(share, None)
        self._knows = (self._knows | self.holds | self._copied_shares()) - self._missing_shares()
        if self.holds == before:
            return []
        effects: list[Effect] = [Serve(self.holds)]
        if self.holds - before:
            self.takeovers += 1
            self._since_claim = 0
            effects.append(Announce())
        return effects

    def _won(self, disputed: frozenset[str]) -> list[Effect]:
        """Announce again what both held until now: the partner has announced it as well."""
        if not disputed & self.holds - self.partner_holds:
            return []
        self._since_claim = 0
        return [Announce()]

    def _open(self) -> list[str]:
        """Return the shares that nobody holds, as far as is known."""
        return [share for share in self._terms.shares if share not in self.holds and share not in self.partner_holds]

    def _takes(self, share: str) -> bool:
        other = self._other
        if not self._well:
            return False
        if other is None:
            return self._missed > self._terms.missed
        if share in other.holds:
            return share in other.offers or not other.well
        mine = (share in self._knows, share == self._terms.me)
        theirs = (share in other.knows, share == self._terms.partner)
        return mine > theirs or not other.well or self._vacant.get(share, 0) >= VACANT_TICKS

    def _yields(self, share: str) -> bool:
        other = self._other
        if other is None or share not in other.holds:
            return False
        if share in self._offers or not self._well:
            return True
        if share in other.offers or not other.well:
            return False
        yields = share != self._terms.me if other.hears else self._deaf >= DEAF_BEATS
        self.conflicts += yields
        return yields

    def _copied_shares(self) -> frozenset[str]:
        return self.partner_holds if self._copied else frozenset()

    def _missing_shares(self) -> frozenset[str]:
        """Return what the partner has gone on serving without a copy here."""
        return frozenset() if self._copied else self.partner_holds - self.holds

    def _tell(self) -> list[Effect]:
        other, terms = self._other, self._terms
        mine = frozenset({terms.me}) & terms.shares
        wants = mine - self.holds if self._may_ask() else frozenset[str]()
        asked = other.wants & self.holds if other and other.well and terms.preempt else frozenset[str]()
        offers = self.holds if not self._well else self.holds.intersection(self._offers) | asked
        self._sequence += 1
        beat = Beat(
            sender=terms.me,
            receiver=terms.partner,
            boot=self._boot,
            sequence=self._sequence,
            hears=other is not None,
            well=self._well,
            holds=self.holds,
            offers=offers,
            wants=wants,
            knows=frozenset(self._knows),
        )
        for share in asked:
            self._offers.setdefault(share, OFFER_TICKS)
        return [Tell(beat)]

    def _may_ask(self) -> bool:
        ready = self._well and self._copied and self._other is not None
        return self._terms.preempt and ready and self._together >= self._terms.hold_ticks
