"""Connect a gateway to its controller session: hello, counters, installed tables, and applying a generation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heddle.dataplane.config.acceptance.accept import accepted
from heddle.dataplane.config.acceptance.accept_services import accepted_services
from heddle.dataplane.config.balancers import BalancerConfig, Site
from heddle.dataplane.config.check_balancers import balancer_problems
from heddle.dataplane.config.check_served import ports_of, reserved_by
from heddle.dataplane.config.desired import Desired, Kind
from heddle.dataplane.config.local import LocalConfig, Side
from heddle.dataplane.config.network import GatewayPort
from heddle.dataplane.config.pair import PairConfig
from heddle.dataplane.config.refusal import refuse
from heddle.dataplane.config.wire import gateway_port_to
from heddle.dataplane.control.balancer import STATES, Balancer
from heddle.dataplane.control.gateway import Gateway, Wanted
from heddle.dataplane.control.pair.duties import roles_of
from heddle.dataplane.control.process.shared import Word
from heddle.dataplane.control.session.attachment import Apply
from heddle.dataplane.control.status import Status
from heddle.dataplane.tables.compiler.archive import packed
from heddle.v1 import heddle_pb2 as pb

CONNECTIONS = {"connections", *(f"connections_{name}" for name in STATES)}
"""Tables of connections, of a gateway and of a balancer."""


def hello_of(local: LocalConfig, pair: PairConfig | None) -> pb.GatewayHello:
    """Return the identity that a gateway reports when it attaches."""
    vteps = [str(one.address) for one in local.interfaces if one.side is Side.UNDERLAY and one.address is not None]
    return pb.GatewayHello(
        gateway_id=local.gateway_id,
        kind="gateway",
        vtep_ip=vteps[0] if vteps else "",
        partner=pair.partner_id if pair else "",
        host_vtep_ip=_host_vtep(local, pair),
        provider_networks=[
            pb.ProviderNetwork(network=one.realm.value, cidrs=[str(prefix) for prefix in one.prefixes])
            for one in local.provider_networks
        ],
        interfaces=map(gateway_port_to, ports_of(local)),
    )


def balancer_hello_of(local: LocalConfig, pair: PairConfig | None, sites: Iterable[Site]) -> pb.GatewayHello:
    """Return the identity that a balancer reports when it attaches."""
    hello = hello_of(local, pair)
    hello.kind = Kind.BALANCER.value
    hello.source_pools.extend(pb.SourcePool(vpc_id=site.vpc, ips=map(str, site.pool)) for site in sites if site.pool)
    return hello


def _host_vtep(local: LocalConfig, pair: PairConfig | None) -> str:
    """Return the VTEP to which hosts send instead of this gateway's own; "" if they send to its own."""
    if pair is None or local.gateway_id in roles_of(local.gateway_id, pair):
        return ""
    sides = {interface.name: interface.side for interface in local.interfaces}
    return next((str(address) for name, address in pair.takes_over if sides.get(name) is Side.UNDERLAY), "")


def counters_of(local: LocalConfig, status: Status, active: bool) -> pb.GatewayCounters:
    """Return a gateway's counters as the message for the controller."""
    names = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes")
    connections = [table for name, table in status.tables.items() if name in CONNECTIONS]
    mappings = status.tables.get("mappings")
    return pb.GatewayCounters(
        active=active,
        ports=[
            pb.PortCounters(
                name=one.name,
                side=one.side.value,
                dropped_packets=status.ports[one.name]["dropped"],
                **{name: status.ports[one.name][name] for name in names},
            )
            for one in local.interfaces
        ],
        drops=status.drops,
        punts=status.punts,
        connections=sum(table.used for table in connections),
        nat_mappings=mappings.used if mappings is not None else 0,
        connections_limit=max((table.room for table in connections), default=0),  # a balancer's states share one table
        nat_mappings_limit=mappings.room if mappings is not None else 0,
    )


def applier_for(gateway: Gateway, pair: PairConfig | None = None) -> Apply:
    """Return the function that puts a generation into force and returns once packets are forwarded by it.

    VPCs are accepted one by one (`acceptance.accept`), by this gateway's networks and its partner's addresses.
    """
    ports = {gateway.local.gateway_id: ports_of(gateway.local)}
    if pair is not None:
        ports[pair.partner_id] = tuple(GatewayPort(name=name, address=address) for name, address in pair.takes_over)
    reserved = reserved_by(ports)

    async def apply(desired: Desired) -> Mapping[str, str]:
        own = {one.address for one in gateway.local.interfaces}
        others = tuple(vtep for vtep in desired.gateways.values() if vtep not in own)
        kept: dict[str, str] = {}

        def change(wanted: Wanted) -> Wanted:
            found = accepted(desired, wanted.network, wanted.virtual_ips, reserved)
            kept.update(found.kept)
            return replace(
                wanted,
                network=found.network,
                gateways=others,
                virtual_ips=found.virtual_ips,
                kept=found.kept,
                unknown=desired.unknown,
            )

        await gateway.in_use(await gateway.serve(change))
        return kept

    return apply


def balancer_applier_for(balancer: Balancer, sites: Sequence[Site]) -> Apply:
    """Return the function that puts a generation of a balancer into force, with what its own file says of VPCs."""

    async def apply(desired: Desired) -> Mapping[str, str]:
        here = {vpc.id for vpc in desired.network.vpcs}
        services = BalancerConfig(
            network=desired.network,
            balancers=desired.load_balancers,
            sites=tuple(site for site in sites if site.vpc in here),
            gateways=tuple(desired.gateways.values()),
        )
        services, kept = accepted_services(services, balancer.wanted.services)
        refuse(balancer_problems(services))
        await balancer.in_use(await balancer.serve_services(services, {**desired.refused, **kept}, desired.unknown))
        return balancer.wanted.kept

    return apply


def tables_reader_for(gateway: Gateway, pack: Callable[[Any], bytes] = packed) -> Callable[[], bytes]:
    """Return the function that packs the tables in use, read from the memory that the data process maps.

    It raises ValueError while a newer generation is being published.
    """

    def read() -> bytes:
        tables, words = gateway.supervisor.installed(), gateway.supervisor.shared.words
        if tables is None or words[Word.IN_USE] != tables.generation[0]:
            raise ValueError("another generation is being published; try again")
        return pack(tables)

    return read
