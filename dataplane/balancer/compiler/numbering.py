"""Numbers of services and back ends that stay the same from one generation of tables to the next.

Connections and slots name a back end by a number, so a change of other back ends changes neither. A number is never
given twice: a connection of a back end that was removed finds another number in its row, or none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.dataplane.config.balancers import LoadBalancer, Mode, Service
from heddle.dataplane.config.limit import MAX_BACK_ENDS
from heddle.dataplane.config.limit import MAX_LOAD_BALANCERS as MAX_SERVICES
from heddle.dataplane.config.network import Address

__all__ = [
    "MAX_BACK_ENDS", "MAX_SERVICES", "BackEndName", "Numbering", "NumberingError", "ServiceName", "numbered",
    "service_name",
]  # fmt: skip


class ServiceName(NamedTuple):
    """A port of a virtual IP, by what packets carry."""

    vpc: str
    vip: Address
    port: int
    protocol: Service
    mode: Mode


class BackEndName(NamedTuple):
    """A back end of a service."""

    service: ServiceName
    ip: Address
    port: int


class NumberingError(ValueError):
    """There are more services or back ends than rows; the message is one line."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Rows of services in `slots`, and numbers of back ends."""

    services: Mapping[ServiceName, int] = field(default_factory=dict)
    back_ends: Mapping[BackEndName, int] = field(default_factory=dict)
    next_number: int = 0


def service_name(balancer: LoadBalancer) -> ServiceName:
    """Return the name of a load balancer's service."""
    return ServiceName(balancer.vpc, balancer.vip, balancer.port, balancer.protocol, balancer.mode)


def numbered(before: Numbering, balancers: Iterable[LoadBalancer]) -> Numbering:
    """Return the numbering of these load balancers; what was numbered before keeps its number.

    Raises:
        NumberingError: there are too many of them.
    """
    services, back_ends = dict[ServiceName, int](), dict[BackEndName, int]()
    wanted = {service_name(each): each for each in balancers}
    names = [BackEndName(name, end.ip, end.port) for name, each in wanted.items() for end in each.back_ends]
    if len(wanted) > MAX_SERVICES or len(names) > MAX_BACK_ENDS:
        raise NumberingError(
            f"{len(wanted)} services with {len(names)} back ends; at most {MAX_SERVICES} with {MAX_BACK_ENDS}"
        )
    services.update({name: before.services[name] for name in wanted if name in before.services})
    free = iter(sorted(set(range(MAX_SERVICES)) - set(before.services.values())))
    late = iter(sorted(set(before.services.values()) - set(services.values())))
    for name in wanted:
        if name not in services:
            # Rows of services that ended may be read until the new tables are in use: take them last.
            services[name] = next(free, -1)
            services[name] = services[name] if services[name] >= 0 else next(late)
    back_ends.update({end: before.back_ends[end] for end in names if end in before.back_ends})
    taken, number = {kept % MAX_BACK_ENDS for kept in back_ends.values()}, before.next_number
    for end in names:
        if end in back_ends:
            continue
        while number % MAX_BACK_ENDS in taken:
            number += 1
        back_ends[end] = number
        taken.add(number % MAX_BACK_ENDS)
        number += 1
    return Numbering(services, back_ends, number)
