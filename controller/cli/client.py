"""Connect to a running controller over gRPC; its status codes become HeddleErrors."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from controller.api.proto.heddle.v1 import heddle_pb2 as pb
from controller.api.proto.heddle.v1 import heddle_pb2_grpc as rpc
from controller.model.address import parse_ip, parse_mac
from controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    HeddleError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from foundation.keepalive import client_options
from foundation.leader_address import LeaderAddress

CONNECT_TIMEOUT_S = 5.0
FOLLOW_S = 0.1
JOBS = pb.DESCRIPTOR.services_by_name["JobService"].full_name
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
MAX_REPLY_BYTES = 256 << 20
_ERRORS: dict[grpc.StatusCode, type[HeddleError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InputError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
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
    """Connect to `server` (ADDR:PORT, several with commas between them); raises HeddleErrors instead of gRPC errors.

    Of several controllers, it is the one that leads.
    """
    with _leading(server) as channel:
        try:
            yield Client(channel)
        except grpc.RpcError as error:
            raise _ERRORS.get(error.code(), HeddleError)(error.details() or str(error.code())) from None


@contextmanager
def _leading(server: str) -> Iterator[grpc.Channel]:
    """Connect to the controller that leads; raises UnavailableError where none does in time."""
    options = [("grpc.max_receive_message_length", MAX_REPLY_BYTES), *client_options()]
    addresses = LeaderAddress(server)
    end = time.monotonic() + CONNECT_TIMEOUT_S
    why = f"no controller at {server}; start one with `heddle run FABRIC` or name it by --server"
    while (left_s := end - time.monotonic()) > 0:
        with grpc.insecure_channel(addresses.current, options=options) as channel:
            try:
                grpc.channel_ready_future(channel).result(timeout=min(left_s, CONNECT_TIMEOUT_S / len(addresses)))
            except grpc.FutureTimeoutError:
                addresses.failed()
                continue
            refusal = _refusal(channel)
            if refusal is None:
                yield channel
                return
            why = refusal.details() or why
            addresses.failed(refusal.trailing_metadata())
        time.sleep(FOLLOW_S)
    raise UnavailableError(why)


def _refusal(channel: grpc.Channel) -> grpc.RpcError | None:
    """Return why this controller serves no calls, which is that it does not lead; None where it serves them."""
    asked = health_pb2.HealthCheckRequest(service=JOBS)
    try:
        if health_pb2_grpc.HealthStub(channel).Check(asked, timeout=CONNECT_TIMEOUT_S).status != NOT_SERVING:
            return None
        rpc.JobServiceStub(channel).GetJob(pb.GetJobRequest(), timeout=CONNECT_TIMEOUT_S)
    except grpc.RpcError as error:
        return error if error.code() is grpc.StatusCode.UNAVAILABLE else None
    return None


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
