"""Report a host's queue pairs to the controller over ReportFlows: each period, what `rdma -j resource show qp` lists.

For those that the RDMA connection manager (CM) has connected, `rdma -j resource show cm_id` has the addresses and ports
of both ends, from which their UDP source ports follow. Nothing is kept while the controller cannot be reached: the next
report names all queue pairs again. The lists have no bytes, so no queue pair is reported as measured.
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from heddle.foundation.backoff import Backoff
from heddle.foundation.channel import aio_channel_to
from heddle.foundation.leader_address import LeaderAddress
from heddle.foundation.tls_files import Tls
from heddle.telemetry.agent.program import ProgramError, output
from heddle.telemetry.agent.sources.ethtool import rdma_devices
from heddle.telemetry.agent.sources.rdma_cm import CmConnection, NotCmIdsError, cm_connections
from heddle.telemetry.agent.sources.rdma_queue_pairs import ListedQueuePair, NotQueuePairsError, queue_pairs
from heddle.telemetry.complaint import Complaints
from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc

PERIOD_S = 5.0
TIMEOUT_S = 5.0
MAX_QUEUE_PAIRS = 16_384
"""The controller reads so many of one report."""
OPTIONS = (("grpc.max_reconnect_backoff_ms", 5_000),)
log = logging.getLogger(__name__)


class Programs(NamedTuple):
    """The commands that list a host's queue pairs, and the connections of the CM."""

    queue_pairs: Sequence[str] = ("rdma", "-j", "resource", "show", "qp")
    cm_ids: Sequence[str] = ("rdma", "-j", "resource", "show", "cm_id")


RDMA = Programs()


class ListError(Exception):
    """The queue pairs of this host cannot be listed now."""


class QueuePairReporter:
    """Reports until it is cancelled. `address_of` has the IPv4 address of each network device.

    Cumulative counts: `reports`, `connects`, `faults`, `left_out` (queue pairs past MAX_QUEUE_PAIRS, and those over
    IPv6), and `without_cm`, reports without a list of the CM's connections, because this `rdma` or kernel has none.
    """

    def __init__(
        self, server: str, host: str, address_of: Mapping[str, str], *, programs: Programs = RDMA,
        period_s: float = PERIOD_S, root: Path = Path("/"), backoff: Backoff | None = None,
        tls: Tls | None = None,
    ) -> None:  # fmt: skip
        self._server, self._host, self._address_of = server, host, dict(address_of)
        self._programs, self._period_s, self._root = programs, period_s, root
        self._tls = tls
        self._backoff = backoff or Backoff(first_s=0.5, max_s=30.0, steady_s=30.0)
        self._complaints = Complaints()
        self._has_cm = False
        self.reports = self.connects = self.faults = self.left_out = self.without_cm = 0

    def counts(self) -> dict[str, int]:
        """Return cumulative counts by name."""
        return {
            "reports": self.reports,
            "report_streams": self.connects,
            "report_faults": self.faults,
            "queue_pairs_left_out": self.left_out,
            "reports_without_cm": self.without_cm,
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
        program = self._programs.queue_pairs
        try:
            listed = queue_pairs(await output(program))
        except ProgramError as fault:
            raise ListError(str(fault)) from None
        except NotQueuePairsError as fault:
            raise ListError(f"{program[0]}: {fault}") from None
        address = {rdma: ip for device, ip in self._address_of.items() for rdma in rdma_devices(self._root, device)}
        own = [pair for pair in listed if pair.device in address]
        # Listed later, so that every queue pair of the first list that the CM has connected is in the second.
        connections = await self._connections() if own else {}
        over_ipv6 = {number for number, connection in connections.items() if connection is None}
        flows = [
            _flow(pair, address[pair.device], connections.get((pair.device, pair.src_qpn)))
            for pair in own
            if (pair.device, pair.src_qpn) not in over_ipv6
        ]
        self.left_out += len(own) - len(flows[:MAX_QUEUE_PAIRS])
        return pb.ObservedFlows(host=self._host, flows=flows[:MAX_QUEUE_PAIRS])

    async def _connections(self) -> Mapping[tuple[str, int], CmConnection | None]:
        """Return the CM's connections, none where this machine cannot list them; raises ListError where it could."""
        program = self._programs.cm_ids
        try:
            found = cm_connections(await output(program))
        except (ProgramError, NotCmIdsError) as fault:
            if self._has_cm:  # without the list, their ports would be reported wrongly
                raise ListError(f"{program[0]}: the connections of the CM: {fault}") from None
            self.without_cm += 1
            self._log("cm_list_fault", f"`{' '.join(program)}`", f"{fault}; ports are computed as without the CM")
            return {}
        self._has_cm = True
        return found

    def _complain(self, text: str | None) -> None:
        self.faults += 1
        self._log("report_fault", f"controller {self._server}", text or "the stream has ended")

    def _log(self, kind: str, source: str, text: str) -> None:
        self._complaints.add(kind, source, text)
        for complaint in self._complaints.due(time.monotonic_ns()):
            log.warning("%s", complaint)


def _flow(pair: ListedQueuePair, address: str, connection: CmConnection | None) -> pb.ObservedFlow:
    """Return the message of a queue pair: with the addresses of its connection, else that of its NIC."""
    flow = pb.ObservedFlow(src_ip=address, src_qpn=pair.src_qpn, dst_qpn=pair.dst_qpn)
    if connection is not None:
        flow.src_ip, flow.dst_ip, flow.udp_source_port = connection
    return flow
