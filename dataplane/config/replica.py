"""Apply updates of the desired state: the receiver's replica of what the controller has sent.

A generation takes effect only with its last message. A VPC that cannot be decoded, as one of a newer version may not
be, harms itself alone: its state of before stays (`Desired.refused`). VPCs that the controller does not know stay too
(`Desired.known_since`, `acceptance.unknown`).
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any, TypeVar

from heddle.dataplane.config.acceptance.fitting import claims_by, fitted
from heddle.dataplane.config.acceptance.unknown import with_unknown
from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.incarnations import carried
from heddle.dataplane.config.network import Vpc
from heddle.dataplane.config.refusal import ConfigError, refuse
from heddle.dataplane.config.wire import border_from
from heddle.dataplane.config.wire_balancers import load_balancer_from, virtual_ip_from
from heddle.dataplane.config.wire_incarnations import numbered, peerings_from
from heddle.v1 import heddle_pb2 as pb

Value = TypeVar("Value")
_NOTHING = Desired()


class Replica:
    """The receiver's state in one session."""

    def __init__(self, former: Desired | None = None) -> None:
        """Begin with nothing; `former` is the state in force from an earlier session, None for none."""
        self.desired: Desired | None = None
        self._former = former or _NOTHING
        self._growing: Desired | None = None
        self._lists = _NOTHING
        """What was sent beside VPCs, with the last complete generation."""
        self._vpcs: dict[str, Vpc] = {}
        self._refused: dict[str, str] = {}
        """By VPC that could not be decoded, why."""
        self._services_refused: dict[str, str] = {}
        """By VPC of which a load balancer or virtual IP could not be decoded, why."""
        self._unknown: frozenset[str] = frozenset()
        self._is_behind = False

    @property
    def is_behind(self) -> bool:
        """Whether a generation was refused: only a whole state is accepted now."""
        return self._is_behind

    def apply(self, message: pb.NetworkUpdate) -> Desired | None:
        """Apply a message; return the new state if it completes a generation, else None.

        Raises ConfigError for an invalid message. The previous state then stays, and only a whole state is accepted
        afterwards, because the sender computes differences from the refused generation.
        """
        try:
            return self._applied(message)
        except ConfigError:
            self._growing, self._is_behind = None, True
            raise

    def _applied(self, message: pb.NetworkUpdate) -> Desired | None:
        if message.whole:
            self._begin(message)
        elif self._is_behind:
            raise ConfigError([f"generation {message.generation}: an earlier one was refused; attach anew"])
        elif self._growing is None and self.desired is None:
            raise ConfigError([f"generation {message.generation}: a change came before the whole"])
        lists = self._growing or self._lists
        for deleted in message.deleted_vpcs:
            self._vpcs.pop(deleted, None)
            self._refused.pop(deleted, None)
        self._unknown -= {*message.deleted_vpcs}
        self._decode(message)
        self._growing = self._with_lists(lists, message)
        if message.more:
            return None
        network = replace(self._growing.network, generation=message.generation, vpcs=tuple(self._vpcs.values()))
        made = replace(self._growing, network=carried((self.desired or self._former).network, network))
        self._refuse_strangers(made)
        self._lists, self._growing = self._growing, None
        self.desired = self._with_former(made)
        return self.desired

    def _begin(self, message: pb.NetworkUpdate) -> None:
        """Begin a whole state, of which earlier generations may keep a part in force."""
        former = self._former = self.desired or self._former
        self._vpcs, self._refused, self._services_refused, self._is_behind = {}, {}, {}, False
        has_border, generation = message.HasField("border") or not message.known_since, former.network.generation
        self._growing = Desired(known_since=message.known_since, has_border=has_border)
        if not message.known_since or not generation:
            self._unknown = frozenset()
        elif generation < message.known_since:
            self._unknown = frozenset(vpc.id for vpc in former.network.vpcs)
        else:
            self._unknown = former.unknown

    def _decode(self, message: pb.NetworkUpdate) -> None:
        numbers = {each.vpc_id: each.numbers for each in message.incarnations}
        for each in message.vpcs:
            self._refused.pop(each.id, None)
            try:
                self._vpcs[each.id] = numbered(each, numbers.get(each.id))
            except ConfigError as error:
                self._vpcs.pop(each.id, None)
                self._refused[each.id] = error.problems[0]

    def _with_lists(self, lists: Desired, message: pb.NetworkUpdate) -> Desired:
        """Return the lists with those of a message in their place."""
        network = lists.network
        if message.HasField("peerings"):
            network = replace(network, peerings=peerings_from(message.peerings))
        if message.HasField("border"):
            network, lists = replace(network, border=border_from(message.border)), replace(lists, has_border=True)
        lists = replace(lists, network=network)
        if message.HasField("load_balancers"):
            self._services_refused = {}
            found = self._services(message.load_balancers.load_balancers, load_balancer_from)
            lists = replace(lists, load_balancers=found)
        if message.HasField("virtual_ips"):
            lists = replace(lists, virtual_ips=self._services(message.virtual_ips.virtual_ips, virtual_ip_from))
        if not message.HasField("gateways"):
            return lists
        try:
            gateways = {each.gateway_id: IPv4Address(each.vtep_ip) for each in message.gateways.gateways}
        except ValueError as error:
            raise ConfigError([f"gateways: {error}"]) from None
        return replace(lists, gateways=gateways)

    def _services(self, messages: Iterable[Any], decode: Callable[[Any], Value]) -> tuple[Value, ...]:
        found = []
        for each in messages:
            try:
                found.append(decode(each))
            except ConfigError as error:
                self._services_refused[each.vpc_id] = error.problems[0]
        return tuple(found)

    def _refuse_strangers(self, made: Desired) -> None:
        """Refuse peerings and load balancers of VPCs that were never sent: the messages contradict each other."""
        sent = self._vpcs.keys() | self._refused.keys()
        refuse(f"peering {p.a} with {p.b}: a VPC is missing" for p in made.network.peerings if not {p.a, p.b} <= sent)
        refuse(
            f"load balancer {each.id}: its vpc {each.vpc} is missing"
            for each in made.load_balancers
            if each.vpc not in sent
        )

    def _with_former(self, made: Desired) -> Desired:
        """Return a state with what stays in force of the one before: VPCs refused here, and those not known there."""
        if self._refused or self._services_refused:
            made = _with_refused(made, self.desired or self._former, self._refused, self._services_refused)
        if self._unknown or not made.has_border:
            made = with_unknown(made, self._former, self._unknown, keeps_border=not made.has_border)
        return made


def _with_refused(made: Desired, before: Desired, refused: dict[str, str], services: dict[str, str]) -> Desired:
    """Return a state in which VPCs that could not be decoded, or whose services could not, are as they were before."""
    claims = claims_by(made.network.vpcs)
    fits = [fitted(vpc, claims) for vpc in before.network.vpcs if vpc.id in refused]
    stale = {vpc.id: vpc for vpc in fits if vpc is not None}
    here = {vpc.id for vpc in made.network.vpcs} | stale.keys()
    network = replace(
        made.network,
        vpcs=(*made.network.vpcs, *stale.values()),
        peerings=frozenset(each for each in made.network.peerings if {each.a, each.b} <= here),
    )
    old = (refused.keys() | services.keys()) & here

    def served(newer: Iterable[Any], older: Iterable[Any]) -> tuple[Any, ...]:
        mine = (each for each in older if each.vpc in old)
        return (*(each for each in newer if each.vpc in here - old), *mine)

    why = {
        vpc: f"{'its state of before stays in force' if vpc in here else 'it is not served'}: {text}"
        for vpc, text in {**services, **refused}.items()
    }
    return replace(
        made,
        network=network,
        load_balancers=served(made.load_balancers, before.load_balancers),
        virtual_ips=served(made.virtual_ips, before.virtual_ips),
        refused=why,
    )
