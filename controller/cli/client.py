"""Connect to a running controller over gRPC; its status codes become HeddleErrors."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.api.proto.heddle.v1 import heddle_pb2_grpc as rpc
from controller.model.address import parse_ip, parse_mac
from controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    DeniedError,
    HeddleError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from foundation.keepalive import client_options

CONNECT_TIMEOUT_S = 5.0
MAX_REPLY_BYTES = 256 << 20
_ERRORS: dict[grpc.StatusCode, type[HeddleError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InputError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.PERMISSION_DENIED: DeniedError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: BudgetExceededError,
    grpc.StatusCode.FAILED_PRECONDITION: NoAdmissiblePlanError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
}


class Client:
    """The stubs of a controller's gRPC services."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.jobs = rpc.JobServiceStub(channel)
        self.fabric = rpc.FabricServiceStub(channel)
        self.telemetry = rpc.TelemetryServiceStub(channel)
        self.vpcs = rpc.VpcServiceStub(channel)
        self.gateways = rpc.GatewayServiceStub(channel)


@contextmanager
def connected(server: str) -> Iterator[Client]:
    """Connect to `server` (ADDR:PORT); raises HeddleErrors instead of gRPC errors."""
    options = [("grpc.max_receive_message_length", MAX_REPLY_BYTES), *client_options()]
    with grpc.insecure_channel(server, options=options) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=CONNECT_TIMEOUT_S)
        except grpc.FutureTimeoutError:
            raise UnavailableError(
                f"no controller at {server}; start one with `heddle run FABRIC` or name it by --server"
            ) from None
        try:
            yield Client(channel)
        except grpc.RpcError as error:
            raise _ERRORS.get(error.code(), HeddleError)(error.details() or str(error.code())) from None


def fabric_of(topology: pb.Topology) -> Fabric:
    """Return the fabric of a topology message, with the fields that a jobs file needs."""
    switches = tuple(
        Switch(id=switch.id, role=Role(switch.role), datapath_id=switch.datapath_id) for switch in topology.switches
    )
    tiers = {switch.id: switch.role.tier for switch in switches}
    cables = []
    for link in topology.links:
        if ":" in link.src and ":" in link.dst:
            src, dst = _port(link.src), _port(link.dst)
            if tiers[src.switch] < tiers[dst.switch]:
                cables.append(Cable(lower=src, upper=dst, capacity_bps=link.capacity_bps))
    return Fabric(
        name="running", switches=switches, cables=tuple(cables), nics=tuple(_nic(nic) for nic in topology.nics)
    )


def _port(text: str) -> PortRef:
    switch, number = text.rsplit(":", 1)
    return PortRef(switch, int(number))


def _nic(nic: pb.Nic) -> Nic:
    return Nic(
        id=nic.id,
        host=nic.host,
        ip=parse_ip(nic.ip),
        mac=parse_mac(nic.mac),
        port=_port(nic.leaf_port),
        capacity_bps=nic.capacity_bps,
        rail=nic.rail,
        network=nic.network,
    )
