"""Serve ReportFlows: give large flows of no job a path of their own, by jobs that this module submits and releases.

The jobs are admitted, moved and ended like any other. Their leases are short, so they end where the reports do.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import replace

from heddle.controller.access.call import Call
from heddle.controller.api.services.path_denials import PathDenials
from heddle.controller.api.worker import in_worker
from heddle.controller.brain.state import State
from heddle.controller.model.address import parse_ip, parse_ipv6
from heddle.controller.model.admission import quoted
from heddle.controller.model.effect import Note
from heddle.controller.model.error import BudgetExceededError, HeddleError, InputError
from heddle.controller.model.event import Release, Renew, Submit
from heddle.controller.model.observed import ObservedPath, QueuePair, Reports, Stream, job_for
from heddle.controller.runtime.attached import ReportedFlows
from heddle.controller.runtime.loop import Loop
from heddle.controller.views.path_errors import notes_of, refused_flows
from heddle.v1 import heddle_pb2 as pb

LEASE_MS = 120_000
SILENT_MS = 30_000
"""A host that has reported nothing for so long has no queue pairs."""
REST = 4
"""After each turn, the next waits for so many times as long as it took."""
MAX_REST_S = 5.0
MAX_REFUSED = 8
"""A turn submits no more after so many refusals in a row: switches are full, and each costs a plan."""
REFUSED_MS = 60_000
"""A stream that was refused for want of rules is not submitted again for so long."""
NOTED_MS = 10_000
"""Errors of packets that are refused at a link have a line of the log so often at most."""
_LOG = logging.getLogger("heddle.controller")


class FlowReports:
    """The reports of all hosts, and the jobs that follow from them."""

    def __init__(self, loop: Loop, flows: ReportedFlows, note: Callable[[Note], None]) -> None:
        self._loop, self._flows, self._note = loop, flows, note
        self._noted_unix_ms: dict[str, int] = {}
        self._seen_unix_ms: dict[str, int] = {}
        self._ours: dict[Stream, str] = {}
        self._refused_unix_ms: dict[Stream, int] = {}
        self._denials = PathDenials(loop, flows)
        self._turn = asyncio.Lock()
        self._rest_s = 0.0

    async def read(self, messages: AsyncIterable[pb.ObservedFlows], call: Call) -> pb.ReportFlowsReply:
        """Handle the reports of one host until its stream ends; raises InputError, DeniedError."""
        host = ""
        async for message in messages:
            if host not in ("", message.host):
                raise InputError(f"host: a stream is of one host, {quoted(host)}, not of {quoted(message.host)}")
            if not host:
                call.speaks_for(message.host)
            host = message.host
            await self._reported(message)
        nics = {nic.id for nic in self._loop.state.fabric.nics if nic.host == host}
        return pb.ReportFlowsReply(flows_pinned=sum(stream.src_nic in nics for stream in self._ours))

    async def _reported(self, message: pb.ObservedFlows) -> None:
        fabric, host = self._loop.state.fabric, message.host
        if not any(nic.host == host for nic in fabric.nics):
            raise InputError(f"host: there is no host {quoted(host)} in this fabric")
        pairs = await in_worker(_pairs, message)
        self._flows.newest = await in_worker(self._flows.newest.with_report, fabric, host, pairs)
        counts = self._flows.counts
        counts["messages"] += 1
        counts["queue_pairs"] += len(pairs)
        counts["foreign"], counts["surplus"] = self._flows.newest.foreign, self._flows.newest.surplus
        self._seen_unix_ms[host] = self._loop.now_unix_ms()
        await self._denials.reported(host, pairs)
        await self._note_path_errors(host, pairs)
        if not self._turn.locked():  # otherwise the turn that rests, or the next report, applies this one too
            async with self._turn:
                await asyncio.sleep(self._rest_s)
                clock = asyncio.get_running_loop().time
                begin = clock()
                await self._apply()
                self._rest_s = min(MAX_REST_S, REST * (clock() - begin))

    async def _note_path_errors(self, host: str, pairs: Sequence[QueuePair]) -> None:
        """Count the new errors that quote a host's packets, and log a line for each link at which they are refused."""
        reports, state, now = self._flows.newest, self._loop.state, self._loop.now_unix_ms()
        new = reports.new_path_errors(host) if any(pair.path_errors for pair in pairs) else 0
        if not new:
            return
        self._flows.counts["path_errors"] += new
        self._noted_unix_ms = {link: at for link, at in self._noted_unix_ms.items() if now - at < NOTED_MS}
        for note in notes_of(await in_worker(refused_flows, state, reports, host)):
            if self._noted_unix_ms.setdefault(note.subject, now) == now:
                self._note(note)

    async def _apply(self) -> None:
        """Release the jobs of streams that are gone, renew the leases of others, submit jobs of new ones."""
        now, state = self._loop.now_unix_ms(), self._loop.state
        for host in [host for host, seen in self._seen_unix_ms.items() if now - seen > SILENT_MS]:
            self._flows.newest = self._flows.newest.without(host)
            await self._denials.gone(host)
            del self._seen_unix_ms[host]
        self._ours = {stream: job_id for stream, job_id in self._ours.items() if job_id in state.jobs}
        ordered = await in_worker(_unplanned, self._flows.newest, state, dict(self._ours))
        large = frozenset(ordered)
        for stream, job_id in list(self._ours.items()):
            if stream not in large:
                del self._ours[stream]
                await self._release(job_id)
            elif state.jobs[job_id].lease_expires_unix_ms - now < LEASE_MS // 2:
                await self._renew(job_id)
        await self._submit_new([stream for stream in ordered if stream not in self._ours], now)

    async def _submit_new(self, streams: Sequence[Stream], now: int) -> None:
        """Submit jobs of streams: first of those that were never refused, the largest first."""
        before = self._refused_unix_ms
        refused = self._refused_unix_ms = {stream: before[stream] for stream in streams if stream in before}
        in_a_row = 0
        for stream in sorted(streams, key=lambda each: refused.get(each, 0)):
            if in_a_row == MAX_REFUSED or (stream in refused and now - refused[stream] < REFUSED_MS):
                break
            why = await self._submit(stream)
            if why is None:
                refused.pop(stream, None)
                in_a_row = 0
            else:
                refused[stream] = now if isinstance(why, BudgetExceededError) else now - REFUSED_MS
                in_a_row += 1

    async def _submit(self, stream: Stream) -> HeddleError | None:
        """Submit the job of a stream; return why it is refused."""
        request = replace(job_for(stream), lease_ms=LEASE_MS)
        try:
            await self._loop.request(lambda reply: Submit(reply=reply, request=request))
            self._ours[stream] = request.job_id
            self._flows.counts["pinned"] += 1
        except HeddleError as error:
            self._flows.counts["refused"] += 1
            _LOG.info("%s: not pinned: %s", request.job_id, error)
            return error
        return None

    async def _release(self, job_id: str) -> None:
        try:
            await self._loop.request(lambda reply: Release(reply=reply, job_id=job_id))
        except HeddleError as error:
            _LOG.info("%s: %s", job_id, error)

    async def _renew(self, job_id: str) -> None:
        try:
            await self._loop.request(lambda reply: Renew(reply=reply, job_id=job_id, lease_ms=LEASE_MS))
        except HeddleError as error:
            _LOG.info("%s: %s", job_id, error)


def _unplanned(reports: Reports, state: State, ours: dict[Stream, str]) -> tuple[Stream, ...]:
    """Return the large streams between NICs that no other job joins, the largest first."""
    large = reports.largest(state.fabric, frozenset(ours))
    own = frozenset(ours.values())
    ports = state.fabric.ports_by_rank
    ranks = [
        frozenset(port.id for rank in job.request.ranks for port in ports.get(rank, ()))
        for job_id, job in state.jobs.items()
        if job_id not in own
    ]
    return tuple(
        stream for stream in large if not any(stream.src_nic in nics and stream.dst_nic in nics for nics in ranks)
    )


def _pairs(message: pb.ObservedFlows) -> list[QueuePair]:
    """Return the queue pairs of a message; raises InputError."""
    return [
        QueuePair(
            _address(f"flows[{number}].src_ip", flow.src_ip),
            _address(f"flows[{number}].dst_ip", flow.dst_ip) if flow.dst_ip else None,
            _port(f"flows[{number}].udp_source_port", flow.udp_source_port),
            flow.src_qpn,
            flow.dst_qpn,
            flow.sent_bytes,
            flow.timestamp_unix_ns,
            flow.path_errors,
            _left(f"flows[{number}].left_sid", flow.left_sid) if flow.path_errors else 0,
            tuple(
                ObservedPath(_left(f"flows[{number}].paths[{place}].sid", path.sid), path.denied)
                for place, path in enumerate(flow.paths)
            ),
        )
        for number, flow in enumerate(message.flows)
    ]


def _address(path: str, text: str) -> int:
    try:
        return parse_ip(text)
    except ValueError:
        raise InputError(f"{path}: {quoted(text)} is no IPv4 address") from None


def _left(path: str, text: str) -> int:
    try:
        return parse_ipv6(text)
    except ValueError:
        raise InputError(f"{path}: {quoted(text)} is no IPv6 address") from None


def _port(path: str, port: int) -> int:
    if port > 0xFFFF:
        raise InputError(f"{path}: must be at most 65535, is {port}")
    return port
