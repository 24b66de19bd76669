"""Read the network file of `heddle gateway --network FILE`: the virtual networks of a gateway without a controller.

Its keys are those of the contract's messages: `vpcs`, each a `Vpc`; `peerings`, each a `Peering`; `border`, rules each
a `BorderRule`. The same rules apply as for requests to a controller.
"""

from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.config.text.complaint import refusal, shown
from controller.config.text.document import read_document
from controller.model.admission import Problem
from controller.model.suggest import did_you_mean
from dataplane.config.check import network_problems
from dataplane.config.network import NetworkConfig
from dataplane.config.refusal import ConfigError
from dataplane.config.wire import border_from, peering_from, vpc_from

KEYS = ("vpcs", "peerings", "border")


def load_network(path: Path) -> NetworkConfig:
    """Read a network file; raises InputError with the problems found."""
    name, values = read_document(path)
    unknown = [
        Problem(key, "unknown key" + (did_you_mean(key, KEYS) or f"; the keys are {', '.join(KEYS)}"))
        for key in values
        if key not in KEYS
    ]
    wrong = [
        Problem(key, f"must be a list, is {shown(values[key])}")
        for key in KEYS
        if key in values and not isinstance(values[key], list)
    ]
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
    except ConfigError as refused:
        raise refusal(name, [Problem("", line) for line in refused.problems]) from None
    if found := [Problem("", line) for line in network_problems(network)]:
        raise refusal(name, found)
    return network


def _messages(values: dict[str, Any]) -> tuple[dict[str, list[Any]], list[Problem]]:
    """Return the entries of a file as messages, and the problems of those that are none."""
    kinds = {"vpcs": pb.Vpc, "peerings": pb.Peering, "border": pb.BorderRule}
    messages: dict[str, list[Any]] = {key: [] for key in KEYS}
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
