"""Two tenants whose VPCs, peerings, direct connects and floating IPs come and go under numbers that they share.

Each tenant also has a gateway of its own, which is sent its networks and packets alone. What is true of all three:

- a connection whose VPC, and all else that it needs, has not changed hands is treated by the shared gateway as by that
  of its tenant alone: the same verdict, packet and next hop;
- a segment that is sent in a connection of something that is gone reaches no VPC;
- of what is gone, the shared gateway keeps nothing.

The model knows what something is by when it was made: it shares no code with the incarnations of the tables.
"""

from dataclasses import dataclass, field

from heddle.dataplane.tables.schema import TUNNEL
from tests.fakes.gateway.changing_networks import OPEN, ChangingGateway, Wanted, vpc
from tests.fakes.gateway.gateway_tables import CUSTOMER_PORT, EXTERNAL_PORT
from tests.fakes.gateway.state_bench import Passed
from tests.oracles.inet_checksum import read, tcp, udp

TENANTS = ("a", "b")
SLOTS = (0, 1)
VNIS = (11, 12, 13)
PUBLIC = ("203.0.113.20", "203.0.113.21")
VLANS = (7, 8)
NAT = {"a": "203.0.113.10", "b": "203.0.113.11"}
FAR, CUSTOMER = "198.51.100.9", "10.99.0.3"
KINDS = ("out", "out by udp", "in", "to customer", "from customer", "to peer")
MAX_SESSIONS = 40


@dataclass
class Slot:
    """A VPC of a tenant, while it is there: since when it and its parts are."""

    name: str
    tenant: str
    third: int
    vni: int
    made: int
    nat: int = 1
    """Since when it has a NAT address, 0 while it has none."""
    floating: dict = field(default_factory=dict)
    """Public address -> (last byte of the endpoint, since when)."""
    vlans: dict = field(default_factory=dict)
    """VLAN -> since when."""
    peered: int = 0
    """Since when the tenant's two VPCs are peered, 0 while they are not."""

    def vpc(self):
        ends = tuple((public, f"10.0.{self.third}.{last}") for public, (last, _) in sorted(self.floating.items()))
        nat = NAT[self.tenant] if self.nat else ""
        return vpc(self.name, self.vni, third=self.third, nat=nat, floating=ends, vlans=sorted(self.vlans),
                   tenant=self.tenant)  # fmt: skip

    def end(self, last):
        return f"10.0.{self.third}.{last}"


@dataclass
class Session:
    """A connection as its two ends know it: packets of each, with VNI and input port; and what it belongs to."""

    tenant: str
    needs: tuple
    """What must be there: pairs of a kind of thing with its name, and since when it is."""
    segments: list


class TenantsInTurns:
    """The three gateways and the model. Methods that change or send do nothing where that is not possible now."""

    def __init__(self, *, started_s=1000):
        self.step = 0
        self.slots = {}
        self.sessions = []
        self.opened = self.poked = self.refused = 0
        self.wanted = {who: Wanted() for who in ("all", *TENANTS)}
        self.gateways = {
            who: ChangingGateway(wanted.network, started_s=started_s) for who, wanted in self.wanted.items()
        }
        self.lagging = None

    # Changes of one tenant

    def make(self, tenant, number, vni):
        name = f"{tenant}{number}"
        if name not in self.slots and vni not in {slot.vni for slot in self.slots.values()}:
            self.step += 1
            self.slots[name] = Slot(name=name, tenant=tenant, third=number, vni=vni, made=self.step)
            self._changed(tenant, (name,))

    def remove(self, tenant, number):
        slot = self.slots.pop(f"{tenant}{number}", None)
        if slot is not None:
            for other in self._of(tenant):
                other.peered = 0
            self._changed(tenant, (), remove=(slot.name,))

    def bind(self, tenant, number, public, last):
        """Bind a floating IP that is free, or release it where the VPC has it."""
        slot = self.slots.get(f"{tenant}{number}")
        holder = next((each for each in self.slots.values() if public in each.floating), None)
        if slot is None or holder not in (None, slot):
            return
        self.step += 1
        if holder is not None:
            del slot.floating[public]
        elif last not in {end for end, _ in slot.floating.values()}:
            slot.floating[public] = (last, self.step)
        self._changed(tenant, (slot.name,))

    def connect(self, tenant, number, vlan):
        """Connect a VLAN that is free, or disconnect it."""
        slot = self.slots.get(f"{tenant}{number}")
        holder = next((each for each in self.slots.values() if vlan in each.vlans), None)
        if slot is None or holder not in (None, slot):
            return
        self.step += 1
        if holder is not None:
            del slot.vlans[vlan]
        elif not slot.vlans:
            slot.vlans[vlan] = self.step
        self._changed(tenant, (slot.name,))

    def peer(self, tenant):
        """Peer the tenant's two VPCs, or end that."""
        both = self._of(tenant)
        if len(both) == 2:
            self.step += 1
            since = 0 if both[0].peered else self.step
            for slot in both:
                slot.peered = since
            self._changed(tenant, ())

    def translate(self, tenant, number):
        """Give a VPC a NAT address, or take it."""
        slot = self.slots.get(f"{tenant}{number}")
        if slot is not None:
            self.step += 1
            slot.nat = 0 if slot.nat else self.step
            self._changed(tenant, (slot.name,))

    def _of(self, tenant):
        return [slot for _, slot in sorted(self.slots.items()) if slot.tenant == tenant]

    def _changed(self, tenant, names, remove=()):
        for who in ("all", tenant):
            pairs = {
                (f"{each}0", f"{each}1")
                for each in TENANTS
                if who in ("all", each) and all(slot.peered for slot in self._of(each)) and self._of(each)
            }
            network = self.wanted[who].put(*(self.slots[name].vpc() for name in names), remove=remove, peerings=pairs)
            if self.lagging != who:
                self.gateways[who].take(network)
        if self.lagging is None:
            self.check_kept()

    def away(self):
        """Let the shared gateway miss all changes until `back`."""
        self.lagging = "all"

    def back(self):
        """Send the shared gateway what it has missed; what is gone gets packets before the gateway has swept it."""
        if self.lagging is not None:
            self.lagging = None
            self.gateways["all"].take(self.wanted["all"].network, sweeps=False)
            for session in [each for each in self.sessions if not self.stands(each)]:
                self._gone(session)
            self.gateways["all"].age()
            self.check_kept()

    # Packets

    def open(self, tenant, number, kind, last, port):
        """Open a connection of a kind; its later segments are tried by `poke`."""
        slot = self.slots.get(f"{tenant}{number}")
        if slot is None or self.lagging is not None:
            return
        made = getattr(self, f"_open_{kind.replace(' ', '_')}")(slot, slot.end(last), port)
        if made:
            needs, first, segments = made
            self.opened += 1
            own = ("vpc", slot.name, slot.made)
            session = Session(tenant, (own, *needs), segments)
            self._same(session, first)
            self.sessions = [each for each in self.sessions if not any(one in segments for one in each.segments)]
            self.sessions = [*self.sessions[1 - MAX_SESSIONS :], session]

    def _open_out(self, slot, end, port):
        request, later = tcp(end, port, FAR, 443), tcp(end, port, FAR, 443, "PA", b"old")
        return self._outward(slot, request, later, lambda to, number: tcp(FAR, 443, to, number, "PA", b"old"))

    def _open_out_by_udp(self, slot, end, port):
        request, later = udp(end, port, FAR, 53), udp(end, port, FAR, 53, b"old")
        return self._outward(slot, request, later, lambda to, number: udp(FAR, 53, to, number, b"old"))

    def _outward(self, slot, request, later, reply):
        fate = self.gateways["all"].one(request, slot.vni)
        if not isinstance(fate, Passed):
            assert self.gateways[slot.tenant].one(request, slot.vni) == fate
            return None
        public, number, *_ = read(fate.packet)
        needs = [("floating", public, since) for each, (_, since) in slot.floating.items() if each == public]
        needs = needs or [("nat", slot.name, slot.nat)]
        return needs, (request, slot.vni, 0), [(reply(public, number), 0, EXTERNAL_PORT), (later, slot.vni, 0)]

    def _open_in(self, slot, end, port):
        bound = [(public, since) for public, (last, since) in slot.floating.items() if slot.end(last) == end]
        if not bound:
            return None
        public, since = bound[0]
        return (
            [("floating", public, since)],
            (tcp(FAR, port, public, OPEN), 0, EXTERNAL_PORT),
            [
                (tcp(FAR, port, public, OPEN, "PA", b"old"), 0, EXTERNAL_PORT),
                (tcp(end, OPEN, FAR, port, "PA", b"old"), slot.vni, 0),
            ],
        )

    def _open_to_customer(self, slot, end, port):
        needs = [("vlan", vlan, since) for vlan, since in slot.vlans.items()]
        request, later = tcp(end, port, CUSTOMER, 443), tcp(end, port, CUSTOMER, 443, "PA", b"old")
        back = tcp(CUSTOMER, 443, end, port, "PA", b"old")
        return needs and (needs, (request, slot.vni, 0), [(back, slot.vni, CUSTOMER_PORT), (later, slot.vni, 0)])

    def _open_from_customer(self, slot, end, port):
        needs = [("vlan", vlan, since) for vlan, since in slot.vlans.items()]
        request = tcp(CUSTOMER, port, end, OPEN)
        segments = [
            (tcp(CUSTOMER, port, end, OPEN, "PA", b"old"), slot.vni, CUSTOMER_PORT),
            (tcp(end, OPEN, CUSTOMER, port, "PA", b"old"), slot.vni, 0),
        ]
        return needs and (needs, (request, slot.vni, CUSTOMER_PORT), segments)

    def _open_to_peer(self, slot, end, port):
        if not slot.peered:
            return None
        other = next(each for each in self._of(slot.tenant) if each is not slot)
        far = other.end(10)
        needs = [("vpc", other.name, other.made), ("peering", slot.tenant, slot.peered)]
        segments = [
            (tcp(end, port, far, OPEN, "PA", b"old"), slot.vni, 0),
            (tcp(far, OPEN, end, port, "PA", b"old"), other.vni, 0),
        ]
        return needs, (tcp(end, port, far, OPEN), slot.vni, 0), segments

    def poke(self, number, side):
        """Send a segment in a connection that was opened before, whatever is left of it."""
        if not self.sessions or self.lagging is not None:
            return
        self.poked += 1
        session = self.sessions[number % len(self.sessions)]
        segment = session.segments[side]
        if self.stands(session):
            self._same(session, segment)
        else:
            self._gone(session)

    def _gone(self, session):
        """Send what the far end still sends in a connection of something that is gone."""
        self.refused += 1
        segment, gateway = session.segments[0], self.gateways["all"]
        is_there = self._is_there(session, session.needs[0])
        if not segment[2] and not is_there:
            return  # the far end is an endpoint of the VPC that is gone
        if session.needs[-1][0] == "nat" and is_there:  # a VPC without NAT for a while: it may go on
            self.sessions = [each for each in self.sessions if each is not session]
            return
        fate = gateway.one(*segment)
        if isinstance(fate, Passed):
            hop = gateway.tables.next_hops[fate.hop]
            assert hop["kind"] != TUNNEL, (session, segment, fate)
        self.gateways[session.tenant].one(*segment)

    def stands(self, session):
        """Return whether all that a connection needs is there since before it was opened."""
        return all(self._is_there(session, need) for need in session.needs)

    def _is_there(self, session, need):
        kind, name, since = need
        return self._since(kind, name, session.tenant) == since

    def _since(self, kind, name, tenant):
        if kind == "vpc":
            return self.slots[name].made if name in self.slots else None
        mine = self._of(tenant)
        if kind == "nat":
            return self.slots[name].nat if name in self.slots else None
        if kind == "peering":
            return mine[0].peered if mine else None
        parts = [slot.floating if kind == "floating" else slot.vlans for slot in mine]
        found = [each[name] for each in parts if name in each]
        return (found[0][1] if kind == "floating" else found[0]) if found else None

    def _same(self, session, segment):
        fates = [self._seen(self.gateways[who], segment) for who in ("all", session.tenant)]
        assert fates[0] == fates[1], (session, segment, fates)

    @staticmethod
    def _seen(gateway, segment):
        """Return what a tenant can observe of a packet's fate: no numbers of rows."""
        fate = gateway.one(*segment)
        if not isinstance(fate, Passed):
            return fate
        hop = gateway.tables.next_hops[fate.hop]
        return fate.packet, *(int(hop[name]) for name in ("kind", "port", "target_mac", "vni", "vlan", "address"))

    # What stays

    def check_kept(self):
        """Check that every connection of the shared gateway belongs to VPCs that are there, in both directions."""
        gateway = self.gateways["all"]
        rows = gateway.state.connections
        rows = rows[rows["key"] != 0]
        vnis = {slot.vni for slot in self.slots.values()} | {0}
        assert set((rows["key"] & 0xFFFFFF).tolist()) | set(rows["out_vni"].tolist()) <= vnis
        mappings = gateway.state.mappings
        assert set((mappings["key"][mappings["key"] != 0] & 0xFFFFFF).tolist()) <= vnis
