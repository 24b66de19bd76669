"""A controller's virtual networks and one gateway, as values: each change is served and acknowledged at once.

The brain decides, its updates cross the wire as bytes, and the gateway accepts and compiles what a real one does.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network

from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide
from heddle.controller.brain.networks.publishing import update_for
from heddle.controller.model.effect import Reply
from heddle.controller.model.error import HeddleError
from heddle.controller.model.network_event import GatewayAcked, GatewayDown, GatewayUp
from heddle.dataplane.config.acceptance.accept import accepted
from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.config.check_served import ports_of, reserved_by
from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.local import Interface, LocalConfig, Side
from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.config.replica import Replica
from heddle.dataplane.config.updates import updates
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.verify.installed import installed
from heddle.v1 import heddle_pb2 as pb
from tests.unit.brain.driver import small_fabric

VTEP, WAN, ROUTER = IPv4Address("192.0.2.200"), IPv4Address("203.0.113.2"), IPv4Address("203.0.113.1")
LOCAL = LocalConfig(
    gateway_id="gw",
    interfaces=(
        Interface(name="u0", side=Side.UNDERLAY, mac=0x0200_0000_0001, address=VTEP),
        Interface(
            name="x0", side=Side.EXTERNAL, mac=0x0200_0000_0002, address=WAN,
            network=IPv4Network("203.0.113.0/24"), router=ROUTER,
        ),
        Interface(name="c0", side=Side.CUSTOMER, mac=0x0200_0000_0003),
    ),
)  # fmt: skip
RESERVED = reserved_by({LOCAL.gateway_id: ports_of(LOCAL)})
STEP_MS = 1_000


class AcceptingSite:
    """`served` and `virtual_ips` are what the gateway has in force, `kept` what it reports of VPCs."""

    def __init__(self) -> None:
        self.now, self.sessions, self.callers = 1_000_000, 0, 0
        self.session = 0
        self.replies: dict[int, object] = {}
        self.lose_state()
        self.restart()

    def lose_state(self) -> None:
        """Start the controller again without what it knew; the gateway notices, and is detached."""
        self.state, self.session = begin(small_fabric(leaves=2)), 0

    def restart(self) -> None:
        """Start the gateway again: nothing is in force, and it is detached."""
        self.detach()
        self.served = NetworkConfig()
        self.virtual_ips: tuple[VirtualIp, ...] = ()
        self.kept: Mapping[str, str] = {}
        self.unknown = frozenset[str]()
        self.in_force: Desired | None = None

    def detach(self) -> None:
        if self.session:
            self._feed(GatewayDown(session=self.session, gateway_id="gw"))
        self.session = 0

    def attach(self) -> None:
        self.detach()
        self.sessions += 1
        self.session, self.replica = self.sessions, Replica(self.in_force)
        self.sent: Desired | None = None
        generation = self.in_force.network.generation if self.in_force else 0
        self._call(
            lambda reply: GatewayUp(
                reply=reply, session=self.session, gateway_id="gw", vtep=VTEP, generation=generation,
                ports=ports_of(LOCAL),
            )
        )  # fmt: skip

    def call(self, make) -> str:
        """Feed the request that `make` returns for its caller's number; return "done", or the error."""
        found = self._call(make)
        return f"{type(found).__name__}: {found}" if isinstance(found, HeddleError) else "done"

    def _call(self, make) -> object:
        self.callers += 1
        caller = self.callers
        self._feed(make(caller))
        self._serve()
        return self.replies[caller]

    def _feed(self, event) -> None:
        self.now += STEP_MS
        self.state, effects = decide(self.state, event, self.now)
        self.replies |= {effect.reply: effect.outcome for effect in effects if isinstance(effect, Reply)}

    def _serve(self) -> None:
        """Send, accept and acknowledge until nothing is left to send."""
        while self.session and (news := update_for(self.state.networks, "gw", self.sent)) is not None:
            desired = None
            for message in updates(self.sent, news):
                desired = self.replica.apply(pb.NetworkUpdate.FromString(message.SerializeToString()))
            assert desired is not None
            self.sent = news
            found = accepted(desired, self.served, self.virtual_ips, RESERVED)
            self.served, self.virtual_ips, self.kept = found.network, found.virtual_ips, found.kept
            self.in_force, self.unknown = desired, desired.unknown
            generation = desired.network.generation
            self._feed(
                GatewayAcked(
                    session=self.session, gateway_id="gw", generation=generation, kept=self.kept, unknown=self.unknown
                )
            )

    def tables(self):
        """Return the gateway's tables; raises ValueError where what it serves cannot be compiled."""
        return compile_tables(LOCAL, self.served, neighbours={}, generation=1, virtual_ips=self.virtual_ips)

    def view(self):
        """Return what the gateway's tables open, by VNI, in a form in which equal reachability is equal."""
        found = installed(self.tables())
        return {
            vni: (
                vpc.realm, vpc.deliveries, vpc.homes, vpc.replying, vpc.speakers, vpc.inward, vpc.outward,
                dict(vpc.border), vpc.nat, vpc.floating,
                {span: (route.kind, route.number) for span, route in vpc.routes.items()},
                {public: to for public, to in found.floating_in.items() if to[0] == vni},
                {vlan: to for vlan, to in found.customers.items() if to[0] == vni},
            )
            for vni, vpc in found.vpcs.items()
        }  # fmt: skip
