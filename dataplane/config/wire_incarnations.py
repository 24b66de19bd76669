"""Encode and decode what gateways are sent about incarnations, beside the messages that users write."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from heddle.dataplane.config.incarnations import numbers_of, with_numbers
from heddle.dataplane.config.network import Peering, Vpc
from heddle.dataplane.config.refusal import ConfigError
from heddle.dataplane.config.wire import peering_from, peering_to, vpc_from
from heddle.v1 import heddle_pb2 as pb


def add_numbers(message: pb.NetworkUpdate, vpc: Vpc) -> None:
    """Add the incarnations of a VPC that a message contains."""
    numbers = numbers_of(vpc)
    if any(numbers):
        message.incarnations.add(vpc_id=vpc.id, numbers=numbers)


def numbered(message: pb.Vpc, numbers: Sequence[int] | None) -> Vpc:
    """Decode a VPC with its incarnations, None for 0 everywhere; raises ConfigError."""
    vpc = vpc_from(message)
    if numbers is None:
        return vpc
    try:
        return with_numbers(vpc, numbers)
    except ValueError:
        raise ConfigError([f"vpc {vpc.id}: incarnations: {len(numbers)} are not one for each part"]) from None


def peerings_to(peerings: Iterable[Peering]) -> pb.PeeringList:
    """Encode all peerings."""
    found = sorted(peerings)
    return pb.PeeringList(peerings=map(peering_to, found), incarnations=[each.incarnation for each in found])


def peerings_from(message: pb.PeeringList) -> frozenset[Peering]:
    """Decode all peerings; raises ConfigError. A controller of before there were incarnations sends none."""
    numbers = message.incarnations or [0] * len(message.peerings)
    if len(numbers) != len(message.peerings):
        raise ConfigError([f"peerings: {len(numbers)} incarnations of {len(message.peerings)}"])
    found = zip(map(peering_from, message.peerings), numbers, strict=True)
    return frozenset(replace(peering, incarnation=number) for peering, number in found)
