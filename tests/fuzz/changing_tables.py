"""Generations of a gateway's tables in which the configuration, the rules and the resolved neighbours all change."""

from dataclasses import replace
from ipaddress import IPv4Address
from ipaddress import IPv4Network as Net4
from typing import Any, NamedTuple

from heddle.dataplane.config.local import PortShare
from heddle.dataplane.config.network import Direction, NetworkConfig, Protocol, SecurityRule
from heddle.dataplane.tables.compiler.compile import compile_tables, link_of
from heddle.dataplane.tables.schema import Tables
from tests.fakes.gateway.gateway_site import EXTERNAL, HOST_C, ROUTER, UNDERLAY
from tests.fakes.gateway.two_tenants import LOCAL, NEIGHBOURS, NETWORK


class Generation(NamedTuple):
    network: NetworkConfig
    tables: Tables


def _narrow(number, interface):
    """Return an interface with a small MTU, so that packets exceed it."""
    return replace(interface, mtu_bytes=700 + 100 * number)


def _sharing(local, vpc_percent):
    """Return a gateway with a limit on each VPC's use of the tables that traffic fills."""
    return replace(local, limits=replace(local.limits, vpc_percent=vpc_percent))


def _few_ports(local):
    """Return a gateway with ports and connections that run out for an endpoint."""
    limits = replace(local.limits, vpc_percent=100, endpoint_ports_percent=1, connections_per_endpoint=4)
    return replace(local, nat_ports=PortShare(first=1024, last=1087), limits=limits)


NARROW = replace(LOCAL, interfaces=tuple(_narrow(n, one) for n, one in enumerate(LOCAL.interfaces)))
UNRESOLVED = {
    where: mac
    for where, mac in NEIGHBOURS.items()
    if where not in ((link_of(UNDERLAY), HOST_C), (link_of(EXTERNAL), ROUTER))
}
STAY = SecurityRule(
    allow=False, direction=Direction.OUT, protocol=Protocol.UDP, remote=Net4("0.0.0.0/0"), port_min=1, port_max=5500
)
SHUT = replace(NETWORK, vpcs=tuple(replace(vpc, rules=(STAY, *vpc.rules)) for vpc in NETWORK.vpcs))
SMALLER = replace(
    NETWORK,
    vpcs=tuple(
        replace(vpc, nat=None, floating_ips=()) if vpc.id == "red" else vpc for vpc in NETWORK.vpcs if vpc.id != "blue"
    ),
    peerings=frozenset(),
    border=(),
)


def _generations():
    made: list[tuple[Any, Any, Any, dict[str, Any]]] = [
        (_sharing(LOCAL, 100), NETWORK, NEIGHBOURS, {}),
        (LOCAL, NETWORK, NEIGHBOURS, {}),
        (LOCAL, SHUT, NEIGHBOURS, {"taken_vtep": IPv4Address("192.168.0.2")}),
        (LOCAL, NETWORK, UNRESOLVED, {"partners": [IPv4Address("192.168.0.2")]}),
        (NARROW, NETWORK, NEIGHBOURS, {}),
        (_sharing(LOCAL, 100), SMALLER, NEIGHBOURS, {}),
        (_sharing(LOCAL, 4), NETWORK, NEIGHBOURS, {}),
        (LOCAL, NETWORK, NEIGHBOURS, {"active": False}),
        (_few_ports(LOCAL), NETWORK, NEIGHBOURS, {}),
    ]
    for number, (local, network, neighbours, more) in enumerate(made, start=1):
        tables = compile_tables(local, network, neighbours=neighbours, generation=number, **more)
        yield Generation(network, tables)


GENERATIONS = list(_generations())
