"""A client of a controller for asyncio; its calls are those of `blocking`, awaited."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from heddle.client import calls
from heddle.client.connection import CONNECT_TIMEOUT_S, OPTIONS, Client, error_of
from heddle.client.topology import fabric_of
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.foundation.channel import aio_channel_to
from heddle.v1 import heddle_pb2 as pb


def connect_async(
    server: str, *, tls_directory: str | None = None, timeout_s: float = CONNECT_TIMEOUT_S
) -> "AsyncController":  # fmt: skip
    """Return a client for asyncio; arguments and errors are those of `connect`."""
    return AsyncController(calls.Followed(server, tls_directory, timeout_s))


class AsyncController:
    """A controller that a program with an event loop calls; an asynchronous context manager.

    Methods, replies and errors are those of `Controller`; streams are asynchronous iterators.
    """

    def __init__(self, followed: calls.Followed) -> None:
        self._followed = followed
        self._lock = asyncio.Lock()
        self._channels: list[grpc.aio.Channel] = []
        """The last one is in use; calls on those before it may not have ended."""
        self._address = ""

    async def __aenter__(self) -> "AsyncController":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        await self.close()

    async def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._address = ""
        while self._channels:
            await self._channels.pop().close()

    async def call(self, call: calls.Call) -> Any:
        """Make any call of the contract by a function of the stubs, as `Controller.call` does."""
        while True:
            address = self._address or await self._follow("")
            try:
                return await call(Client(self._channels[-1]))
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or await self._follow(address) == address:
                    raise error_of(error) from None

    async def _follow(self, failed: str) -> str:
        """Connect to the controller that leads, if it is not the one that failed; return its address.

        The search blocks, so it has a thread.
        """
        async with self._lock:
            if self._address == failed and (found := await asyncio.to_thread(self._followed.address)) != failed:
                self._channels.append(aio_channel_to(found, OPTIONS, self._followed.tls))
                self._address = found
            return self._address

    async def topology(self) -> pb.Topology:
        """Return switches, links and NICs with their state and load."""
        found: pb.Topology = await self.call(calls.topology())
        return found

    async def fabric(self) -> Fabric:
        """Return the fabric of the controller, to plan on it offline."""
        return fabric_of(await self.topology())

    async def submit(self, job: JobRequest) -> pb.JobPlan:
        """Submit a job and return its plan, once every switch has acknowledged its rules."""
        plan: pb.JobPlan = await self.call(calls.submit(job))
        return plan

    async def preview(self, job: JobRequest) -> pb.JobPlan:
        """Return the plan that a job would get now, and install nothing."""
        plan: pb.JobPlan = await self.call(calls.preview(job))
        return plan

    async def job(self, job_id: str) -> pb.JobPlan:
        """Return the plan that a job has now; raises NotFoundError."""
        plan: pb.JobPlan = await self.call(calls.job(job_id))
        return plan

    async def jobs(self, tenant: str = "") -> list[pb.JobPlan]:
        """Return all jobs that hold paths, or those of a tenant, without their flows."""
        found: list[pb.JobPlan] = []
        token: str | None = ""
        while token is not None:
            page = await self.call(calls.jobs(tenant, token))
            found.extend(page.jobs)
            token = page.next_page_token or None
        return found

    async def renew(self, job_id: str, lease_ms: int) -> pb.JobPlan:
        """Extend a job's lease to `lease_ms` milliseconds from now; raises NotFoundError."""
        plan: pb.JobPlan = await self.call(calls.renew(job_id, lease_ms))
        return plan

    async def release(self, job_id: str) -> None:
        """End a job; raises NotFoundError."""
        await self.call(calls.release(job_id))

    async def flows(self, job_id: str) -> AsyncIterator[pb.FlowPlan]:
        """Yield all flows of a job; raises NotFoundError."""
        async for page in self._streamed(calls.flows(job_id)):
            for flow in page.flows:
                yield flow

    def watch(self, job_id: str) -> AsyncIterator[pb.JobPlan]:
        """Yield the plan of a job, then each later generation until the job ends; raises UnavailableError."""
        return self._streamed(calls.watch(job_id))

    async def _streamed(self, call: calls.Call) -> AsyncIterator[Any]:
        """Yield the messages of a stream; of the first one, as of any call, it follows the leader."""
        stream, first = await self.call(lambda stubs: _begun(call(stubs)))
        try:
            while first is not grpc.aio.EOF:
                yield first
                first = await stream.read()
        except grpc.RpcError as error:
            raise error_of(error) from None
        finally:
            stream.cancel()


async def _begun(stream: Any) -> tuple[Any, Any]:
    """Return a stream and its first message."""
    return stream, await stream.read()
