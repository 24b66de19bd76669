"""Replicate connection records over TCP: one connection for records sent to the partner, one for records received.

Each side connects to send and listens to receive. A connection that breaks is re-established with exponential back-off
and starts with a complete copy.
"""

import asyncio
import contextlib
import logging
import random
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from heddle.dataplane.config.pair import PairConfig
from heddle.dataplane.control.heartbeats import address_of
from heddle.dataplane.control.pair.copying import Collected, Keep, Receiver, SendAll, Sender, Write
from heddle.dataplane.control.pair.stream import NONCE_BYTES, Hello, RecordStreamError
from heddle.foundation.backoff import Backoff
from heddle.foundation.listener import close_listener

POLL_S = 0.005
"""Interval at which new records are polled for without a notification."""
RECONNECT = Backoff(first_s=0.1, max_s=2.0)
IDLE_CHECK_S = 1.0
"""Interval at which an idle connection is checked for its time limit."""
CHUNK_BYTES = 1 << 16
MAX_INCOMING = 4
"""Connections accepted at a time; the newest that authenticates as the partner is kept."""

log = logging.getLogger(__name__)


class Records(Protocol):
    """Source and destination of records: shared memory with the data process (`ControlEnd`)."""

    record_bytes: int
    first_record_bytes: int
    """Size of a record in the first version."""

    def request_all(self) -> None:
        """Have the data process write all connections, then all changes."""

    def collect(self, at_most_bytes: int) -> tuple[bytes, bool]:
        """Return whole records, and whether there are no more for now."""

    def overflows(self) -> int:
        """Return how often the journal overflowed; each time all connections are written again."""

    def keep(self, records: bytes) -> int:
        """Hand over as many records as there is room for; return their number of bytes."""

    def kept(self) -> bool:
        """Return whether the data process has stored all records handed over."""


@dataclass(slots=True)
class RecordCounters:
    """Counters of both directions."""

    sent_records: int = 0
    received_records: int = 0
    connections: int = 0
    """Connections to the partner that it accepted."""
    stalls: int = 0
    overflows: int = 0
    """Times that all records were sent again because the partner, or the path to it, was too slow."""
    faults: int = 0


class RecordLinks:
    """Replication in both directions.

    `copied_changed` is called when the copy of the partner's connections becomes complete or incomplete. Setting
    `activity` has new records sent at once: a reply packet may arrive at the partner and needs the record there first.
    """

    def __init__(
        self,
        me: str,
        pair: PairConfig,
        records: Records,
        copied_changed: Callable[[bool], None] = lambda copied: None,
        activity: asyncio.Event | None = None,
    ) -> None:
        self.counters = RecordCounters()
        self.partner_has_copy = False
        self.given_ns: int | None = None
        """The latest time (monotonic) of which it is known that the partner has all connections of then."""
        self._me, self._pair, self._records = me, pair, records
        self._copied_changed = copied_changed
        self._activity = activity or asyncio.Event()
        self.has_copy = False
        """Whether a complete copy of the partner's connections is kept here."""
        self._again = asyncio.Event()
        self._incoming: set[asyncio.Task[None]] = set()
        self._current: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Listen and connect until cancelled; raises OSError if the address cannot be bound."""
        host, port = address_of(self._pair.paths[0].listen)
        server = await asyncio.start_server(self._accept, host, port)
        try:
            await self._connect()
        finally:
            await close_listener(server)
            for task in self._incoming:
                task.cancel()
            await asyncio.gather(*self._incoming, return_exceptions=True)
            self._set_copy(False)

    def restart(self) -> None:
        """Restart both directions with a complete copy: the data process has lost its connections."""
        self._set_copy(False)
        self._again.set()
        for task in self._incoming:
            task.cancel()

    def _hello(self) -> Hello:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return Hello(self._me, nonce, self._records.first_record_bytes, self._records.record_bytes)

    async def _connect(self) -> None:
        attempt = 1
        while True:
            self._again.clear()
            try:
                host, port = address_of(self._pair.paths[0].partner)
                async with asyncio.timeout(RECONNECT.max_s):
                    reader, writer = await asyncio.open_connection(host, port)
                try:
                    if await self._send(reader, writer):
                        attempt = 1
                finally:
                    self.partner_has_copy, self.given_ns = False, None
                    writer.transport.abort()
            except (OSError, TimeoutError):
                pass  # the partner is down: heartbeats report that
            except RecordStreamError as fault:
                self._fault("to", fault)
            await asyncio.sleep(RECONNECT.delay_s(attempt, random.random()))
            attempt += 1

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send records until the connection ends; return whether the partner accepted it."""
        sender = Sender(self._hello(), self._pair.partner_id, self._pair.key, time.monotonic_ns())
        _write(writer, sender.begin())
        overflows, welcomed, sent, stalls = self._records.overflows(), False, 0, 0
        replies = asyncio.ensure_future(reader.read(CHUNK_BYTES))
        activity = asyncio.ensure_future(self._activity.wait())
        try:
            while not self._again.is_set():
                await asyncio.wait({replies, activity}, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
                if activity.done():
                    self._activity.clear()
                    activity = asyncio.ensure_future(self._activity.wait())
                if replies.done():
                    if not (data := replies.result()):
                        return welcomed
                    replies = asyncio.ensure_future(reader.read(CHUNK_BYTES))
                    effects = sender.received(data, time.monotonic_ns())
                    if any(isinstance(effect, SendAll) for effect in effects):
                        welcomed = True
                        self.counters.connections += 1
                        self._records.request_all()
                if self._records.overflows() != overflows:
                    overflows = self._records.overflows()
                    self.counters.overflows += 1
                    sender.copy_restarted()
                _write(writer, sender.pull(self._collect, time.monotonic_ns()))
                self.partner_has_copy, self.given_ns = sender.complete, sender.complete_ns
                self.counters.sent_records += sender.sent_records - sent
                self.counters.stalls += sender.stalls - stalls
                sent, stalls = sender.sent_records, sender.stalls
        except ConnectionError:
            pass
        finally:
            replies.cancel()
            activity.cancel()
            # Not one by one with their CancelledError suppressed: one of this task that comes meanwhile would be lost.
            await asyncio.gather(replies, activity, return_exceptions=True)
        return welcomed

    def _collect(self, at_most_bytes: int) -> Collected:
        return Collected(*self._records.collect(at_most_bytes))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin to receive from a peer; a plain function, so that no connection is without a task that `run` ends."""
        if len(self._incoming) >= MAX_INCOMING:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._receive(reader, writer))
        self._incoming.add(task)
        # Not `finally` in the task: one that is cancelled before it begins runs none of its code.
        task.add_done_callback(lambda done: self._left(done, writer))

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                await self._listen(reader, writer)
            except RecordStreamError as fault:
                self._fault("from", fault)

    def _left(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        self._incoming.discard(task)
        if self._current is task:
            self._current = None
            self._set_copy(False)
        writer.transport.abort()
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("receiving from %s failed", self._pair.partner_id, exc_info=fault)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver = Receiver(self._hello(), self._pair.partner_id, self._pair.key, time.monotonic_ns())
        while True:
            try:
                # Not `wait_for`: until Python 3.12 it forgets a cancellation that comes together with data.
                async with asyncio.timeout(IDLE_CHECK_S):
                    data = await reader.read(CHUNK_BYTES)
            except TimeoutError:
                receiver.check(time.monotonic_ns())
                continue
            if not data:
                return
            for effect in receiver.received(data, time.monotonic_ns()):
                if isinstance(effect, Write):
                    writer.write(effect.data)
                    continue
                self._prefer()  # its seal has just proved that it is the partner
                await self._keep(effect)
                _write(writer, receiver.kept(effect.sequence))
                self.counters.received_records += len(effect.records) // self._records.record_bytes
                self._set_copy(receiver.complete)
            await writer.drain()

    def _prefer(self) -> None:
        task = asyncio.current_task()
        if self._current is not None and self._current is not task:
            self._current.cancel()
        self._current = task

    async def _keep(self, keep: Keep) -> None:
        """Hand records to the data process and wait until it has stored them: only then they are acknowledged."""
        left = keep.records
        while left:
            taken = self._records.keep(left)
            left = left[taken:]
            if left:
                await asyncio.sleep(POLL_S)
        while not self._records.kept():
            await asyncio.sleep(POLL_S / 5)

    def _set_copy(self, complete: bool) -> None:
        if complete != self.has_copy:
            self.has_copy = complete
            self._copied_changed(complete)

    def _fault(self, direction: str, fault: RecordStreamError) -> None:
        self.counters.faults += 1
        log.warning("copies %s %s: %s", direction, self._pair.partner_id, fault)


def _write(writer: asyncio.StreamWriter, effects: Iterable[object]) -> None:
    for effect in effects:
        if isinstance(effect, Write):
            writer.write(effect.data)
