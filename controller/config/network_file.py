"""Read the network file of `heddle gateway --network FILE`: the virtual networks of a gateway without a controller.

Its keys are those of the contract's messages: `vpcs`, each a `Vpc`; `peerings`, each a `Peering`; `border`, rules each
a `BorderRule`; `load_balancers`, each a `LoadBalancer`. The same rules apply as for requests to a controller.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict, ParseError

from heddle.controller.config.text.complaint import refusal, shown
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_document
from heddle.controller.model.admission import Problem
from heddle.controller.model.suggest import did_you_mean
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check import floating_problems, network_problems
from heddle.dataplane.config.check_balancers import (
    Served,
    load_balancer_problems,
    served_by,
    taken_text,
    total_problems,
)
from heddle.dataplane.config.network import Address, NetworkConfig, Vpc
from heddle.dataplane.config.refusal import ConfigError
from heddle.dataplane.config.wire import border_from, peering_from, vpc_from
from heddle.dataplane.config.wire_balancers import load_balancer_from
from heddle.v1 import heddle_pb2 as pb

KEYS = ("version", "vpcs", "peerings", "border", "load_balancers")
LISTS = KEYS[1:]


class Network(NamedTuple):
    """The content of a network file."""

    config: NetworkConfig
    load_balancers: tuple[LoadBalancer, ...]


def before_balancers(vpc: Vpc, virtual_ips: Collection[Address]) -> Vpc:
    """Return a VPC as it is applied before these virtual IPs of it: without floating IPs that lead to them."""
    kept = tuple(each for each in vpc.floating_ips if each.endpoint not in virtual_ips)
    return vpc if kept == vpc.floating_ips else replace(vpc, floating_ips=kept)


def load_network(path: Path) -> NetworkConfig:
    """Read the virtual networks of a network file; raises InputError with the problems found."""
    return load_network_file(path).config


def load_network_file(path: Path) -> Network:
    """Read a network file; raises InputError with the problems found."""
    name, values = read_document(path, MAX_SETTINGS_BYTES)
    unknown = [
        Problem(key, "unknown key" + (did_you_mean(key, KEYS) or f"; the keys are {', '.join(KEYS)}"))
        for key in values
        if key not in KEYS
    ]
    wrong = [
        Problem(key, f"must be a list, is {shown(values[key])}")
        for key in LISTS
        if key in values and not isinstance(values[key], list)
    ]
    if values.get("version", 1) != 1:
        wrong.append(Problem("version", f"must be 1, is {shown(values['version'])}"))
    if unknown or wrong:
        raise refusal(name, unknown + wrong)
    messages, problems = _messages(values)
    if problems:
        raise refusal(name, problems)
    try:
        network = NetworkConfig(
            generation=1,
            vpcs=tuple(vpc_from(vpc) for vpc in messages["vpcs"]),
            peerings=frozenset(peering_from(peering) for peering in messages["peerings"]),
            border=border_from(pb.Border(rules=messages["border"])),
        )
        balancers = tuple(map(load_balancer_from, messages["load_balancers"]))
    except ConfigError as refused:
        raise refusal(name, [Problem("", line) for line in refused.problems]) from None
    lines = [*network_problems(network), *_service_problems(network, balancers)]
    if found := [Problem("", line) for line in lines]:
        raise refusal(name, found)
    return Network(network, balancers)


def _service_problems(network: NetworkConfig, balancers: tuple[LoadBalancer, ...]) -> Iterator[str]:
    """Check load balancers among themselves, and with their VPCs where these are in the file."""
    yield from total_problems(balancers)
    vpcs = {vpc.id: vpc for vpc in network.vpcs}
    ids, places = set[str](), dict[Served, str]()
    for each in balancers:
        if each.id in ids:
            yield f"load balancer {each.id}: id: used twice"
        elif served_by(each) in places:
            yield taken_text(each, places[served_by(each)])
        ids.add(each.id)
        places.setdefault(served_by(each), each.id)
        if each.vpc in vpcs:
            yield from load_balancer_problems(each, vpcs[each.vpc], None)
    for vpc in network.vpcs:
        yield from floating_problems(vpc, {each.vip for each in balancers if each.vpc == vpc.id})


def _messages(values: dict[str, Any]) -> tuple[dict[str, list[Any]], list[Problem]]:
    """Return the entries of a file as messages, and the problems of those that are none."""
    kinds = {
        "vpcs": pb.Vpc, "peerings": pb.Peering, "border": pb.BorderRule, "load_balancers": pb.LoadBalancer,
    }  # fmt: skip
    messages: dict[str, list[Any]] = {key: [] for key in LISTS}
    problems = []
    for key, kind in kinds.items():
        for i, entry in enumerate(values.get(key, [])):
            if not isinstance(entry, dict):
                problems.append(Problem(f"{key}[{i}]", f"must be a mapping, is {shown(entry)}"))
                continue
            try:
                messages[key].append(ParseDict(entry, kind()))
            except ParseError as error:
                problems.append(Problem(f"{key}[{i}]", _without_type_names(str(error))))
    return messages, problems


def _without_type_names(text: str) -> str:
    """Return protobuf's error text without the names of its types."""
    text = text.replace('Message type "heddle.v1.', '"').replace(" at ", ", at ")
    return " ".join(text.split())
