"""Write a fabric file (its `generate`, or every switch, link and host on a line of its own), and entries of jobs."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Network
from itertools import groupby

from heddle.controller.config.fabric_file import GenerateShape
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import DEFAULT_STEERING, Cable, Fabric, Nic, Switch
from heddle.controller.model.job import JobRequest
from heddle.controller.model.job_fields import collective_fields
from heddle.controller.model.srv6_settings import DEFAULT_SRV6
from heddle.foundation.address import mac_text
from heddle.foundation.network import Network

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._-]*\Z")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
"""Texts that YAML 1.1 reads as booleans or null."""
_MAC_PREFIX = 0x0200 << 32

Entry = dict[str, object]


def fabric_text(
    fabric: Fabric, header: Iterable[str] = (), shape: GenerateShape | None = None, *, numbered: bool = False
) -> Iterator[str]:
    """Yield the lines of the fabric file, with `header` as comments. Failed links and switches are not written.

    `numbered` writes every datapath id: else those that count from 1 are left out, and a switch more in between would
    change them.
    """
    yield from (f"# {one_line(line)}" for line in header)
    yield "version: 1"
    yield f"name: {_flow(fabric.name)}"
    if fabric.steered_by is not DEFAULT_STEERING:
        yield f"steering: {fabric.steered_by}"
    if fabric.srv6 != DEFAULT_SRV6:
        yield f"srv6: {_flow(_srv6(fabric))}"
    if fabric.port_addresses:
        yield f"port_addresses: {_flow(_addresses(fabric))}"
    if any(fabric.reserve):
        yield f"reserve: {_flow(_reserve(fabric))}"
    if shape is not None:
        yield f"generate: {_flow(_generate(shape))}"
        return
    for key, entries in _parts(fabric, numbered=numbered):
        if entries:
            yield f"{key}:"
            yield from (f"  - {_flow(entry)}" for entry in entries)


def fabric_document(fabric: Fabric, shape: GenerateShape | None = None) -> Entry:
    """Return the contents of the fabric file as a mapping."""
    head: Entry = {"version": 1, "name": fabric.name}
    head |= {"steering": fabric.steered_by.value} if fabric.steered_by is not DEFAULT_STEERING else {}
    head |= {"srv6": _srv6(fabric)} if fabric.srv6 != DEFAULT_SRV6 else {}
    head |= {"port_addresses": _addresses(fabric)} if fabric.port_addresses else {}
    head |= {"reserve": _reserve(fabric)} if any(fabric.reserve) else {}
    return head | ({"generate": _generate(shape)} if shape is not None else dict(_parts(fabric)))


def request_document(request: JobRequest) -> Entry:
    """Return a job request as an entry of a jobs file."""
    written = {name: getattr(request, name) for name in ("job_id", "tenant", "ranks", "priority", "lease_ms")}
    return written | {
        "collectives": [collective_fields(one) for one in request.collectives],
        "steering": request.steering.name,
        "require_utilisation": request.require_utilisation,
        "gpu_milli": request.gpu_milli,
        "incast": f"INCAST_{request.incast.name}",
        "move_limits": {
            cause.name: {"whose": limit.whose.name, "max_flows": limit.max_flows}
            for cause, limit in request.move_limits
        },
        "assumed": request.assumed,
        "drains_before_moves": request.drains_before_moves,
    }


def _parts(fabric: Fabric, *, numbered: bool = False) -> Iterator[tuple[str, list[Entry]]]:
    at = {number: switch.datapath_id for number, switch in enumerate(fabric.switches, 1)}
    counted = not numbered and all(number == datapath_id for number, datapath_id in at.items())
    yield "switches", [_switch(switch, counted) for switch in fabric.switches]
    yield "links", [_link(cable) for cable in fabric.cables]
    hosts = groupby(fabric.nics, key=lambda nic: nic.host)
    yield "hosts", [_host(host, list(nics), fabric.plane_of_switch) for host, nics in hosts]


def _addresses(fabric: Fabric) -> Entry:
    return {str(port): ip_text(address) for port, address in fabric.port_addresses}


def _srv6(fabric: Fabric) -> Entry:
    block, style, last_hop = fabric.srv6
    return {"block": str(IPv6Network((block << 96, 32))), "style": style.value, "last_hop": last_hop.value}


def _reserve(fabric: Fabric) -> Entry:
    return {key: count for key, count in fabric.reserve._asdict().items() if count}


def _generate(shape: GenerateShape) -> Entry:
    keys = {"nic_bps": "gbps", "uplink_bps": "uplink_gbps"}
    found = shape.model_dump(exclude_defaults=True) | {"nic_bps": shape.nic_bps}
    return {keys.get(key, key): _gbps(value) if key in keys else value for key, value in found.items()}


def _switch(switch: Switch, counted: bool) -> Entry:
    """Return a switch; its datapath id is left out where switches are numbered from 1, which is the default."""
    found: Entry = {"id": switch.id, "role": switch.role.value}
    if not counted:
        found["datapath_id"] = switch.datapath_id
    if switch.rule_budget is not None:
        found["rule_budget"] = switch.rule_budget
    return found


def _link(cable: Cable) -> Entry:
    return {"a": str(cable.lower), "b": str(cable.upper), "gbps": _gbps(cable.capacity_bps)}


def _host(name: str, nics: list[Nic], plane_of: Mapping[str, int]) -> Entry:
    domain = nics[0].nvlink_domain
    ports: dict[str, list[Nic]] = {}
    for nic in nics:
        ports.setdefault(nic.rank, []).append(nic)
    entries = [_nic(each, plane_of) for each in ports.values()]
    return {"id": name} | ({"nvlink_domain": domain} if domain else {}) | {"nics": entries}


def _nic(ports: list[Nic], plane_of: Mapping[str, int]) -> Entry:
    """Return a NIC by its ports; `plane_of` has the planes of switches."""
    nic = ports[0]
    found: Entry = {"id": nic.rank, "ip": ip_text(nic.ip)}
    if nic.mac != _MAC_PREFIX + nic.ip and not nic.of:
        found["mac"] = mac_text(nic.mac)
    found |= {"ports": [_port(port, nic.ip + at, plane_of) for at, port in enumerate(ports)]} if nic.of else _at(nic)
    if nic.rail:
        found["rail"] = nic.rail
    if nic.network != Network.COMPUTE:
        found["network"] = nic.network.value
    if nic.gpus:
        found["gpus"] = list(nic.gpus)
    if nic.paths_per_flow > 1:
        found["paths_per_flow"] = nic.paths_per_flow
    return found


def _port(nic: Nic, ip: int, plane_of: Mapping[str, int]) -> Entry:
    """Return a port of a NIC, which has the address `ip` if it names none."""
    found = _at(nic)
    if nic.ip != ip:
        found["ip"] = ip_text(nic.ip)
    if nic.mac != _MAC_PREFIX + nic.ip:
        found["mac"] = mac_text(nic.mac)
    if nic.plane != plane_of[nic.port.switch]:
        found["plane"] = nic.plane
    return found


def _at(nic: Nic) -> Entry:
    return {"port": str(nic.port), "gbps": _gbps(nic.capacity_bps)}


def _gbps(rate_bps: int) -> int | float:
    whole, rest = divmod(rate_bps, 10**9)
    return whole if not rest else rate_bps / 10**9


def _flow(value: object) -> str:
    """Return a value in YAML's flow style; text that YAML could read as another type is quoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.match(value) and value.lower() not in _WORDS else json.dumps(value)
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0")
    return str(value)
