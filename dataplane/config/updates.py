"""Encode updates of the desired state: the difference of two states, in messages of bounded size.

`replica.Replica` applies them: a receiver that applies every message of a session has exactly the sender's state.
"""

from collections.abc import Iterator

from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.incarnations import are_same_peerings, is_unchanged
from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.config.wire import border_to, vpc_to
from heddle.dataplane.config.wire_balancers import load_balancer_to, virtual_ip_to
from heddle.dataplane.config.wire_incarnations import add_numbers, peerings_to
from heddle.v1 import heddle_pb2 as pb

MAX_UPDATE_BYTES = 1 << 20
"""Size above which a new message begins; a message with a single VPC may be larger."""
MAX_MESSAGE_BYTES = 64 << 20
"""gRPC's message size limit, to be set at the receiver."""


def updates(before: Desired | None, after: Desired) -> Iterator[pb.NetworkUpdate]:
    """Yield the messages that turn one state into another, at least one; `before` None stands for an empty receiver.

    What the receiver is to keep of earlier generations is said with a whole state only (`Desired.known_since`).
    """
    if before is not None and before.known_since != after.known_since:
        before = None
    old = before.network if before is not None else NetworkConfig()
    new = after.network
    had = {vpc.id: vpc for vpc in old.vpcs}
    kept = {vpc.id for vpc in new.vpcs}
    message = pb.NetworkUpdate(generation=new.generation, whole=before is None)
    message.known_since = after.known_since if before is None else 0
    message.deleted_vpcs.extend(vpc for vpc in had if vpc not in kept)
    message.deleted_vpcs.extend(sorted(after.ended - kept - had.keys()))
    if before is None or not are_same_peerings(old.peerings, new.peerings):
        message.peerings.CopyFrom(peerings_to(new.peerings))
        message.peerings.SetInParent()
    if after.has_border and (before is None or not before.has_border or old.border != new.border):
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
