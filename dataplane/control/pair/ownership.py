"""Decide which member of a pair serves which role: takeover, handover, and resolution of split brain.

A role is named after its owner, the member that holds it at first. In active-standby there is one role, owned by the
member of the lower id; in active-active each member owns one. Each member sends a heartbeat with the roles that it
holds at every interval. Time is counted in ticks of that interval, so a member that was suspended for a while does not
consider its partner dead when it resumes.

Rules:

1. A member takes every role after more than `missed` ticks (5) without a heartbeat. With a tick of 50 ms that is at
   most 300 ms after the partner's last heartbeat. GONE_TICKS are enough if the partner's host reports by ICMP that no
   process listens on the port. A partner that only fell silent may serve on, behind a link that is cut: for
   `silent_ticks` nothing is reset that it may have opened.
2. A role that neither holds is taken at once by the member that knows its connections: it served them, or keeps a
   complete copy. If both know them, or neither, the owner takes it. The other member takes it only if it is still free
   VACANT_TICKS later. So the roles of a gateway that restarts quickly go to its partner, which has the connections.
3. Both hold a role and hear each other: the owner keeps it; in active-standby the higher id yields. It serves on until
   the owner has a copy of all connections that it had when they heard each other again, for `copy_ticks` at most: each
   has opened connections meanwhile. A member that does not hear the other cannot notice the conflict; after
   DEAF_HEARTBEATS heartbeats that report this, the other yields instead. While no heartbeat gets through in either
   direction both serve: that cannot be distinguished from a failure.
   A partner that is heard again and claims nothing may have replied for the addresses before it knew: a member that
   was suspended replies to what it was asked meanwhile. So the holder announces them again.
4. A role does not fail back unless `preempt` is set. Then the returned member requests its role once it knows the
   connections and has heard its partner without interruption for `hold_ticks`. The holder offers, the other takes, and
   the holder releases when it hears that: for about one heartbeat both serve, and at no time neither.
5. A member whose data process does not run offers what it holds, and takes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from heddle.dataplane.control.pair.heartbeat import Heartbeat

VACANT_TICKS = 3
"""Ticks after which the member of second choice takes a role that neither holds (rule 2)."""
DEAF_HEARTBEATS = 3
"""Heartbeats in a row that report "I do not hear you", after which a member yields a role that both hold (rule 3)."""
OFFER_TICKS = 20
"""Ticks after which an offer that the partner does not take expires."""
GIVEN_MARGIN_TICKS = 3
"""Ticks by which the partner must have been heard longer than its copy is old: both ages are whole ticks."""
GONE_TICKS = 2
"""Ticks without a heartbeat after which an ICMP error (port unreachable) counts: it can be forged or delayed."""


class SendHeartbeat(NamedTuple):
    """Send a heartbeat to the partner."""

    heartbeat: Heartbeat


class Serve(NamedTuple):
    """Serve these roles from now on, and no others."""

    roles: frozenset[str]


class Announce(NamedTuple):
    """Announce the addresses of the roles held, by gratuitous ARP and unsolicited neighbour advertisements."""


Effect = SendHeartbeat | Serve | Announce


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Parameters of the pair, as one member sees them; both members are configured alike."""

    me: str
    partner: str
    roles: frozenset[str]
    missed: int = 5
    preempt: bool = False
    hold_ticks: int = 300
    copy_ticks: int = 600
    """For how long a member that yields a role waits for its connections to be copied."""
    silent_ticks: int = 200
    """For how long a partner that fell silent may serve on, as far as this member knows."""
    announce_ticks: tuple[int, ...] = (2, 6, 20, 60)
    """Ticks after a takeover at which the addresses are announced again: a frame may be lost, a cache may be locked."""


class Ownership:
    """State machine of one member. Call `tick` once per interval and `heard` for each heartbeat that arrives."""

    def __init__(self, terms: Terms, boot: int) -> None:
        if terms.me == terms.partner or not terms.roles <= {terms.me, terms.partner}:
            raise ValueError("a pair has two different members, and each role is named after one of them")
        self._terms = terms
        self._boot = boot
        self._sequence = 0
        self.holds: frozenset[str] = frozenset()
        self.takeovers = 0
        self.conflicts = 0
        self.ignored = 0
        """Heartbeats that were old, duplicated, or from or to another gateway."""
        self._well = True
        self._copied = False
        self._given_ticks: int | None = None
        """Ticks since the partner's copy of the connections served here was complete; None for no complete copy."""
        self._knows: set[str] = set()
        self._offers: dict[str, int] = {}
        self._other: Heartbeat | None = None
        self._known: tuple[int, int] = (0, -1)
        """Boot and sequence of the newest heartbeat, also of a partner that is gone."""
        self._missed = 0
        self._together = 0
        self._deaf = 0
        self._vacant: dict[str, int] = {}
        self._since_claim: int | None = None
        self._silent: int | None = None
        """Ticks since the partner fell silent; None while it is heard, or since it is known to be gone."""

    @property
    def hears_partner(self) -> bool:
        """Whether the partner's heartbeats arrive."""
        return self._other is not None

    @property
    def partner_holds(self) -> frozenset[str]:
        """Roles that the partner's newest heartbeat claims; none while it is not heard."""
        return self._other.holds if self._other else frozenset()

    @property
    def partner_may_serve(self) -> bool:
        """Whether the partner may serve what is held here: it says so, or fell silent a short time ago."""
        is_silent = self._silent is not None and self._silent < self._terms.silent_ticks
        return is_silent or not self.holds.isdisjoint(self.partner_holds)

    def set_health(self, well: bool) -> list[Effect]:
        """Record whether the data process forwards."""
        changed, self._well = self._well != well, well
        return [*self._decide(), *self._heartbeat()] if changed else []

    def set_copied(self, copied: bool) -> None:
        """Record whether this member keeps a complete copy of the partner's connections."""
        self._copied = copied
        self._knows |= self._copied_roles()

    def set_given(self, ticks: int | None) -> None:
        """Record how old the partner's complete copy of the connections served here is, None for no such copy."""
        self._given_ticks = ticks

    def partner_gone(self) -> list[Effect]:
        """Record that the newest heartbeat was refused on every path: no process listens at the partner."""
        self._silent = None
        if self._other is None or self._missed < GONE_TICKS:
            return []
        disputed = self.holds & self.partner_holds
        self._missed, self._other = self._terms.missed + 1, None
        return [*self._decide(), *self._reannounce(disputed), *self._heartbeat()]

    def hand_over(self, roles: Iterable[str]) -> list[Effect]:
        """Offer roles to the partner; those that it does not take within OFFER_TICKS stay here."""
        for role in self.holds.intersection(roles):
            self._offers[role] = OFFER_TICKS
        return self._heartbeat()

    def tick(self) -> list[Effect]:
        """Advance time by one interval and send a heartbeat."""
        self._missed += 1
        self._together += 1
        disputed = self.holds & self.partner_holds
        if self._silent is not None:
            self._silent += 1
        if self._other is not None and self._missed > self._terms.missed:
            self._other, self._silent = None, 0
        for role in self._open():
            self._vacant[role] = self._vacant.get(role, 0) + 1
        self._offers = {role: left - 1 for role, left in self._offers.items() if left > 1 and role in self.holds}
        effects = [*self._decide(), *self._reannounce(disputed)]
        if self._since_claim is not None:
            self._since_claim += 1
            if self._since_claim in self._terms.announce_ticks and self.holds:
                effects.append(Announce())
        return [*effects, *self._heartbeat()]

    def heard(self, heartbeat: Heartbeat) -> list[Effect]:
        """Process a heartbeat that arrived."""
        boot = self._known[0]
        old = (heartbeat.boot, heartbeat.sequence) <= self._known if heartbeat.boot == boot or self._other else False
        if heartbeat.sender != self._terms.partner or heartbeat.receiver != self._terms.me or old:
            self.ignored += 1
            return []
        is_back = self._other is None or heartbeat.boot != boot
        if is_back:
            self._together = 0
        before, disputed = self.holds, self.holds & self.partner_holds
        self._known, self._other, self._missed = (heartbeat.boot, heartbeat.sequence), heartbeat, 0
        self._silent = None
        self._deaf = 0 if heartbeat.hears else self._deaf + 1
        effects = [*self._decide(), *self._reannounce(disputed)]
        if is_back and Announce() not in effects and self.holds - self.partner_holds:
            self._since_claim = 0
            effects.append(Announce())
        # The partner waits for this heartbeat: it reports a takeover or a released role.
        return [*effects, *self._heartbeat()] if self.holds != before else effects

    def _decide(self) -> list[Effect]:
        before = self.holds
        for role in sorted(self._terms.roles):
            if role in self.holds:
                if self._yields(role):
                    self.holds -= {role}
                    self._offers.pop(role, None)
            elif self._takes(role):
                self.holds |= {role}
        for role in self._terms.roles - set(self._open()):
            self._vacant.pop(role, None)
        self._knows = (self._knows | self.holds | self._copied_roles()) - self._missing_roles()
        if self.holds == before:
            return []
        effects: list[Effect] = [Serve(self.holds)]
        if self.holds - before:
            self.takeovers += 1
            self._since_claim = 0
            effects.append(Announce())
        return effects

    def _reannounce(self, disputed: frozenset[str]) -> list[Effect]:
        """Announce again the roles that both held until now: the partner has announced them as well."""
        if not disputed & self.holds - self.partner_holds:
            return []
        self._since_claim = 0
        return [Announce()]

    def _open(self) -> list[str]:
        """Return the roles that neither member is known to hold."""
        return [role for role in self._terms.roles if role not in self.holds and role not in self.partner_holds]

    def _takes(self, role: str) -> bool:
        other = self._other
        if not self._well:
            return False
        if other is None:
            return self._missed > self._terms.missed
        if role in other.holds:
            return role in other.offers or not other.well
        mine = (role in self._knows, role == self._terms.me)
        theirs = (role in other.knows, role == self._terms.partner)
        return mine > theirs or not other.well or self._vacant.get(role, 0) >= VACANT_TICKS

    def _yields(self, role: str) -> bool:
        other = self._other
        if other is None or role not in other.holds:
            return False
        if role in self._offers or not self._well:
            return True
        if role in other.offers or not other.well:
            return False
        yields = role != self._terms.me and self._has_given() if other.hears else self._deaf >= DEAF_HEARTBEATS
        self.conflicts += yields
        return yields

    def _has_given(self) -> bool:
        """Return whether the partner has the connections of before it was heard again, or does not get them in time."""
        is_given = self._given_ticks is not None and self._given_ticks + GIVEN_MARGIN_TICKS <= self._together
        return is_given or self._together >= self._terms.copy_ticks

    def _copied_roles(self) -> frozenset[str]:
        return self.partner_holds if self._copied else frozenset()

    def _missing_roles(self) -> frozenset[str]:
        """Return the roles that the partner serves and whose connections are not copied here."""
        return frozenset() if self._copied else self.partner_holds - self.holds

    def _heartbeat(self) -> list[Effect]:
        other, terms = self._other, self._terms
        mine = frozenset({terms.me}) & terms.roles
        wants = mine - self.holds if self._may_request() else frozenset[str]()
        requested = other.wants & self.holds if other and other.well and terms.preempt else frozenset[str]()
        offers = self.holds if not self._well else self.holds.intersection(self._offers) | requested
        self._sequence += 1
        heartbeat = Heartbeat(
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
        for role in requested:
            self._offers.setdefault(role, OFFER_TICKS)
        return [SendHeartbeat(heartbeat)]

    def _may_request(self) -> bool:
        ready = self._well and self._copied and self._other is not None
        return self._terms.preempt and ready and self._together >= self._terms.hold_ticks
