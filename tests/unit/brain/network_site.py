"""A controller's virtual networks without a network: events go in, and their effects are kept."""

from dataclasses import replace
from ipaddress import IPv4Address, ip_network
from typing import Any

from heddle.controller.brain.begin import begin
from heddle.controller.brain.decide import decide
from heddle.controller.brain.settings import Settings
from heddle.controller.model.effect import Effect, Note, Reply
from heddle.controller.model.network_event import ApplyVpc, GatewayAcked, GatewayUp
from heddle.dataplane.config.balancers import BackEnd, LoadBalancer, Mode
from heddle.dataplane.config.desired import Kind
from heddle.dataplane.config.network import Endpoint, Subnet, Vpc
from tests.unit.brain.driver import small_fabric

NOW = 1_000_000
NAT = IPv4Address("198.51.100.9")


def vtep(number: int) -> IPv4Address:
    return IPv4Address(f"192.0.2.{number}")


def vpc(name: str, vni: int, *hosts: int, **more) -> Vpc:
    """A VPC 10.VNI.0.0/16 with an endpoint .0.HOST at each host's VTEP."""
    endpoints = tuple(
        Endpoint(ip=IPv4Address(f"10.{vni}.0.{host}"), mac=0x020000000000 + host, vtep=vtep(host)) for host in hosts
    )
    subnet = Subnet(prefix=ip_network(f"10.{vni}.0.0/16"), gateway=IPv4Address(f"10.{vni}.0.254"))
    return Vpc(id=name, vni=vni, subnets=(subnet,), endpoints=endpoints, **more)


def load_balancer(name: str, of: Vpc, mode: Mode = Mode.DIRECT_RETURN, port: int = 80) -> LoadBalancer:
    ends = tuple(BackEnd(ip=each.ip, port=port) for each in of.endpoints)
    vip = IPv4Address(f"10.{of.vni}.1.1")
    return LoadBalancer(id=name, vpc=of.id, vip=vip, port=port, mode=mode, back_ends=ends)


class Site:
    """A controller's virtual networks: events go in, and their effects are kept."""

    def __init__(self, **settings):
        self.state, self.now, self.callers = begin(small_fabric(), Settings(**settings)), NOW, 0
        self.effects: tuple[Effect, ...] = ()
        self.replies: dict[int, Any] = {}

    @property
    def networks(self):
        return self.state.networks

    def feed(self, event):
        self.state, self.effects = decide(self.state, event, self.now)
        self.replies |= {effect.reply: effect.outcome for effect in self.effects if isinstance(effect, Reply)}

    def call(self, event, /, **fields):
        """Feed a request; return its caller's number, by which `replies` has the outcome once there is one."""
        self.callers += 1
        self.feed(event(reply=self.callers, **fields))
        return self.callers

    def outcome(self, event, /, **fields):
        return self.replies[self.call(event, **fields)]

    def attach(self, name, number, kind=Kind.GATEWAY, **more):
        return self.outcome(GatewayUp, session=number, gateway_id=name, vtep=vtep(number), kind=kind, **more)

    def ack(self, name, session, generation=None, **more):
        newest = self.networks.generation if generation is None else generation
        self.feed(GatewayAcked(session=session, gateway_id=name, generation=newest, **more))

    def apply(self, wanted, **more):
        return self.call(ApplyVpc, vpc=wanted, vteps=frozenset(each.vtep for each in wanted.endpoints), **more)

    def notes(self):
        return [(each.severity, each.subject, each.text) for each in self.effects if isinstance(each, Note)]


def acknowledged_site() -> Site:
    """Return two gateways and two hosts, and VPCs `a` at host 11 and `b` at host 12, all acknowledged."""
    found = Site()
    for name, number in (("g1", 1), ("g2", 2)):
        found.attach(name, number)
    for name, number in (("h11", 11), ("h12", 12)):
        found.attach(name, number, Kind.HOST)
    found.apply(vpc("a", 1, 11))
    found.apply(vpc("b", 2, 12))
    for name, number in (("g1", 1), ("g2", 2), ("h11", 11), ("h12", 12)):
        found.ack(name, number)
    assert set(found.replies) == set(range(1, 7))
    return found


def changed_a(**more):
    return replace(vpc("a", 1, 11), nat=NAT, **more)
