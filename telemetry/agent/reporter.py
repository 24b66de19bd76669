"""Report a host's queue pairs to the controller over ReportFlows: each period, what `rdma -j resource show qp` lists.

Nothing is kept while the controller cannot be reached: the next report names all queue pairs again. The list has no
bytes, so no queue pair is reported as measured.
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from heddle.foundation.backoff import Backoff
from heddle.foundation.channel import aio_channel_to
from heddle.foundation.leader_address import LeaderAddress
from heddle.foundation.tls_files import Tls
from heddle.telemetry.agent.sources.ethtool import rdma_devices
from heddle.telemetry.agent.sources.rdma_queue_pairs import NotQueuePairsError, queue_pairs
from heddle.telemetry.complaint import Complaints
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

PROGRAM = ("rdma", "-j", "resource", "show", "qp")
PERIOD_S = 5.0
TIMEOUT_S = 5.0
MAX_LIST_BYTES = 16 << 20
MAX_QUEUE_PAIRS = 16_384
"""The controller reads so many of one report."""
OPTIONS = (("grpc.max_reconnect_backoff_ms", 5_000),)
log = logging.getLogger(__name__)


class ListError(Exception):
    """The queue pairs of this host cannot be listed now."""


class QueuePairReporter:
    """Reports until it is cancelled. `address_of` has the IPv4 address of each network device.

    `reports`, `connects`, `faults` and `left_out` (queue pairs past MAX_QUEUE_PAIRS) are cumulative counts.
    """

    def __init__(
        self, server: str, host: str, address_of: Mapping[str, str], *, program: Sequence[str] = PROGRAM,
        period_s: float = PERIOD_S, root: Path = Path("/"), backoff: Backoff | None = None,
        tls: Tls | None = None,
    ) -> None:  # fmt: skip
        self._server, self._host, self._address_of = server, host, dict(address_of)
        self._program, self._period_s, self._root = tuple(program), period_s, root
        self._tls = tls
        self._backoff = backoff or Backoff(first_s=0.5, max_s=30.0, steady_s=30.0)
        self._complaints = Complaints()
        self.reports = self.connects = self.faults = self.left_out = 0

    def counts(self) -> dict[str, int]:
        """Return cumulative counts by name."""
        return {
            "reports": self.reports,
            "report_streams": self.connects,
            "report_faults": self.faults,
            "queue_pairs_left_out": self.left_out,
        }

    async def run(self) -> None:
        """Keep a stream to the controller open, and report on it every period."""
        attempt = 0
        server = LeaderAddress(self._server)
        while True:
            began, attempt = time.monotonic(), attempt + 1
            trailers = None
            try:
                async with aio_channel_to(server.current, OPTIONS, self._tls) as channel:
                    await self._stream(rpc.JobServiceStub(channel))
            except (grpc.RpcError, TimeoutError, asyncio.InvalidStateError) as fault:
                if isinstance(fault, grpc.aio.AioRpcError):
                    trailers = fault.trailing_metadata()
                self._complain(fault.details() if isinstance(fault, grpc.aio.AioRpcError) else str(fault))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._complain("the controller has cancelled the stream")  # gRPC raises the same error for it
            server.failed(trailers)
            attempt = self._backoff.next_attempt(attempt - 1, time.monotonic() - began)
            await asyncio.sleep(self._backoff.delay_s(attempt, random.random()))

    async def _stream(self, stub: Any) -> None:
        """Report on one stream until it fails; returns where the controller has ended it."""
        stream = stub.ReportFlows()
        self.connects += 1
        try:
            while True:
                try:
                    message = await self._report()
                except ListError as fault:
                    self._complain(str(fault))
                else:
                    async with asyncio.timeout(TIMEOUT_S):
                        if await self._written(stream, message):
                            return
                    self.reports += 1
                await asyncio.sleep(self._period_s)
        finally:
            stream.cancel()

    async def _written(self, stream: Any, message: pb.ObservedFlows) -> bool:
        """Write a message; return whether the controller has ended the stream instead. Raises grpc.RpcError."""
        with suppress(asyncio.InvalidStateError):  # the call has ended: its status says why
            await stream.write(message)
            if not stream.done():
                return False
        await stream
        return True

    async def _report(self) -> pb.ObservedFlows:
        """Return the queue pairs of this host's NICs; raises ListError."""
        try:
            listed = queue_pairs(await self._listed())
        except NotQueuePairsError as fault:
            raise ListError(f"{self._program[0]}: {fault}") from None
        address = {rdma: ip for device, ip in self._address_of.items() for rdma in rdma_devices(self._root, device)}
        own = [pair for pair in listed if pair.device in address]
        self.left_out += max(0, len(own) - MAX_QUEUE_PAIRS)
        flows = [
            pb.ObservedFlow(src_ip=address[pair.device], src_qpn=pair.src_qpn, dst_qpn=pair.dst_qpn)
            for pair in own[:MAX_QUEUE_PAIRS]
        ]
        return pb.ObservedFlows(host=self._host, flows=flows)

    async def _listed(self) -> str:
        """Run the program and return what it prints; raises ListError."""
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            process = await asyncio.create_subprocess_exec(*self._program, stdin=null, stdout=pipe, stderr=null)
        except OSError as fault:
            raise ListError(f"{self._program[0]}: {fault.strerror}") from None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                text = await _bounded(process.stdout)
                status = await process.wait()
        except TimeoutError:
            raise ListError(f"{self._program[0]}: no list within {TIMEOUT_S:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                with suppress(TimeoutError):  # a paused pipe would never end: what is left in it is read
                    async with asyncio.timeout(TIMEOUT_S):
                        await process.communicate()
        if status:
            raise ListError(f"{self._program[0]}: exit status {status}")
        return text

    def _complain(self, text: str | None) -> None:
        self.faults += 1
        self._complaints.add("report_fault", f"controller {self._server}", text or "the stream has ended")
        for complaint in self._complaints.due(time.monotonic_ns()):
            log.warning("%s", complaint)


async def _bounded(stream: asyncio.StreamReader) -> str:
    """Read to the end; raises ListError for more than MAX_LIST_BYTES."""
    try:
        await stream.readexactly(MAX_LIST_BYTES + 1)
    except asyncio.IncompleteReadError as whole:
        return whole.partial.decode(errors="replace")
    raise ListError(f"the list of queue pairs has more than {MAX_LIST_BYTES:,} bytes")
