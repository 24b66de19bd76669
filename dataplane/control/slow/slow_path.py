"""What becomes of a punted packet: frames to send, a neighbour to ask for, or nothing.

Answers go back the way the question came: to the MAC that sent the frame and, for a tenant, through the tunnel to the
VTEP that it came from. Each VPC has its own allowance of answers, of ICMP errors and of packets to cut, so that none
takes the slow path from the others. Every packet is counted under one `Outcome`; nothing that arrives makes it raise.
"""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from dataplane.config.local import Side
from dataplane.config.network import Address
from dataplane.control.slow import arp, discovery
from dataplane.control.slow.departure import Hop, Parked, Waiting, Ways, frame_out
from dataplane.control.slow.directory import Directory, Duty, Home, neighbour_key
from dataplane.control.slow.errors import Problem, echo_reply, error_about, may_be_answered
from dataplane.control.slow.fragment import fragments
from dataplane.control.slow.frames import ARP, BROADCAST
from dataplane.control.slow.neighbours import Neighbours, Place
from dataplane.control.slow.origin import Origin, read_origin
from dataplane.control.slow.tokens import Buckets
from dataplane.control.slow.view import Ip, is_one_station
from dataplane.engine.reasons import Punt
from dataplane.engine.rings import Punted

_LINK_LOCAL: Final = bytes.fromhex("fe80000000000000")


class Send(NamedTuple):
    """Let a frame leave by a port as it is."""

    port: int
    frame: bytes


class Outcome(StrEnum):
    """What became of a punted packet."""

    ANSWERED_ARP = "answered_arp"
    ANSWERED_NEIGHBOUR = "answered_neighbour"
    ANSWERED_PING = "answered_ping"
    SENT_ERROR = "sent_error"
    FRAGMENTED = "fragmented"
    SOUGHT = "sought"  # waits for the next hop's MAC, or left with it
    LEARNED = "learned"
    NOT_ASKED = "not_asked"  # an answer that nobody waits for
    NOT_OURS = "not_ours"  # asks for an address that the gateway does not answer for
    SPOOFED = "spoofed"  # the asker does not live where it says
    NO_ERROR_ALLOWED = "no_error_allowed"  # ICMP forbids to answer
    ROUTER_SOUGHT = "router_sought"  # endpoints are given their gateway, none is advertised
    MALFORMED = "malformed"
    RATE_LIMITED = "rate_limited"
    STALE = "stale"  # of a configuration that is no longer there
    UNHANDLED = "unhandled"


Result = tuple[Outcome, list[Send]]


class Allowance(NamedTuple):
    """How often one VPC, or one port's outside, may have the slow path work for it."""

    answers: Buckets
    errors: Buckets
    cuts: Buckets


def allowance() -> Allowance:
    """Return the usual allowance: RFC 4443 (2.4, f) has errors limited, the numbers are Linux's or near them."""
    return Allowance(
        Buckets(per_second=1000, burst=1000), Buckets(per_second=1000, burst=50), Buckets(per_second=2000, burst=200)
    )


class SlowPath:
    """Answers for a gateway; all that it knows of the world it was told."""

    def __init__(self, directory: Directory, ways: Ways, limits: Allowance | None = None) -> None:
        self.neighbours = Neighbours()
        self.waiting = Waiting()
        self.outcomes: Counter[Outcome] = Counter()
        self._limits = limits or allowance()
        self._directory, self._ways = directory, ways
        self._by_reason: dict[Punt, Callable[[Punted, Origin, int], Result]] = {
            Punt.ARP: self._arp,
            Punt.NEIGHBOUR: self._neighbour,
            Punt.FOR_GATEWAY: self._for_gateway,
            Punt.TTL_EXPIRED: self._expired,
            Punt.TOO_BIG: self._too_big,
            Punt.UNREACHABLE: self._unreachable,
            Punt.RESOLVE: self._resolve,
        }

    def configure(self, directory: Directory, ways: Ways, now_ns: int) -> None:
        """Serve another generation from now on; its next hops are asked for at the next `tick`."""
        self._directory, self._ways = directory, ways
        self.neighbours.need(ways.needed(), now_ns)
        self.waiting.clear()

    def take_up(self, duty: Duty) -> None:
        """Answer for other addresses from now on; all else is as before."""
        self._directory = self._directory.on_duty(duty)

    def handle(self, punted: Punted, now_ns: int) -> list[Send]:
        """Return what a packet leads to."""
        origin = read_origin(punted, self._directory)
        handler = self._by_reason.get(punted.reason)
        if origin is None:
            outcome, effects = Outcome.MALFORMED, list[Send]()
        elif handler is None:
            outcome, effects = Outcome.UNHANDLED, []
        else:
            outcome, effects = handler(punted, origin, now_ns)
        self.outcomes[outcome] += 1
        return effects

    def tick(self, now_ns: int) -> list[Send]:
        """Return the questions to neighbours that are due."""
        effects: list[Send] = []
        for place, mac in self.neighbours.tick(now_ns):
            port = self._directory.port(place.port)
            if port is None:
                continue
            own = self._directory.speaks_as(place)
            if len(place.address) == 4:
                frame = arp.question(port.mac, own or arp.NOBODY, place.address, place.vlan, mac or BROADCAST)
            else:
                frame = discovery.question(port.mac, discovery.link_local(port.mac), place.address, place.vlan, mac)
            effects.append(Send(place.port, frame))
        return effects

    def announcements(self) -> list[Send]:
        """Return what makes the neighbourhood of all ports send here from now on: for a gateway that takes over."""
        effects: list[Send] = []
        for place in self._directory.to_announce():
            mac = self._directory.ports[place.port].mac
            if len(place.address) == 4:
                frame = arp.announcement(mac, place.address, place.vlan)
            else:
                frame = discovery.announcement(mac, place.address, True, place.vlan)
            effects.append(Send(place.port, frame))
        return effects

    def resolved(self) -> dict[tuple[int, Address], int]:
        """Return the MACs of neighbours as the compilation of tables wants them."""
        known = self.neighbours.resolved()
        return {neighbour_key(place): int.from_bytes(mac, "big") for place, mac in known.items()}

    def _arp(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        asked = arp.read_arp(origin.link.payload) if origin.link.kind == ARP else None
        if asked is None or asked.sender_mac != origin.link.source or not is_one_station(asked.sender_mac):
            return Outcome.MALFORMED, []
        if asked.operation == arp.REPLY:
            return self._told(origin, asked.sender, asked.sender_mac, now_ns)
        sender = None if asked.sender == arp.NOBODY else asked.sender
        if asked.sender == asked.target:
            self._hinted(origin, asked.sender, asked.sender_mac, now_ns)
            return Outcome.NOT_ASKED, []
        found = self._asked(origin, asked.target, sender, now_ns)
        if isinstance(found, Outcome):
            return found, []
        return Outcome.ANSWERED_ARP, [Send(*origin.through(arp.answer(asked, found, origin.link.vlan)))]

    def _neighbour(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        ip = origin.ip()
        said = discovery.read_neighbour(ip) if ip else None
        if said is None or not is_one_station(origin.link.source):
            return Outcome.ROUTER_SOUGHT if ip and discovery.seeks_router(ip) else Outcome.MALFORMED, []
        if said.kind == discovery.ADVERTISEMENT:
            return self._told(origin, said.target, said.mac or origin.link.source, now_ns)
        sender = None if said.source == discovery.UNSPECIFIED else said.source
        found = self._asked(origin, said.target, sender, now_ns)
        if isinstance(found, Outcome):
            return found, []
        router = origin.tenant is not None and said.target in origin.tenant.gateways
        reply = discovery.answer(said, origin.link.source, found, router, origin.link.vlan)
        return Outcome.ANSWERED_NEIGHBOUR, [Send(*origin.through(reply))]

    def _told(self, origin: Origin, address: bytes, mac: bytes, now_ns: int) -> Result:
        """Take an answer, or what pretends to be one: from tenants none is wanted."""
        place = Place(origin.number, origin.link.vlan, address)
        if origin.tunnel or not self.neighbours.heard(place, mac, now_ns):
            self._hinted(origin, address, mac, now_ns)
            return Outcome.NOT_ASKED, []
        parked = self.waiting.release(place)
        return Outcome.LEARNED, [Send(hop.port, frame_out(hop, mac, link, packet)) for hop, link, packet in parked]

    def _hinted(self, origin: Origin, address: bytes, mac: bytes, now_ns: int) -> None:
        if not origin.tunnel:
            self.neighbours.hinted(Place(origin.number, origin.link.vlan, address), mac, now_ns)

    def _asked(self, origin: Origin, target: bytes, sender: bytes | None, now_ns: int) -> bytes | Outcome:
        """Return the MAC to answer with, or why there is no answer; `sender` is None for one without an address yet."""
        if sender is not None:
            self._hinted(origin, sender, origin.link.source, now_ns)
        mac = self._asked_in_tunnel(origin, target, sender) if origin.tunnel else self._asked_on_port(origin, target)
        if isinstance(mac, bytes) and not self._limits.answers.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED
        return mac

    def _asked_on_port(self, origin: Origin, target: bytes) -> bytes | Outcome:
        if origin.port.side is Side.CUSTOMER:
            # The customer's router has the VPC on its link: the port answers for all that lives there.
            tenant = origin.tenant if self._directory.duty.public else None
            known = tenant is not None and (target in tenant.gateways or target in tenant.endpoints)
        else:
            known = self._directory.holds(origin.number, target)
        return origin.port.mac if known else Outcome.NOT_OURS

    def _asked_in_tunnel(self, origin: Origin, target: bytes, sender: bytes | None) -> bytes | Outcome:
        tenant, tunnel = origin.tenant, origin.tunnel
        if tenant is None or tunnel is None or not self._directory.duty.serves:
            return Outcome.STALE
        asker = Home(origin.link.source, tunnel.ip.source)
        if sender is None or sender[:8] == _LINK_LOCAL:
            # Not known by address: a station of this VPC at this VTEP it has to be.
            genuine = asker in tenant.stations
        else:
            genuine = tenant.endpoints.get(sender) == asker
        if not genuine:
            return Outcome.SPOOFED
        if target in tenant.gateways:
            return tenant.mac
        home = tenant.endpoints.get(target)
        # Who asks for its own address wants to know whether another has it (RFC 5227, 2.1; RFC 4862, 5.4).
        return home.mac if home and home != asker else Outcome.NOT_OURS

    def _for_gateway(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        ip = origin.ip()
        if ip is None:
            return Outcome.MALFORMED, []
        if not self._is_own(origin, ip.target):
            return Outcome.NOT_OURS, []
        reply = echo_reply(ip)
        if reply is None or not is_one_station(origin.link.source) or not is_one_station(origin.link.target):
            return Outcome.UNHANDLED, []
        if not self._limits.answers.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        return Outcome.ANSWERED_PING, [Send(*origin.back(*reply))]

    def _is_own(self, origin: Origin, address: bytes) -> bool:
        if origin.tunnel or origin.port.side is Side.CUSTOMER:
            # A peer's gateway as well: whether it may be reached was for routes and rules to say.
            return any(each and address in each.gateways for each in (origin.tenant, origin.routed_to))
        return self._directory.answers_ping(origin.number, address)

    def _expired(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        return self._error(origin, Problem.EXPIRED, now_ns)

    def _unreachable(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        # A hop is there where a subnet has the address, and nobody in it.
        return self._error(origin, Problem.NO_ROUTE if punted.next_hop < 0 else Problem.HOST, now_ns)

    def _too_big(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        hop = self._ways.hop(punted.next_hop)
        if hop is None:
            return Outcome.STALE, []
        ip = origin.ip()
        if ip is None or ip.dont_fragment:
            return self._error(origin, Problem.TOO_BIG, now_ns, hop.mtu_bytes)
        if not self._limits.cuts.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        parts = fragments(ip, hop.mtu_bytes)
        if not parts:
            return Outcome.STALE, []
        return Outcome.FRAGMENTED, [send for part in parts for send in self._leave(origin, hop, part, ip, now_ns)]

    def _leave(self, origin: Origin, hop: Hop, packet: bytes, ip: Ip, now_ns: int) -> list[Send]:
        """Send a packet by a hop; where the MAC is not known it is asked for, and the packet waits."""
        place = hop.place or Place(hop.port, hop.vlan, ip.target)
        mac = hop.mac or self.neighbours.mac_of(place)
        if mac is not None:
            return [Send(hop.port, frame_out(hop, mac, origin.link, packet))]
        self.neighbours.seek(place, now_ns)
        self.waiting.park(place, Parked(hop, origin.link, packet))
        return []

    def _error(self, origin: Origin, problem: Problem, now_ns: int, mtu_bytes: int = 0) -> Result:
        ip = origin.ip()
        if ip is None:
            return Outcome.MALFORMED, []
        if not self._may_hear_of(origin, ip):
            return Outcome.NO_ERROR_ALLOWED, []
        source = self._speaker(origin, ip.source)
        if source is None:
            return Outcome.NOT_OURS, []
        if not self._limits.errors.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        return Outcome.SENT_ERROR, [Send(*origin.back(*error_about(ip, source, problem, mtu_bytes)))]

    def _may_hear_of(self, origin: Origin, ip: Ip) -> bool:
        tenant = origin.tenant
        if not may_be_answered(ip) or not is_one_station(origin.link.target) or not is_one_station(origin.link.source):
            return False
        return tenant is None or not (tenant.is_broadcast(ip.source) or tenant.is_broadcast(ip.target))

    def _speaker(self, origin: Origin, to: bytes) -> bytes | None:
        """Return the address from which the gateway tells of an error: that of the side where the packet came in."""
        if origin.tenant is not None:
            return origin.tenant.gateway_towards(to)
        own = origin.port.own
        return own if own is not None and len(own) == len(to) else None

    def _resolve(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        ip, hop = origin.ip(), self._ways.hop(punted.next_hop)
        if ip is None:
            return Outcome.MALFORMED, []
        if hop is None or not ip.complete:
            return Outcome.STALE, []
        return Outcome.SOUGHT, self._leave(origin, hop, ip.packet, ip, now_ns)
