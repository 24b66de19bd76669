"""Changes of a network on their way to a gateway or a host: cut from two states here, put together there.

`updates` writes the difference between what somebody has and what there is, in messages of bounded size; `Replica`
reads them back. Whoever applies every message of a session holds the last one's state exactly.
"""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from dataplane.config.desired import Desired
from dataplane.config.network import NetworkConfig, Vpc
from dataplane.config.refusal import ConfigError, refuse
from dataplane.config.wire import border_from, border_to, peering_from, peering_to, vpc_from, vpc_to

MAX_UPDATE_BYTES = 1 << 20
"""A message is closed once it is larger; a VPC of its own may be larger still."""
MAX_MESSAGE_BYTES = 64 << 20
"""What the receiver's channel has to take."""


def updates(before: Desired | None, after: Desired) -> Iterator[pb.NetworkUpdate]:
    """Write what turns one state into another, None standing for nothing known: at least one message."""
    old = before.network if before is not None else NetworkConfig()
    new = after.network
    had = {vpc.id: vpc for vpc in old.vpcs}
    kept = {vpc.id for vpc in new.vpcs}
    message = pb.NetworkUpdate(generation=new.generation, whole=before is None)
    message.deleted_vpcs.extend(vpc for vpc in had if vpc not in kept)
    if before is None or old.peerings != new.peerings:
        message.peerings.peerings.extend(peering_to(peering) for peering in sorted(new.peerings))
        message.peerings.SetInParent()
    if before is None or old.border != new.border:
        message.border.CopyFrom(border_to(new.border))
        message.border.SetInParent()
    if before is None or before.gateways != after.gateways:
        for gateway, vtep in sorted(after.gateways.items()):
            message.gateways.gateways.add(gateway_id=gateway, vtep_ip=str(vtep))
        message.gateways.SetInParent()
    size = message.ByteSize()
    for vpc in new.vpcs:
        if had.get(vpc.id) is vpc or had.get(vpc.id) == vpc:
            continue
        written = vpc_to(vpc)
        if message.vpcs and size + written.ByteSize() > MAX_UPDATE_BYTES:
            message.more = True
            yield message
            message, size = pb.NetworkUpdate(generation=new.generation), 0
        message.vpcs.append(written)
        size += written.ByteSize()
    yield message


class Replica:
    """What updates amount to. A generation is there only when its last message came."""

    def __init__(self) -> None:
        self.desired: Desired | None = None
        self._growing: Desired | None = None
        self._vpcs: dict[str, Vpc] = {}
        self._is_behind = False

    def apply(self, message: pb.NetworkUpdate) -> Desired | None:
        """Take a message; return the state where a generation became complete.

        Raises ConfigError where the message is none that `updates` writes; what was there before stays, and only a whole is
        taken from then on: the sender takes it that the refused one is there.
        """
        try:
            return self._applied(message)
        except ConfigError:
            self._growing, self._is_behind = None, True
            raise

    def _applied(self, message: pb.NetworkUpdate) -> Desired | None:
        if message.whole:
            self._growing, self._vpcs, self._is_behind = Desired(), {}, False
        elif self._is_behind:
            raise ConfigError([f"generation {message.generation}: an earlier one was refused; attach anew"])
        elif self._growing is None:
            if self.desired is None:
                raise ConfigError([f"generation {message.generation}: a change came before the whole"])
            self._growing, self._vpcs = self.desired, {vpc.id: vpc for vpc in self.desired.network.vpcs}
        for vpc in message.deleted_vpcs:
            self._vpcs.pop(vpc, None)
        for told in message.vpcs:
            read = vpc_from(told)
            self._vpcs[read.id] = read
        self._growing = _with_lists(self._growing, message)
        if message.more:
            return None
        network = replace(self._growing.network, generation=message.generation, vpcs=tuple(self._vpcs.values()))
        _refuse_strangers(network)
        self.desired, self._growing = replace(self._growing, network=network), None
        return self.desired


def _with_lists(desired: Desired, message: pb.NetworkUpdate) -> Desired:
    network = desired.network
    if message.HasField("peerings"):
        network = replace(network, peerings=frozenset(peering_from(each) for each in message.peerings.peerings))
    if message.HasField("border"):
        network = replace(network, border=border_from(message.border))
    if not message.HasField("gateways"):
        return replace(desired, network=network)
    try:
        gateways = {each.gateway_id: IPv4Address(each.vtep_ip) for each in message.gateways.gateways}
    except ValueError as error:
        raise ConfigError([f"gateways: {error}"]) from None
    return Desired(network=network, gateways=gateways)


def _refuse_strangers(network: NetworkConfig) -> None:
    """A peering without its VPCs has no tables."""
    known = {vpc.id for vpc in network.vpcs}
    refuse(f"peering {p.a} with {p.b}: a VPC is missing" for p in network.peerings if not {p.a, p.b} <= known)
