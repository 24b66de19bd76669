"""A client of etcd: reads, transactions, leases and watches, on generated stubs.

A call goes to one member, and to the next where that one does not reply in time. A transaction may therefore be applied
twice, the second time after later ones: its conditions have to exclude that.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import grpc

from heddle.controller.runtime.leadership import ClusterCounts
from heddle.controller.store.etcd.guard import Guard
from heddle.controller.store.etcd.proto import etcd_pb2 as pb
from heddle.controller.store.etcd.proto import etcd_pb2_grpc as rpc
from heddle.controller.store.etcd.tls import EtcdTls, Shown, address_in, has_tls, plain_cause

FIRST_TRY_S = 0.5
"""A member has so long to reply at first; doubled once none has replied."""
MAX_TRY_S = 8.0
CALL_S = 5.0
GRACE_S = 10.0
"""Connections that have shown a former certificate end after so long, which is longer than any call lasts."""
PAUSE_S = 0.05
RANGE_KEYS = 1_000
"""The keys of one reply."""
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
]
_NEXT = frozenset(
    (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED,
     grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
)  # fmt: skip
"""After these another member may do better. What etcd refuses has other codes."""
_LOG = logging.getLogger("heddle.etcd")


class EtcdError(Exception):
    """etcd refuses a call; the text is its own."""


class EtcdUnavailableError(EtcdError):
    """No member replies in time; a transaction may be applied nevertheless, now or later."""


class EtcdTlsError(EtcdUnavailableError):
    """No member replies in time, and a certificate is why, or TLS at one end alone."""


class ForeignEtcdError(EtcdUnavailableError):
    """Members reply in time, and none is of the etcd that has the journal; or its identity has changed."""


class CompactedError(EtcdError):
    """The revisions that a watch would continue from are gone: read again, and watch from there."""


class Values(NamedTuple):
    """Keys with their values, and the revision at which they were read."""

    revision: int
    found: Sequence[pb.KeyValue]


class Granted(NamedTuple):
    """A lease, and the seconds that etcd keeps it."""

    id: int
    ttl_s: int


class Kept(NamedTuple):
    """A renewed lease: when the request was sent, and the seconds that etcd keeps the lease from then or later."""

    sent_ns: int
    ttl_s: int


class Member(NamedTuple):
    """One member of the etcd cluster."""

    endpoint: str
    channel: grpc.aio.Channel
    values: Any
    leases: Any
    watches: Any


def prefix_end(prefix: bytes) -> bytes:
    """Return the end of the range of all keys with a prefix, whose last byte is below 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


class EtcdClient:
    """Calls to the members at `endpoints` (ADDR:PORT, http:// or https:// before it). Used in one event loop."""

    def __init__(
        self, endpoints: Sequence[str], tls: EtcdTls | None = None, counts: ClusterCounts | None = None
    ) -> None:
        """Connect when needed; by `tls` to members with https://, which need it. Raises ValueError.

        Calls are counted in `counts`.
        """
        if tls is None and any(map(has_tls, endpoints)):
            raise ValueError("an endpoint with https:// needs a certificate")
        self.place = f"etcd at {', '.join(endpoints)}"
        self.guard: Guard | None = None
        """Replies of another etcd count as none; None: any etcd may reply."""
        self.endpoints, self._tls, self._now = endpoints, tls, 0
        self._counts = counts or ClusterCounts()
        self._shown = tls.shown() if tls is not None else None
        self._members = [_member(endpoint, self._shown) for endpoint in endpoints]
        self._named: set[str] = set()
        self._is_closed = False
        self._closing: set[asyncio.Task[None]] = set()

    async def range(
        self, start: bytes, end: bytes = b"", within_s: float = CALL_S, *, keys_only: bool = False
    ) -> Values:
        """Return the value of a key, or of all keys from `start` up to `end`, of one revision (linearizable).

        Each of the calls it takes has `within_s`. With `keys_only` values are empty.
        """
        found: list[pb.KeyValue] = []
        revision = 0
        while True:
            request = pb.RangeRequest(
                key=start, range_end=end, limit=RANGE_KEYS, revision=revision, keys_only=keys_only
            )
            reply = await self._call(lambda member: member.values.Range, request, within_s)
            revision = revision or reply.header.revision
            found += reply.kvs
            if not reply.more:
                return Values(revision, found)
            start = reply.kvs[-1].key + b"\0"

    async def txn(self, request: pb.TxnRequest, within_s: float = CALL_S) -> pb.TxnResponse:
        """Apply a transaction at least once, whose conditions make a second time harmless."""
        reply: pb.TxnResponse = await self._call(lambda member: member.values.Txn, request, within_s)
        return reply

    async def compact(self, revision: int) -> None:
        """Forget what was before a revision."""
        await self._call(lambda member: member.values.Compact, pb.CompactionRequest(revision=revision))

    async def grant(self, ttl_s: int) -> Granted:
        """Begin a lease; etcd may make it longer."""
        reply = await self._call(lambda member: member.leases.LeaseGrant, pb.LeaseGrantRequest(TTL=ttl_s))
        return Granted(reply.ID, reply.TTL)

    async def revoke(self, lease: int, within_s: float = CALL_S) -> None:
        """End a lease and delete its keys; one that has ended is no error."""
        with suppress(EtcdError):
            await self._call(lambda member: member.leases.LeaseRevoke, pb.LeaseRevokeRequest(ID=lease), within_s)

    async def keep_alive(self, lease: int, within_s: float, now_ns: Callable[[], int]) -> Kept:
        """Renew a lease; `ttl_s` is 0 where it has ended."""
        sent_ns = 0

        def keep(member: Member) -> Callable[..., Awaitable[pb.LeaseKeepAliveResponse]]:
            async def once(request: pb.LeaseKeepAliveRequest, timeout: float) -> pb.LeaseKeepAliveResponse:
                nonlocal sent_ns
                stream = member.leases.LeaseKeepAlive(timeout=timeout)
                sent_ns = now_ns()
                try:
                    await stream.write(request)
                    reply: pb.LeaseKeepAliveResponse = await stream.read()
                    if not isinstance(reply, pb.LeaseKeepAliveResponse):  # the stream has ended: raises its status
                        raise EtcdUnavailableError(f"it ended a stream ({await stream.details()})")
                    return reply
                finally:
                    stream.cancel()

            return once

        reply = await self._call(keep, pb.LeaseKeepAliveRequest(ID=lease), within_s)
        return Kept(sent_ns, reply.TTL)

    async def survey(self, request: pb.TxnRequest, within_s: float) -> dict[str, pb.TxnResponse]:
        """Return the reply of each member to a transaction that only reads; those that do not reply are left out."""
        self._member()  # with the certificate of this moment

        async def one(member: Member) -> pb.TxnResponse | None:
            with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                reply: pb.TxnResponse = await member.values.Txn(request, timeout=within_s)
                return reply
            return None

        replies = await asyncio.gather(*map(one, self._members))
        found = zip(self.endpoints, replies, strict=True)
        return {endpoint: reply for endpoint, reply in found if reply is not None}

    async def watch(self, start: bytes, end: bytes, revision: int) -> AsyncGenerator[pb.Event, None]:
        """Yield every change of the keys from a revision on, in order and once, also where members fail.

        Raises CompactedError where the next revision is gone.
        """
        while True:
            member = self._member()
            try:
                async for reply in _watched(member, start, end, revision):
                    self._require_ours(member, reply, 0)
                    for event in reply.events:
                        yield event
                    if reply.events:  # a reply holds whole revisions; its header may be ahead of its events
                        revision = reply.events[-1].kv.mod_revision + 1
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, ForeignEtcdError) as error:
                _LOG.info("%s: a watch ended: %s", member.endpoint, error)
            self._leave(member)
            await asyncio.sleep(PAUSE_S)

    async def close(self) -> None:
        """Close the connections; calls that are under way end with EtcdUnavailableError."""
        self._is_closed = True
        await asyncio.gather(*(member.channel.close() for member in self._members), *self._closing)

    async def _call(self, method: Callable[[Member], Any], request: Any, within_s: float = CALL_S) -> Any:
        """Call one member after the other until one replies; raises EtcdError."""
        clock = asyncio.get_running_loop().time
        end, tries, why = clock() + within_s, 0, "no reply"
        kind: type[EtcdUnavailableError] = EtcdUnavailableError
        while (left_s := end - clock()) > 0:
            if self._is_closed:
                raise EtcdUnavailableError(f"{self.place}: this controller has closed its connections")
            member = self._member()
            try_s = min(FIRST_TRY_S * 2 ** (tries // len(self._members)), MAX_TRY_S, left_s)
            floor = self.guard.floor(request) if self.guard is not None else 0
            try:
                reply = await method(member)(request, timeout=try_s)
                self._require_ours(member, reply, floor)
                self._counts.etcd_calls += 1
                self._counts.etcd_s += clock() - (end - within_s)
                return reply
            except grpc.aio.AioRpcError as error:
                if error.code() not in _NEXT:
                    raise EtcdError(error.details() or error.code().name) from None
                cause = self._tls_cause(member, error.details() or "")
                if kind is EtcdUnavailableError or cause is not None:
                    why = f"{member.endpoint}: {cause or error.details() or error.code().name}"
                kind = EtcdTlsError if cause is not None else kind
            except ForeignEtcdError as error:
                kind, why = ForeignEtcdError, str(error)
            except (EtcdUnavailableError, asyncio.InvalidStateError) as error:
                why = f"{member.endpoint}: {error}" if kind is EtcdUnavailableError else why
            self._leave(member)
            tries += 1
            if tries % len(self._members) == 0:
                await asyncio.sleep(min(PAUSE_S, max(end - clock(), 0)))
        self._counts.etcd_failed += 1
        raise kind(f"{self.place}: no reply within {within_s:g} s ({why})")

    def _require_ours(self, member: Member, reply: Any, floor: int) -> None:
        """Raise ForeignEtcdError for a reply of another etcd, or of one whose history has gone back."""
        why = self.guard.why_foreign(reply.header, floor) if self.guard is not None else ""
        if why:
            line = f"{member.endpoint}: {why}"
            if member.endpoint not in self._named:
                self._named.add(member.endpoint)
                _LOG.error("%s; its replies are not used", line)
            raise ForeignEtcdError(line)
        self._named.discard(member.endpoint)

    def _member(self) -> Member:
        """Return the member to call: by new connections where the certificate's files have changed."""
        if self._tls is not None and (shown := self._tls.shown()) is not self._shown:
            for member in self._members:
                closing = asyncio.create_task(member.channel.close(GRACE_S))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            self._shown, self._members = shown, [_member(endpoint, shown) for endpoint in self.endpoints]
        return self._members[self._now]

    def _tls_cause(self, member: Member, details: str) -> str | None:
        if self._tls is not None and has_tls(member.endpoint):
            return self._tls.cause(details)
        return plain_cause(details)

    def _leave(self, member: Member) -> None:
        """Call the next member from now on, where none has done so since."""
        if self._members[self._now] is member:
            self._now = (self._now + 1) % len(self._members)


def _member(endpoint: str, shown: Shown | None) -> Member:
    address = address_in(endpoint)
    channel = (
        grpc.aio.secure_channel(address, shown.credentials, options=_OPTIONS)
        if shown is not None and has_tls(endpoint)
        else grpc.aio.insecure_channel(address, options=_OPTIONS)
    )
    return Member(endpoint, channel, rpc.KVStub(channel), rpc.LeaseStub(channel), rpc.WatchStub(channel))


async def _watched(member: Member, start: bytes, end: bytes, revision: int) -> AsyncIterator[pb.WatchResponse]:
    """Yield the replies of one stream, until it ends; raises CompactedError, and AioRpcError where it breaks."""
    stream = member.watches.Watch(metadata=(("hasleader", "true"),))
    try:
        create = pb.WatchCreateRequest(key=start, range_end=end, start_revision=revision, progress_notify=True)
        await stream.write(pb.WatchRequest(create_request=create))
        while isinstance(reply := await stream.read(), pb.WatchResponse):
            if reply.compact_revision:
                raise CompactedError(f"revision {revision} is compacted, {reply.compact_revision} is not")
            if reply.canceled:
                return
            yield reply
    finally:
        stream.cancel()
