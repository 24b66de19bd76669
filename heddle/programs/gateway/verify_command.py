"""The program `heddle verify isolation`: compare the installed tables of gateways with the desired network."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from heddle.controller.brain.networks.publishing import for_balancer, for_gateway
from heddle.controller.brain.virtual_networks import Gateway, Networks
from heddle.controller.config.network_file import load_network
from heddle.controller.model.error import HeddleError, InputError, NotFoundError, UnavailableError
from heddle.dataplane.balancer.compiler.archive import unpacked as services_in
from heddle.dataplane.config.desired import Desired, Kind
from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.config.wire import border_from, peering_from, vpc_from
from heddle.dataplane.config.wire_balancers import load_balancer_from, pools_from
from heddle.dataplane.tables.compiler.archive import MAX_BYTES, packed, unpacked
from heddle.dataplane.tables.compiler.compile import compile_tables
from heddle.dataplane.tables.schema import Tables
from heddle.dataplane.verify.compare import Finding
from heddle.dataplane.verify.report import Report, local_of, verify
from heddle.dataplane.verify.services import service_findings
from heddle.foundation.regular_file import read_regular
from heddle.programs.console import show as screen
from heddle.programs.console.client import Client, connected
from heddle.v1 import heddle_pb2 as pb

ATTEMPTS = 5
"""Attempts to read tables and configuration of one generation while it changes."""


def offline(
    config: Path | None, network: Path | None, tables: Path | None, save: Path | None, *, as_json: bool
) -> bool:
    """Verify a gateway file against a network file; return whether exactly the intended paths are open."""
    if config is None or network is None:
        raise InputError("offline, both --config FILE (the gateway) and --network FILE are needed")
    from heddle.controller.config.gateways.gateway_file import load_gateway

    local, wanted = load_gateway(config).local, load_network(network)
    if tables is None:
        held = compile_tables(local, wanted, neighbours={}, generation=1)
    else:
        held = _read(_packed(tables), str(tables))
    _save(held, save)
    found = _verified(held, local, Desired(network=wanted), (), str(tables or config))
    return _print({local.gateway_id: found}, as_json)


def online(server: str, only: list[str], save: Path | None, *, as_json: bool) -> bool:
    """Verify attached gateways; return whether exactly the intended paths are open."""
    reports, balancers = {}, {}
    with connected(server) as client:
        known = client.gateways.ListGateways(pb.ListGatewaysRequest()).gateways
        kinds = {each.hello.gateway_id: each.hello.kind for each in known}
        attached = [each.hello.gateway_id for each in known if each.attached and each.hello.kind != Kind.HOST]
        names = only or attached
        if not names:
            raise NotFoundError("no gateway is attached; offline, use --config and --network")
        if save is not None and (len(names) != 1 or kinds.get(names[0]) == Kind.BALANCER):
            raise InputError("--save-tables: name one gateway by --gateway")
        for name in names:
            with screen.progress(f"{name}: reading its tables"):
                found = _installed(client, name)
            if kinds.get(name) == Kind.BALANCER:
                balancers[name] = _services_verified(found, name)
                continue
            tables = _read(found.data, name)
            _save(tables, save)
            networks = ((each.network, each.cidrs) for each in found.hello.provider_networks)
            local = local_of(name, networks, tables)
            reports[name] = _verified(tables, local, found.desired, found.partners, name)
    return _print(reports, as_json, balancers)


class _Installed(NamedTuple):
    """Packed tables, and the desired state of the same generation."""

    data: bytes
    hello: pb.GatewayHello
    desired: Desired
    partners: tuple[IPv4Address, ...]


def _services_verified(found: _Installed, name: str) -> list[Finding]:
    """Return where the services of a balancer's tables differ from the load balancers that it is to serve."""
    try:
        return service_findings(services_in(found.data), found.desired.network, found.desired.load_balancers)
    except (ValueError, IndexError, KeyError) as error:
        raise HeddleError(f"{name}: its tables are inconsistent: {error!r}") from None


def _installed(client: Client, name: str) -> _Installed:
    """Return the tables of a gateway or balancer and its desired state; raises UnavailableError."""
    for _ in range(ATTEMPTS):
        before = client.gateways.ListGateways(pb.ListGatewaysRequest())
        status = next((each for each in before.gateways if each.hello.gateway_id == name), None)
        if status is None:
            raise NotFoundError(f"no gateway {name!r} is known")
        vpcs, border = client.vpcs.ListVpcs(pb.ListVpcsRequest()), client.vpcs.GetBorder(pb.GetBorderRequest())
        listed = client.vpcs.ListLoadBalancers(pb.ListVpcsRequest()).load_balancers
        parts = client.gateways.ReadTables(pb.ReadTablesRequest(gateway_id=name))
        data = b"".join(part.data for part in parts)
        after = client.gateways.ListGateways(pb.ListGatewaysRequest())
        if before.generation == after.generation == status.acknowledged_generation:
            networks = Networks(
                generation=after.generation,
                vpcs={each.id: vpc_from(each) for each in vpcs.vpcs},
                peerings=frozenset(map(peering_from, vpcs.peerings)),
                border=border_from(border),
                load_balancers={each.id: load_balancer_from(each) for each in listed},
                gateways={each.hello.gateway_id: _known(each) for each in after.gateways},
            )
            is_balancer = status.hello.kind == Kind.BALANCER
            desired = (for_balancer if is_balancer else for_gateway)(networks, name, networks.gateways[name])
            vteps = {each.hello.gateway_id: each.hello.vtep_ip for each in after.gateways}
            partner = vteps.get(status.hello.partner, "")
            return _Installed(data, status.hello, desired, (IPv4Address(partner),) if partner else ())
    raise UnavailableError(f"{name} does not run the newest generation, or the configuration keeps changing; try again")


def _known(status: pb.GatewayStatus) -> Gateway:
    """Return what the controller knows of one that attached."""
    hello = status.hello
    return Gateway(
        vtep=IPv4Address(hello.vtep_ip),
        kind=Kind(hello.kind or Kind.GATEWAY),
        session=1 if status.attached else None,
        host_vtep=IPv4Address(hello.host_vtep_ip) if hello.host_vtep_ip else None,
        pools=pools_from(hello.source_pools),
    )


def _verified(
    tables: Tables, local: LocalConfig, desired: Desired, partners: tuple[IPv4Address, ...], name: str
) -> Report:
    try:
        return verify(tables, local, desired.network, partners, desired.virtual_ips)
    except (ValueError, IndexError, KeyError) as error:
        raise HeddleError(f"{name}: its tables are inconsistent: {error!r}") from None


def _packed(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _read(data: bytes, name: str) -> Tables:
    try:
        return unpacked(data)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None


def _save(tables: Tables, path: Path | None) -> None:
    if path is not None:
        path.write_bytes(packed(tables))


def _print(reports: Mapping[str, Report], as_json: bool, balancers: Mapping[str, list[Finding]] | None = None) -> bool:
    """Print the reports; return whether all of them are sound."""
    balancers = balancers or {}
    sound = all(report.is_sound for report in reports.values()) and not any(balancers.values())
    if as_json:
        found = {"sound": sound, "gateways": {name: asdict(report) for name, report in reports.items()}}
        found["balancers"] = {name: [asdict(each) for each in findings] for name, findings in balancers.items()}
        json.dump(found, sys.stdout)
        print()
        return sound
    for name, findings in balancers.items():
        print(f"{name}: virtual IPs: {f'{len(findings)} DIFFER' if findings else 'exactly the intended ones'}")
        for each in findings:
            print(f"  {each}")
    for name, report in reports.items():
        verdict = "exactly the intended paths" if report.is_sound else f"{_count(report)} PATHS DIFFER"
        print(f"{name}: {report.vpcs} VPCs, {report.endpoints} endpoints, {report.pairs} classes of pairs: {verdict}")
        for finding in report.findings:
            print(f"  {finding}")
        if report.left_out:
            print(f"  … and {report.left_out} more")
        table = Table(title="open from (row) to (column), classes of pairs", title_justify="left")
        for column in ("", *report.networks):
            table.add_column(column)
        for source, row in report.networks.items():
            table.add_row(source, *(str(count) if count else "closed" for count in row.values()))
        screen.console().print(table)
    return sound


def _count(report: Report) -> int:
    return len(report.findings) + report.left_out
