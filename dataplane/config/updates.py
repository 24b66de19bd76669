"""Incremental updates of the desired state: the difference of two states as messages, and the receiver's replica.

`updates` encodes the difference between two states in messages of bounded size; `Replica` applies them. A receiver that
applies every message of a session has exactly the sender's state.
"""

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address

from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.incarnations import are_same_peerings, carried, is_unchanged
from heddle.dataplane.config.network import NetworkConfig, Vpc
from heddle.dataplane.config.refusal import ConfigError, refuse
from heddle.dataplane.config.wire import border_from, border_to, vpc_to
from heddle.dataplane.config.wire_balancers import load_balancer_from, load_balancer_to, virtual_ip_from, virtual_ip_to
from heddle.dataplane.config.wire_incarnations import add_numbers, peerings_from, peerings_to, vpcs_from
from heddle.v1 import heddle_pb2 as pb

MAX_UPDATE_BYTES = 1 << 20
"""Size above which a new message begins; a message with a single VPC may be larger."""
MAX_MESSAGE_BYTES = 64 << 20
"""gRPC's message size limit, to be set at the receiver."""


def updates(before: Desired | None, after: Desired) -> Iterator[pb.NetworkUpdate]:
    """Yield the messages that turn one state into another, at least one; `before` None stands for an empty receiver."""
    old = before.network if before is not None else NetworkConfig()
    new = after.network
    had = {vpc.id: vpc for vpc in old.vpcs}
    kept = {vpc.id for vpc in new.vpcs}
    message = pb.NetworkUpdate(generation=new.generation, whole=before is None)
    message.deleted_vpcs.extend(vpc for vpc in had if vpc not in kept)
    if before is None or not are_same_peerings(old.peerings, new.peerings):
        message.peerings.CopyFrom(peerings_to(new.peerings))
        message.peerings.SetInParent()
    if before is None or old.border != new.border:
        message.border.CopyFrom(border_to(new.border))
        message.border.SetInParent()
    if before is None or before.gateways != after.gateways:
        for gateway, vtep in sorted(after.gateways.items()):
            message.gateways.gateways.add(gateway_id=gateway, vtep_ip=str(vtep))
        message.gateways.SetInParent()
    _add_services(message, before or Desired(), after)
    size = message.ByteSize()
    for vpc in new.vpcs:
        if is_unchanged(had.get(vpc.id), vpc):
            continue
        written = vpc_to(vpc)
        if message.vpcs and size + written.ByteSize() > MAX_UPDATE_BYTES:
            message.more = True
            yield message
            message, size = pb.NetworkUpdate(generation=new.generation), 0
        message.vpcs.append(written)
        add_numbers(message, vpc)
        size += written.ByteSize()
    yield message


def _add_services(message: pb.NetworkUpdate, before: Desired, after: Desired) -> None:
    """Add load balancers and virtual IPs, where they differ."""
    if before.load_balancers != after.load_balancers:
        message.load_balancers.load_balancers.extend(map(load_balancer_to, after.load_balancers))
        message.load_balancers.SetInParent()
    if before.virtual_ips != after.virtual_ips:
        message.virtual_ips.virtual_ips.extend(map(virtual_ip_to, after.virtual_ips))
        message.virtual_ips.SetInParent()


class Replica:
    """The receiver's state. A generation takes effect only with its last message."""

    def __init__(self) -> None:
        self.desired: Desired | None = None
        self._growing: Desired | None = None
        self._vpcs: dict[str, Vpc] = {}
        self._is_behind = False

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
            self._growing, self._vpcs, self._is_behind = Desired(), {}, False
        elif self._is_behind:
            raise ConfigError([f"generation {message.generation}: an earlier one was refused; attach anew"])
        elif self._growing is None:
            if self.desired is None:
                raise ConfigError([f"generation {message.generation}: a change came before the whole"])
            self._growing, self._vpcs = self.desired, {vpc.id: vpc for vpc in self.desired.network.vpcs}
        for deleted in message.deleted_vpcs:
            self._vpcs.pop(deleted, None)
        for each in vpcs_from(message):
            self._vpcs[each.id] = each
        self._growing = _with_lists(self._growing, message)
        if message.more:
            return None
        network = replace(self._growing.network, generation=message.generation, vpcs=tuple(self._vpcs.values()))
        network = carried(self.desired.network if self.desired else NetworkConfig(), network)
        _refuse_strangers(network)
        refuse(
            f"load balancer {each.id}: its vpc {each.vpc} is missing"
            for each in self._growing.load_balancers
            if each.vpc not in self._vpcs
        )
        self.desired, self._growing = replace(self._growing, network=network), None
        return self.desired


def _with_lists(desired: Desired, message: pb.NetworkUpdate) -> Desired:
    network = desired.network
    if message.HasField("peerings"):
        network = replace(network, peerings=peerings_from(message.peerings))
    if message.HasField("border"):
        network = replace(network, border=border_from(message.border))
    desired = replace(desired, network=network)
    if message.HasField("load_balancers"):
        found = tuple(map(load_balancer_from, message.load_balancers.load_balancers))
        desired = replace(desired, load_balancers=found)
    if message.HasField("virtual_ips"):
        desired = replace(desired, virtual_ips=tuple(map(virtual_ip_from, message.virtual_ips.virtual_ips)))
    if not message.HasField("gateways"):
        return desired
    try:
        gateways = {each.gateway_id: IPv4Address(each.vtep_ip) for each in message.gateways.gateways}
    except ValueError as error:
        raise ConfigError([f"gateways: {error}"]) from None
    return replace(desired, gateways=gateways)


def _refuse_strangers(network: NetworkConfig) -> None:
    """Refuse peerings whose VPCs are missing: no tables can be compiled for them."""
    known = {vpc.id for vpc in network.vpcs}
    refuse(f"peering {p.a} with {p.b}: a VPC is missing" for p in network.peerings if not {p.a, p.b} <= known)
