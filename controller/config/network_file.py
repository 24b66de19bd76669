"""Read network files: of `heddle vpc apply FILE`, and of `heddle gateway --network FILE` without a controller.

Its keys are those of the contract's messages: `vpcs`, each a `Vpc`; `peerings`, each a `Peering`; `border`, rules each
a `BorderRule`; `load_balancers`, each a `LoadBalancer`. The same rules apply as for requests to a controller.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict, ParseError

from heddle.controller.config.text.complaint import refusal, shown
from heddle.controller.config.text.document import MAX_SETTINGS_BYTES, read_document
from heddle.controller.config.text.messages import misread_numbers
from heddle.controller.model.admission import Problem
from heddle.controller.model.suggest import did_you_mean
from heddle.dataplane.config.balancers import LoadBalancer
from heddle.dataplane.config.check import vpc_problems
from heddle.dataplane.config.check_change import network_problems
from heddle.dataplane.config.network import NetworkConfig
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


def load_network(path: Path) -> NetworkConfig:
    """Read the virtual networks of a network file; raises InputError with the problems found."""
    return load_network_file(path).config


def load_network_file(path: Path) -> Network:
    """Read a network file that names everything; raises InputError with the problems found."""
    name, _, found = _read(path)
    _refuse(name, network_problems(*found))
    return found


def load_objects(path: Path) -> pb.NetworkObjects:
    """Read the objects of a network file for a controller, which knows others and judges them together.

    Raises InputError with the problems of objects by themselves.
    """
    name, objects, found = _read(path)
    _refuse(name, (line for vpc in found.config.vpcs for line in vpc_problems(vpc)))
    return objects


def _read(path: Path) -> tuple[str, pb.NetworkObjects, Network]:
    """Return a file's name and its objects, as messages and as values."""
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
    border = pb.Border(rules=messages.pop("border"))
    objects = pb.NetworkObjects(**messages, border=border if "border" in values else None)
    try:
        return name, objects, _decoded(objects)
    except ConfigError as refused:
        raise refusal(name, [Problem("", line) for line in refused.problems]) from None


def _decoded(objects: pb.NetworkObjects) -> Network:
    """Return the values of objects; raises ConfigError."""
    network = NetworkConfig(
        generation=1,
        vpcs=tuple(map(vpc_from, objects.vpcs)),
        peerings=frozenset(map(peering_from, objects.peerings)),
        border=border_from(objects.border),
    )
    return Network(network, tuple(map(load_balancer_from, objects.load_balancers)))


def _refuse(name: str, lines: Iterable[str]) -> None:
    if found := [Problem("", line) for line in lines]:
        raise refusal(name, found)


def _messages(values: dict[str, Any]) -> tuple[dict[str, list[Any]], list[Problem]]:
    """Return the entries of a file as messages, and the problems of those that are none."""
    kinds: dict[str, Any] = {
        "vpcs": pb.Vpc, "peerings": pb.Peering, "border": pb.BorderRule, "load_balancers": pb.LoadBalancer,
    }  # fmt: skip
    messages: dict[str, list[Any]] = {key: [] for key in LISTS}
    problems = []
    for key, kind in kinds.items():
        for i, entry in enumerate(values.get(key, [])):
            if not isinstance(entry, dict):
                problems.append(Problem(f"{key}[{i}]", f"must be a mapping, is {shown(entry)}"))
                continue
            problems += misread_numbers(entry, kind.DESCRIPTOR, f"{key}[{i}]")
            try:
                messages[key].append(ParseDict(entry, kind()))
            except ParseError as error:
                problems.append(Problem(f"{key}[{i}]", _without_type_names(str(error))))
    return messages, problems


def _without_type_names(text: str) -> str:
    """Return protobuf's error text without the names of its types."""
    text = text.replace('Message type "heddle.v1.', '"').replace(" at ", ", at ")
    return " ".join(text.split())
