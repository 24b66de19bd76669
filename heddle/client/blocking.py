"""A client of a controller for programs without an event loop."""

from collections.abc import Iterator
from threading import Lock
from types import TracebackType
from typing import Any

import grpc

from heddle.client import calls
from heddle.client.connection import CONNECT_TIMEOUT_S, OPTIONS, Client, error_of
from heddle.client.topology import fabric_of
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.foundation.channel import channel_to
from heddle.v1 import heddle_pb2 as pb


def connect(
    server: str, *, tls_directory: str | None = None, timeout_s: float = CONNECT_TIMEOUT_S
) -> "Controller":  # fmt: skip
    """Return a client of the controller at `server`: ADDR:PORT or unix:/PATH, several with commas between them.

    `timeout_s` is the time in seconds within which one of them has to lead. It connects on the first call. Raises
    InputError for a certificate that cannot be read.
    """
    return Controller(calls.Followed(server, tls_directory, timeout_s))


class Controller:
    """A controller that a program calls; a context manager, which closes the connection. Threads may share one.

    Replies are messages of the public contract (heddle/v1/heddle.proto). Every method raises HeddleErrors:
    UnavailableError where no controller leads in time or a switch does not reply.
    """

    def __init__(self, followed: calls.Followed) -> None:
        self._followed = followed
        self._lock = Lock()
        self._channels: list[grpc.Channel] = []
        """The last one is in use; calls on those before it may not have ended."""
        self._address = ""

    def __enter__(self) -> "Controller":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        while self._channels:
            self._channels.pop().close()
        self._address = ""

    def call(self, call: calls.Call) -> Any:
        """Make any call of the contract: `call(lambda stubs: stubs.vpcs.ListVpcs(request))`.

        The stubs are `jobs`, `fabric`, `telemetry`, `vpcs` and `gateways`. Where another controller leads by now, the
        call is repeated there: the function may run twice.
        """
        while True:
            address = self._address or self._follow("")
            try:
                return call(Client(self._channels[-1]))
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or self._follow(address) == address:
                    raise error_of(error) from None

    def _follow(self, failed: str) -> str:
        """Connect to the controller that leads, if it is not the one that failed; return its address."""
        with self._lock:
            if self._address == failed and (found := self._followed.address()) != failed:
                self._channels.append(channel_to(found, OPTIONS, self._followed.tls))
                self._address = found
            return self._address

    def topology(self) -> pb.Topology:
        """Return switches, links and NICs with their state and load."""
        found: pb.Topology = self.call(calls.topology())
        return found

    def fabric(self) -> Fabric:
        """Return the fabric of the controller, to plan on it offline; rule budgets and failures are not part of it."""
        return fabric_of(self.topology())

    def submit(self, job: JobRequest) -> pb.JobPlan:
        """Submit a job and return its plan, once every switch has acknowledged its rules.

        The same request again returns the plan that the job has. A large plan has `flows_truncated`: `flows` has all.
        Raises InputError, NoAdmissiblePlanError, BudgetExceededError, AlreadyExistsError, UnavailableError.
        """
        plan: pb.JobPlan = self.call(calls.submit(job))
        return plan

    def preview(self, job: JobRequest) -> pb.JobPlan:
        """Return the plan that a job would get now, and install nothing."""
        plan: pb.JobPlan = self.call(calls.preview(job))
        return plan

    def job(self, job_id: str) -> pb.JobPlan:
        """Return the plan that a job has now; raises NotFoundError."""
        plan: pb.JobPlan = self.call(calls.job(job_id))
        return plan

    def jobs(self, tenant: str = "") -> list[pb.JobPlan]:
        """Return all jobs that hold paths, or those of a tenant, without their flows."""
        found: list[pb.JobPlan] = []
        token: str | None = ""
        while token is not None:
            page = self.call(calls.jobs(tenant, token))
            found.extend(page.jobs)
            token = page.next_page_token or None
        return found

    def renew(self, job_id: str, lease_ms: int) -> pb.JobPlan:
        """Extend a job's lease to `lease_ms` milliseconds from now; raises NotFoundError."""
        plan: pb.JobPlan = self.call(calls.renew(job_id, lease_ms))
        return plan

    def release(self, job_id: str) -> None:
        """End a job; raises NotFoundError."""
        self.call(calls.release(job_id))

    def flows(self, job_id: str) -> Iterator[pb.FlowPlan]:
        """Yield all flows of a job; raises NotFoundError."""
        for page in self._streamed(calls.flows(job_id)):
            yield from page.flows

    def watch(self, job_id: str) -> Iterator[pb.JobPlan]:
        """Yield the plan of a job, then each later generation until the job ends.

        Raises UnavailableError where the controller ends; watch again to go on with the one that leads then.
        """
        return self._streamed(calls.watch(job_id))

    def _streamed(self, call: calls.Call) -> Iterator[Any]:
        """Yield the messages of a stream; of the first one, as of any call, it follows the leader."""
        stream, first = self.call(lambda stubs: _begun(call(stubs)))
        try:
            yield from first
            yield from stream
        except grpc.RpcError as error:
            raise error_of(error) from None
        finally:
            stream.cancel()


def _begun(stream: Any) -> tuple[Any, list[Any]]:
    """Return a stream and its first message, in a list that is empty where it has none."""
    first = next(stream, None)
    return stream, [] if first is None else [first]
