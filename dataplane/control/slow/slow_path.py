"""Handle a punted packet: reply, send an ICMP error, fragment it, or resolve its next hop.

A reply takes the reverse path of the request: to the source MAC of the frame and, for a tenant, through the tunnel to
the VTEP from which it came. Replies, ICMP errors and fragmentation are rate-limited per VPC, so that no VPC starves the
others. Every packet is counted under one `Outcome`; no packet raises an exception.
"""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from heddle.dataplane.config.local import Side
from heddle.dataplane.config.network import Address
from heddle.dataplane.control.slow import arp, discovery
from heddle.dataplane.control.slow.directory import Directory, Duty, Station, neighbour_key
from heddle.dataplane.control.slow.errors import Problem, echo_reply, error_about, may_be_answered
from heddle.dataplane.control.slow.fragment import fragments
from heddle.dataplane.control.slow.frames import BROADCAST
from heddle.dataplane.control.slow.neighbours import Neighbours, Place
from heddle.dataplane.control.slow.next_hops import Hop, NextHops, Parked, Waiting, frame_out
from heddle.dataplane.control.slow.origin import Origin, read_origin
from heddle.dataplane.control.slow.reassembly import Reassembly, cut, identification
from heddle.dataplane.control.slow.reset import reset_by, reset_of
from heddle.dataplane.control.slow.tokens import Buckets
from heddle.dataplane.control.slow.view import Ip, is_one_station
from heddle.dataplane.engine.reasons import Punt
from heddle.dataplane.engine.rings import Punted
from heddle.dataplane.packet.ethernet import ARP
from heddle.dataplane.packet.transport import ICMP, ICMPV6, UDP

_LINK_LOCAL: Final = bytes.fromhex("fe80000000000000")


class Send(NamedTuple):
    """Transmit a frame by a port."""

    port: int
    frame: bytes


class Outcome(StrEnum):
    """Outcome of a punted packet."""

    ANSWERED_ARP = "answered_arp"
    ANSWERED_NEIGHBOUR = "answered_neighbour"
    ANSWERED_PING = "answered_ping"
    GATHERED = "gathered"  # a fragment of a ping of which others are missing
    SENT_ERROR = "sent_error"
    SENT_RESET = "sent_reset"
    FRAGMENTED = "fragmented"
    SOUGHT = "sought"  # waits for the next hop's MAC, or was sent because it is resolved meanwhile
    LEARNED = "learned"  # a reply that resolved a neighbour
    NOT_ASKED = "not_asked"  # an unsolicited reply
    NOT_OURS = "not_ours"  # a request for an address for which the gateway does not answer
    SPOOFED = "spoofed"  # source MAC, VTEP and address are of no endpoint
    NO_ERROR_ALLOWED = "no_error_allowed"  # ICMP forbids an error about this packet
    ROUTER_SOUGHT = "router_sought"  # a router solicitation: endpoints are configured, no router is advertised
    MALFORMED = "malformed"
    RATE_LIMITED = "rate_limited"
    AWAITS_COPY = "awaits_copy"  # of a connection that the partner may have opened
    STALE = "stale"  # of a configuration or duty that is no longer in force
    UNHANDLED = "unhandled"


Result = tuple[Outcome, list[Send]]


class Allowance(NamedTuple):
    """Rate limits per VPC, or per port outside of VPCs."""

    replies: Buckets
    errors: Buckets
    fragmentations: Buckets


def allowance() -> Allowance:
    """Return the default rate limits: RFC 4443 (2.4, f) requires one for errors; the numbers are close to Linux's."""
    return Allowance(
        Buckets(per_second=1000, burst=1000), Buckets(per_second=1000, burst=50), Buckets(per_second=2000, burst=200)
    )


class SlowPath:
    """The slow path of one gateway, with its neighbour cache and rate limits."""

    def __init__(self, directory: Directory, next_hops: NextHops, limits: Allowance | None = None) -> None:
        self.neighbours = Neighbours()
        self.waiting = Waiting()
        self.pings = Reassembly()
        self.outcomes: Counter[Outcome] = Counter()
        self.awaits_copy: Callable[[], bool] = lambda: False
        """Whether the partner may have connections that are yet to be copied: none that is unknown is reset then."""
        self._limits = limits or allowance()
        self._directory, self._next_hops = directory, next_hops
        self._by_reason: dict[Punt, Callable[[Punted, Origin, int], Result]] = {
            Punt.ARP: self._arp,
            Punt.NEIGHBOUR: self._neighbour,
            Punt.FOR_GATEWAY: self._for_gateway,
            Punt.TTL_EXPIRED: self._expired,
            Punt.TOO_BIG: self._too_big,
            Punt.UNREACHABLE: self._unreachable,
            Punt.RESOLVE: self._resolve,
            Punt.NO_STATE: self._no_state,
            Punt.NO_ROOM: self._no_room,
        }

    def configure(self, directory: Directory, next_hops: NextHops, now_ns: int) -> None:
        """Switch to another generation; its unresolved next hops are requested at the next `tick`."""
        self._directory, self._next_hops = directory, next_hops
        self.neighbours.need(next_hops.needed(), now_ns)
        self.waiting.clear()

    def set_duty(self, duty: Duty) -> None:
        """Change the addresses for which the gateway answers; packets that wait may be from those that it gives up."""
        self._directory = self._directory.on_duty(duty)
        self.waiting.clear()

    def handle(self, punted: Punted, now_ns: int) -> list[Send]:
        """Handle a punted packet; return the frames to send."""
        origin = read_origin(punted, self._directory)
        handler = self._by_reason.get(punted.reason)
        if origin is None:
            outcome, effects = Outcome.MALFORMED, list[Send]()
        elif handler is None:
            outcome, effects = Outcome.UNHANDLED, []
        elif origin.tunnel and not self._directory.holds(origin.number, origin.tunnel.ip.target):
            outcome, effects = Outcome.STALE, []  # its sender would learn that the partner's VTEP is here
        else:
            outcome, effects = handler(punted, origin, now_ns)
        self.outcomes[outcome] += 1
        return effects

    def tick(self, now_ns: int) -> list[Send]:
        """Return the requests to neighbours that are due."""
        effects: list[Send] = []
        for place, mac in self.neighbours.tick(now_ns):
            port = self._directory.port(place.port)
            if port is None:
                continue
            own = self._directory.source_for(place)
            if len(place.address) == 4:
                frame = arp.request(port.mac, own or arp.UNSPECIFIED, place.address, place.vlan, mac or BROADCAST)
            else:
                frame = discovery.request(port.mac, discovery.link_local(port.mac), place.address, place.vlan, mac)
            effects.append(Send(place.port, frame))
        return effects

    def announcements(self) -> list[Send]:
        """Return the announcements of all addresses for which the gateway answers, to be sent after a takeover."""
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
        """Return the MACs of resolved neighbours, keyed as the table compiler expects."""
        known = self.neighbours.resolved()
        return {neighbour_key(place): int.from_bytes(mac, "big") for place, mac in known.items()}

    def _arp(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        message = arp.read_arp(origin.link.payload) if origin.link.kind == ARP else None
        if message is None or message.sender_mac != origin.link.source or not is_one_station(message.sender_mac):
            return Outcome.MALFORMED, []
        if message.operation == arp.REPLY:
            return self._reply_received(origin, message.sender, message.sender_mac, now_ns)
        sender = None if message.sender == arp.UNSPECIFIED else message.sender
        if message.sender == message.target:
            self._hinted(origin, message.sender, message.sender_mac, now_ns)
            return Outcome.NOT_ASKED, []
        found = self._resolve_request(origin, message.target, sender, now_ns)
        if isinstance(found, Outcome):
            return found, []
        return Outcome.ANSWERED_ARP, [Send(*origin.through(arp.reply(message, found, origin.link.vlan)))]

    def _neighbour(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        ip = origin.ip()
        message = discovery.read_neighbour(ip) if ip else None
        if message is None or not is_one_station(origin.link.source):
            return Outcome.ROUTER_SOUGHT if ip and discovery.is_router_solicitation(ip) else Outcome.MALFORMED, []
        if message.kind == discovery.ADVERTISEMENT:
            return self._reply_received(origin, message.target, message.mac or origin.link.source, now_ns)
        sender = None if message.source == discovery.UNSPECIFIED else message.source
        found = self._resolve_request(origin, message.target, sender, now_ns)
        if isinstance(found, Outcome):
            return found, []
        router = origin.tenant is not None and message.target in origin.tenant.gateways
        reply = discovery.reply(message, origin.link.source, found, router, origin.link.vlan)
        return Outcome.ANSWERED_NEIGHBOUR, [Send(*origin.through(reply))]

    def _reply_received(self, origin: Origin, address: bytes, mac: bytes, now_ns: int) -> Result:
        """Process an ARP reply or advertisement; those from tenants are never accepted."""
        place = Place(origin.number, origin.link.vlan, address)
        if origin.tunnel or not self.neighbours.heard(place, mac, now_ns):
            self._hinted(origin, address, mac, now_ns)
            return Outcome.NOT_ASKED, []
        parked = self.waiting.release(place)
        return Outcome.LEARNED, [Send(hop.port, frame_out(hop, mac, link, packet)) for hop, link, packet in parked]

    def _hinted(self, origin: Origin, address: bytes, mac: bytes, now_ns: int) -> None:
        if not origin.tunnel:
            self.neighbours.hinted(Place(origin.number, origin.link.vlan, address), mac, now_ns)

    def _resolve_request(self, origin: Origin, target: bytes, sender: bytes | None, now_ns: int) -> bytes | Outcome:
        """Return the MAC for the reply, or why there is none; `sender` is None if it has no address yet."""
        if sender is not None:
            self._hinted(origin, sender, origin.link.source, now_ns)
        mac = self._mac_in_tunnel(origin, target, sender) if origin.tunnel else self._mac_on_port(origin, target)
        if isinstance(mac, bytes) and not self._limits.replies.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED
        return mac

    def _mac_on_port(self, origin: Origin, target: bytes) -> bytes | Outcome:
        if origin.port.side is Side.CUSTOMER:
            # To the customer's router the VPC is on-link: the port answers for all of its addresses (proxy ARP).
            tenant = origin.tenant if self._directory.duty.public else None
            known = tenant is not None and (target in tenant.gateways or target in tenant.endpoints)
        else:
            known = self._directory.holds(origin.number, target)
        return origin.port.mac if known else Outcome.NOT_OURS

    def _mac_in_tunnel(self, origin: Origin, target: bytes, sender: bytes | None) -> bytes | Outcome:
        tenant, tunnel = origin.tenant, origin.tunnel
        if tenant is None or tunnel is None or not self._directory.duty.serves:
            return Outcome.STALE
        station = Station(origin.link.source, tunnel.ip.source)
        if sender is None or sender[:8] == _LINK_LOCAL:
            # The directory does not have such an address: MAC and VTEP must be those of an endpoint.
            genuine = station in tenant.stations
        else:
            genuine = tenant.endpoints.get(sender) == station
        if not genuine:
            return Outcome.SPOOFED
        if target in tenant.gateways:
            return tenant.mac
        found = tenant.endpoints.get(target)
        # A station that requests its own address probes for duplicates (RFC 5227, 2.1; RFC 4862, 5.4): no reply.
        return found.mac if found and found != station else Outcome.NOT_OURS

    def _for_gateway(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        ip = origin.ip()
        if ip is None:
            return Outcome.MALFORMED, []
        if not self._is_own(origin, ip.target):
            return Outcome.NOT_OURS, []
        if ip.is_fragment and ip.protocol in (ICMP, ICMPV6):
            return self._fragment_of_ping(origin, ip, now_ns)
        if ip.protocol == UDP:
            return self._error(origin, Problem.PORT, now_ns)
        reply, outcome = echo_reply(ip), Outcome.ANSWERED_PING
        if reply is None:
            reply, outcome = reset_by(ip), Outcome.SENT_RESET
        if reply is None or not is_one_station(origin.link.source) or not is_one_station(origin.link.target):
            return Outcome.UNHANDLED, []
        if not self._limits.replies.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        return outcome, [Send(*origin.back(*reply))]

    def _fragment_of_ping(self, origin: Origin, ip: Ip, now_ns: int) -> Result:
        found, number = self.pings.add(origin.account, ip, now_ns), identification(ip)
        if isinstance(found, bool) or number is None:
            return Outcome.GATHERED if found else Outcome.UNHANDLED, []
        request, offsets = found
        reply = echo_reply(request)
        if reply is None or not is_one_station(origin.link.source) or not is_one_station(origin.link.target):
            return Outcome.UNHANDLED, []
        if not self._limits.replies.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        parts = cut(*reply, number, offsets)
        return Outcome.ANSWERED_PING, [Send(*origin.back(reply[0], each)) for each in parts]

    def _is_own(self, origin: Origin, address: bytes) -> bool:
        if origin.tunnel or origin.port.side is Side.CUSTOMER:
            # Also a peer's gateway: routes and rules have decided already whether it may be reached.
            return any(each and address in each.gateways for each in (origin.tenant, origin.routed_to))
        return self._directory.answers_ping(origin.number, address)

    def _expired(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        return self._error(origin, Problem.EXPIRED, now_ns)

    def _unreachable(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        # A next hop is set if the address is in a subnet but of no endpoint.
        return self._error(origin, Problem.NO_ROUTE if punted.next_hop < 0 else Problem.HOST, now_ns)

    def _no_room(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        """Report to the sender that its connection finds no room (RFC 5508, REQ-8)."""
        return self._error(origin, Problem.PROHIBITED, now_ns)

    def _too_big(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        hop = self._next_hops.hop(punted.next_hop)
        if hop is None:
            return Outcome.STALE, []
        ip = origin.ip()
        if ip is None or ip.dont_fragment:
            return self._error(origin, Problem.TOO_BIG, now_ns, hop.mtu_bytes)
        if not self._limits.fragmentations.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        parts = fragments(ip, hop.mtu_bytes)
        if not parts:
            return Outcome.STALE, []
        return Outcome.FRAGMENTED, [send for part in parts for send in self._leave(origin, hop, part, ip, now_ns)]

    def _leave(self, origin: Origin, hop: Hop, packet: bytes, ip: Ip, now_ns: int) -> list[Send]:
        """Send a packet by a next hop; if its MAC is unknown, request it and queue the packet."""
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
        if not self._error_allowed(origin, ip):
            return Outcome.NO_ERROR_ALLOWED, []
        source = ip.target if problem is Problem.PORT else self._error_source(origin, ip.source)
        if source is None:
            return Outcome.NOT_OURS, []
        if not self._limits.errors.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        return Outcome.SENT_ERROR, [Send(*origin.back(*error_about(ip, source, problem, mtu_bytes)))]

    def _error_allowed(self, origin: Origin, ip: Ip) -> bool:
        tenant = origin.tenant
        if not may_be_answered(ip) or not is_one_station(origin.link.target) or not is_one_station(origin.link.source):
            return False
        return tenant is None or not (tenant.is_broadcast(ip.source) or tenant.is_broadcast(ip.target))

    def _error_source(self, origin: Origin, to: bytes) -> bytes | None:
        """Return the source address of an ICMP error: the gateway's on the side where the packet came in."""
        if origin.tenant is not None:
            return origin.tenant.gateway_towards(to)
        own = origin.port.own
        return own if own is not None and len(own) == len(to) else None

    def _no_state(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        """Reset a TCP connection whose NAT mapping is lost."""
        ip = origin.ip()
        reset = reset_of(ip) if ip else None
        if reset is None or not is_one_station(origin.link.source) or not is_one_station(origin.link.target):
            return Outcome.MALFORMED, []
        if self.awaits_copy():
            return Outcome.AWAITS_COPY, []
        if not self._limits.replies.take(origin.account, now_ns):
            return Outcome.RATE_LIMITED, []
        return Outcome.SENT_RESET, [Send(*origin.back(*reset))]

    def _resolve(self, punted: Punted, origin: Origin, now_ns: int) -> Result:
        ip, hop = origin.ip(), self._next_hops.hop(punted.next_hop)
        if ip is None:
            return Outcome.MALFORMED, []
        if hop is None or not ip.complete:
            return Outcome.STALE, []
        return Outcome.SOUGHT, self._leave(origin, hop, ip.packet, ip, now_ns)
