"""Connect to the controller that leads over gRPC; its status codes become HeddleErrors."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from heddle.controller.model.error import (
    AlreadyExistsError,
    BudgetExceededError,
    DeniedError,
    HeddleError,
    InputError,
    NoAdmissiblePlanError,
    NotFoundError,
    UnavailableError,
)
from heddle.foundation.channel import channel_to
from heddle.foundation.identity import TLS_VARIABLE
from heddle.foundation.keepalive import client_options
from heddle.foundation.leader_address import LeaderAddress
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

if TYPE_CHECKING:
    from heddle.foundation.tls_files import Tls

CONNECT_TIMEOUT_S = 5.0
CAUSE_TIMEOUT_S = 2.0
FOLLOW_S = 0.1
CLOSED = ("Socket closed", "reset by peer", "closed")
JOBS = pb.DESCRIPTOR.services_by_name["JobService"].full_name
HEALTH = health_pb2.HealthCheckRequest(service=JOBS)
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
MAX_REPLY_BYTES = 256 << 20
OPTIONS = [("grpc.max_receive_message_length", MAX_REPLY_BYTES), *client_options()]
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

    def __init__(self, channel: "grpc.Channel | grpc.aio.Channel") -> None:
        self.jobs = rpc.JobServiceStub(channel)
        self.fabric = rpc.FabricServiceStub(channel)
        self.telemetry = rpc.TelemetryServiceStub(channel)
        self.vpcs = rpc.VpcServiceStub(channel)
        self.gateways = rpc.GatewayServiceStub(channel)


@contextmanager
def connected(server: str) -> Iterator[Client]:
    """Connect to `server` (ADDR:PORT, several with commas between them); raises HeddleErrors instead of gRPC errors.

    TLS is in use where HEDDLE_TLS is set. Of several controllers, it is the one that leads.
    """
    with open_leading(LeaderAddress(server), user_tls()) as channel:
        try:
            yield Client(channel)
        except grpc.RpcError as error:
            raise error_of(error) from None


def error_of(error: grpc.RpcError) -> HeddleError:
    """Return what a gRPC error means."""
    return _ERRORS.get(error.code(), HeddleError)(error.details() or str(error.code()))


def open_leading(addresses: LeaderAddress, tls: "Tls | None", timeout_s: float | None = None) -> grpc.Channel:
    """Open a channel to the controller that leads; raises UnavailableError where none does in time.

    `timeout_s` is CONNECT_TIMEOUT_S by default.
    """
    timeout_s = CONNECT_TIMEOUT_S if timeout_s is None else timeout_s
    end = time.monotonic() + timeout_s
    why = ""
    while (left_s := end - time.monotonic()) > 0:
        address = addresses.current
        channel = channel_to(address, OPTIONS, tls)
        try:
            grpc.channel_ready_future(channel).result(timeout=min(left_s, timeout_s / len(addresses)))
            refusal = refusal_of(channel)
            if refusal is None:
                return channel
            why = refusal.details() or why
            addresses.failed(refusal.trailing_metadata())
        except grpc.FutureTimeoutError:
            why = unreachable(address, channel, has_tls=tls is not None)
            addresses.failed()
            channel.close()
            continue
        except BaseException:
            channel.close()
            raise
        channel.close()
        time.sleep(FOLLOW_S)
    raise UnavailableError(why)


def refusal_of(channel: grpc.Channel) -> grpc.RpcError | None:
    """Return why this controller serves no calls, which is that it does not lead; None where it serves them."""
    try:
        if health_pb2_grpc.HealthStub(channel).Check(HEALTH, timeout=CONNECT_TIMEOUT_S).status != NOT_SERVING:
            return None
        rpc.JobServiceStub(channel).GetJob(pb.GetJobRequest(), timeout=CONNECT_TIMEOUT_S)
    except grpc.RpcError as error:
        return error if error.code() is grpc.StatusCode.UNAVAILABLE else None
    return None


def user_tls(directory: str | None = None) -> "Tls | None":
    """Return the TLS of the certificate in a directory, by default that of HEDDLE_TLS, None without one.

    Raises InputError.
    """
    directory = directory or os.environ.get(TLS_VARIABLE)
    if not directory:
        return None
    from heddle.foundation.certificate import CertificateError
    from heddle.foundation.tls_files import named_tls

    try:
        return named_tls(directory, lambda line: None)
    except CertificateError as error:
        raise InputError(f"{TLS_VARIABLE}: {error}; `heddle pki issue` writes them") from None


def unreachable(server: str, channel: grpc.Channel, *, has_tls: bool) -> str:
    """Return why a server cannot be reached; gRPC reports the cause to a call only."""
    try:
        rpc.FabricServiceStub(channel).GetTopology(pb.GetTopologyRequest(), timeout=CAUSE_TIMEOUT_S)
    except grpc.RpcError as error:
        cause = error.details() or ""
        ended = any(text in cause for text in CLOSED)
        if has_tls and (ended or "SSL" in cause):
            return f"{server}: {_tls_cause(cause)}"
        if not has_tls and ended:
            return f"{server} ends connections; if it speaks TLS, {TLS_VARIABLE} names your certificate's directory"
    return f"no controller at {server}; start one with `heddle run FABRIC` or name it by --server"


def _tls_cause(cause: str) -> str:
    """Return the part of OpenSSL's error that a person can use."""
    remedy = f"is {TLS_VARIABLE} of this fabric, and not expired?"
    if "CERTIFICATE_VERIFY_FAILED" in cause:
        return f"its certificate is refused ({cause.rpartition('CERTIFICATE_VERIFY_FAILED: ')[2]}); {remedy}"
    if "WRONG_VERSION_NUMBER" in cause:
        return f"it speaks no TLS; unset {TLS_VARIABLE}"
    return f"it refuses the certificate in {os.environ.get(TLS_VARIABLE)}; {remedy}"
