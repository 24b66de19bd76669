"""Convert virtual networks between protobuf messages and frozen values.

Decoding refuses malformed addresses, prefixes and unknown names; `check` validates whether the values fit together.
"""

import re
from collections.abc import Iterable
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeVar

from heddle.dataplane.config.limit import LAST_PORT
from heddle.dataplane.config.network import (
    Address,
    BorderRule,
    DirectConnect,
    Direction,
    Endpoint,
    FloatingIp,
    GatewayPort,
    Peering,
    Prefix,
    Protocol,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.dataplane.config.refusal import refuse, shown
from heddle.foundation.address import mac_text
from heddle.foundation.network import Network
from heddle.v1 import heddle_pb2 as pb

Choice = TypeVar("Choice", bound=Enum)
MORE_FOLLOWS = ("heddle-more", "1")
"""Metadata of a VpcService call that announces further calls for the same network."""
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")
_PLACEHOLDER_ADDRESS = IPv4Address(0)
_PLACEHOLDER_PREFIX = ip_network("0.0.0.0/32")
_PROTOCOLS = {protocol.name.lower(): protocol for protocol in Protocol}
_DIRECTIONS = {direction.value: direction for direction in Direction}
_NETWORKS = {realm.value: realm for realm in Network}


class FieldReader:
    """Parses text fields and collects problems; a placeholder replaces an invalid value, so that all are found."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.problems: list[str] = []
        self._known: dict[str, IPv4Address] = {}  # VTEPs come in thousands of equal texts

    def wrong(self, place: str, text: str) -> None:
        """Add a problem of a field."""
        self.problems.append(f"{self._subject}: {place}: {text}")

    def address(self, place: str, text: str) -> Address:
        """Return an address."""
        try:
            found = ip_address(text)
        except ValueError:
            self.wrong(place, f"{shown(text)} is no IP address such as 10.0.0.5 or fd00::5")
            return _PLACEHOLDER_ADDRESS
        if isinstance(found, IPv6Address) and found.scope_id is not None:
            self.wrong(place, f"{shown(text)} has a zone; leave out what follows the %")
        return found

    def address_v4(self, place: str, text: str) -> IPv4Address:
        """Return an IPv4 address."""
        found = self._known.get(text)
        if found is None:
            try:
                found = IPv4Address(text)
            except ValueError:
                self.wrong(place, f"{shown(text)} is no IPv4 address such as 192.0.2.1")
                return _PLACEHOLDER_ADDRESS
            self._known[text] = found
        return found

    def prefix(self, place: str, text: str) -> Prefix:
        """Return a prefix."""
        if "/" in text:
            try:
                return ip_network(text)
            except ValueError:
                pass
            try:
                meant = ip_network(text, strict=False)
            except ValueError:
                pass
            else:
                self.wrong(place, f"{shown(text)} has bits set behind its length; {meant} is the prefix")
                return _PLACEHOLDER_PREFIX
        self.wrong(place, f"{shown(text)} is no prefix such as 10.0.0.0/24 or fd00::/64")
        return _PLACEHOLDER_PREFIX

    def mac(self, place: str, text: str) -> int:
        """Return a MAC address."""
        if _MAC.fullmatch(text):
            return int(text.replace(":", ""), 16)
        self.wrong(place, f"{shown(text)} is no MAC address such as 02:00:00:00:00:01")
        return 0

    def choice(self, place: str, text: str, choices: dict[str, Choice], default: str = "") -> Choice:
        """Return the value of a name; an empty text stands for `default`."""
        found = choices.get(text or default)
        if found is None:
            self.wrong(place, f"{shown(text)} is none of {', '.join(choices)}")
            return next(iter(choices.values()))
        return found

    def ports(self, low: int, high: int) -> tuple[int, int]:
        """Return a range of ports; 0 and 0 stand for all."""
        return (low, high) if low or high else (0, LAST_PORT)


def vpc_from(message: pb.Vpc) -> Vpc:
    """Decode a VPC; raises ConfigError."""
    read = FieldReader(f"vpc {message.id or '?'}")
    vpc = Vpc(
        id=message.id,
        tenant=message.tenant,
        vni=message.vni,
        subnets=tuple(
            Subnet(
                prefix=read.prefix(f"subnets[{i}].cidr", subnet.cidr),
                gateway=read.address(f"subnets[{i}].gateway_ip", subnet.gateway_ip),
            )
            for i, subnet in enumerate(message.subnets)
        ),
        endpoints=tuple(
            Endpoint(
                ip=read.address(f"endpoints[{i}].ip", endpoint.ip),
                mac=read.mac(f"endpoints[{i}].mac", endpoint.mac),
                vtep=read.address_v4(f"endpoints[{i}].vtep_ip", endpoint.vtep_ip),
            )
            for i, endpoint in enumerate(message.endpoints)
        ),
        rules=tuple(_rule_from(read, f"security_rules[{i}]", rule) for i, rule in enumerate(message.security_rules)),
        nat=read.address_v4("nat.public_ip", message.nat.public_ip) if message.HasField("nat") else None,
        direct_connects=tuple(
            DirectConnect(
                vlan=connect.vlan,
                customer=read.prefix(f"direct_connects[{i}].customer_cidr", connect.customer_cidr),
                next_hop=read.address(f"direct_connects[{i}].next_hop_ip", connect.next_hop_ip),
            )
            for i, connect in enumerate(message.direct_connects)
        ),
        floating_ips=tuple(
            FloatingIp(
                public=read.address_v4(f"floating_ips[{i}].public_ip", floating.public_ip),
                endpoint=read.address_v4(f"floating_ips[{i}].endpoint_ip", floating.endpoint_ip),
            )
            for i, floating in enumerate(message.floating_ips)
        ),
        realm=read.choice("network", message.network, _NETWORKS, default=Network.BUSINESS.value),
    )
    refuse(read.problems)
    return vpc


def _rule_from(read: FieldReader, place: str, rule: pb.SecurityRule) -> SecurityRule:
    low, high = read.ports(rule.port_min, rule.port_max)
    return SecurityRule(
        allow=rule.allow,
        direction=read.choice(f"{place}.direction", rule.direction, _DIRECTIONS),
        protocol=read.choice(f"{place}.protocol", rule.protocol, _PROTOCOLS, default="any"),
        remote=read.prefix(f"{place}.remote_cidr", rule.remote_cidr),
        port_min=low,
        port_max=high,
    )


def vpc_to(vpc: Vpc) -> pb.Vpc:
    """Encode a VPC with all defaults filled in."""
    vteps = {endpoint.vtep: str(endpoint.vtep) for endpoint in vpc.endpoints}
    return pb.Vpc(
        id=vpc.id,
        tenant=vpc.tenant,
        vni=vpc.vni,
        subnets=[pb.Subnet(cidr=str(subnet.prefix), gateway_ip=str(subnet.gateway)) for subnet in vpc.subnets],
        endpoints=[
            pb.Endpoint(ip=str(endpoint.ip), mac=mac_text(endpoint.mac), vtep_ip=vteps[endpoint.vtep])
            for endpoint in vpc.endpoints
        ],
        security_rules=[
            pb.SecurityRule(
                allow=rule.allow,
                direction=rule.direction.value,
                protocol=rule.protocol.name.lower(),
                remote_cidr=str(rule.remote),
                port_min=rule.port_min,
                port_max=rule.port_max,
            )
            for rule in vpc.rules
        ],
        nat=pb.NatGateway(public_ip=str(vpc.nat)) if vpc.nat is not None else None,
        direct_connects=[
            pb.DirectConnect(vlan=connect.vlan, customer_cidr=str(connect.customer), next_hop_ip=str(connect.next_hop))
            for connect in vpc.direct_connects
        ],
        floating_ips=[
            pb.FloatingIp(public_ip=str(floating.public), endpoint_ip=str(floating.endpoint))
            for floating in vpc.floating_ips
        ],
        network=vpc.realm.value,
    )


def peering_from(message: pb.Peering) -> Peering:
    """Decode a peering; the two ids are put in order."""
    a, b = sorted((message.vpc_a, message.vpc_b))
    return Peering(a=a, b=b)


def peering_to(peering: Peering) -> pb.Peering:
    """Encode a peering."""
    return pb.Peering(vpc_a=peering.a, vpc_b=peering.b)


def border_from(message: pb.Border) -> tuple[BorderRule, ...]:
    """Decode the border rules; raises ConfigError."""
    read = FieldReader("border")
    found = []
    for i, rule in enumerate(message.rules):
        low, high = read.ports(rule.port_min, rule.port_max)
        found.append(
            BorderRule(
                allow=rule.allow,
                vpc=rule.vpc,
                realm=read.choice(f"rules[{i}].network", rule.network, _NETWORKS),
                remote=read.prefix(f"rules[{i}].remote_cidr", rule.remote_cidr),
                protocol=read.choice(f"rules[{i}].protocol", rule.protocol, _PROTOCOLS, default="any"),
                port_min=low,
                port_max=high,
            )
        )
    refuse(read.problems)
    return tuple(found)


def border_to(rules: Iterable[BorderRule]) -> pb.Border:
    """Encode the border rules."""
    return pb.Border(
        rules=[
            pb.BorderRule(
                allow=rule.allow,
                vpc=rule.vpc,
                network=rule.realm.value,
                remote_cidr=str(rule.remote),
                protocol=rule.protocol.name.lower(),
                port_min=rule.port_min,
                port_max=rule.port_max,
            )
            for rule in rules
        ]
    )


def gateway_port_to(port: GatewayPort) -> pb.GatewayInterface:
    """Encode a gateway's port."""
    address, network, router = ("" if each is None else str(each) for each in (port.address, port.network, port.router))
    return pb.GatewayInterface(name=port.name, ip=address, cidr=network, router_ip=router)


def gateway_ports_from(messages: Iterable[pb.GatewayInterface]) -> tuple[GatewayPort, ...]:
    """Decode a gateway's ports; raises ConfigError."""
    read, found = FieldReader("hello"), []
    for i, each in enumerate(messages):
        network = read.prefix(f"interfaces[{i}].cidr", each.cidr) if each.cidr else None
        if isinstance(network, IPv6Network):
            read.wrong(f"interfaces[{i}].cidr", f"{shown(each.cidr)} is no IPv4 prefix")
            network = None
        found.append(
            GatewayPort(
                name=shown(each.name)[1:-1],
                address=read.address_v4(f"interfaces[{i}].ip", each.ip) if each.ip else None,
                network=network,
                router=read.address_v4(f"interfaces[{i}].router_ip", each.router_ip) if each.router_ip else None,
            )
        )
    refuse(read.problems)
    return tuple(found)
