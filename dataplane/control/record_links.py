"""The shell of the copies: one TCP connection for what this gateway tells its partner, one for what it is told.

Each side listens for what it is told and connects for what it tells. A connection that breaks is made anew, with more
and more time between attempts, and begins with all there is.
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

from dataplane.config.pair import PairConfig
from dataplane.control.heartbeats import address_of
from dataplane.control.pair.copying import Collected, Keep, Receiver, Sender, TellAll, Write
from dataplane.control.pair.stream import NONCE_BYTES, Hello, RecordStreamError

LOOK_S = 0.005
"""How often new records are looked for where nobody says that there are some."""
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 2.0
LOOK_FOR_LIFE_S = 1.0
"""How often a connection without data is looked at."""
CHUNK_BYTES = 1 << 16
MAX_VISITORS = 4
"""Connections that are listened to at a time; the newest that proves to be the partner's stays."""

log = logging.getLogger(__name__)


class Records(Protocol):
    """The data process's end of the copies."""

    record_bytes: int

    def tell_all(self) -> None:
        """Have it tell all connections from now on."""

    def collect(self, at_most_bytes: int) -> tuple[bytes, bool]:
        """Return what it told, and whether that was all for the time being."""

    def told_anew(self) -> int:
        """Return how often it lost records and began to tell all again."""

    def keep(self, records: bytes) -> int:
        """Hand over as many records as there is room for; return how many bytes that was."""

    def kept(self) -> bool:
        """Whether it has taken in all that was handed over."""


@dataclass(slots=True)
class RecordCounters:
    """What went over the links."""

    sent_records: int = 0
    received_records: int = 0
    connections: int = 0
    """To the partner, that were welcomed."""
    stalls: int = 0
    overflows: int = 0
    """Times that the partner was told all anew because it, or the way to it, was too slow."""
    faults: int = 0


class RecordLinks:
    """Both directions. `told_copied` hears whether all that the partner has is kept here.

    `news` is set by others when there are records: an answer may come by the partner, and find its connection only if
    the copy was faster.
    """

    def __init__(
        self,
        me: str,
        pair: PairConfig,
        records: Records,
        told_copied: Callable[[bool], None] = lambda copied: None,
        news: asyncio.Event | None = None,
    ) -> None:
        self.counters = RecordCounters()
        self.partner_has_copy = False
        self._me, self._pair, self._records = me, pair, records
        self._told_copied = told_copied
        self._news = news or asyncio.Event()
        self.has_copy = False
        """Whether all that the partner knows is kept here."""
        self._again = asyncio.Event()
        self._visitors: set[asyncio.Task[None]] = set()
        self._current: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Listen and connect until cancelled; raises OSError where the address cannot be listened at."""
        host, port = address_of(self._pair.paths[0].listen)
        server = await asyncio.start_server(self._visit, host, port)
        try:
            async with server:
                await self._connect()
        finally:
            for visitor in self._visitors:
                visitor.cancel()
            await asyncio.gather(*self._visitors, return_exceptions=True)
            self._copy_is(False)

    def restart(self) -> None:
        """Begin anew in both directions: the data process has lost what it knew."""
        self._copy_is(False)
        self._again.set()
        for visitor in self._visitors:
            visitor.cancel()

    def _hello(self) -> Hello:
        return Hello(self._me, secrets.token_bytes(NONCE_BYTES), self._records.record_bytes)

    async def _connect(self) -> None:
        pause_s = FIRST_RETRY_S
        while True:
            self._again.clear()
            try:
                host, port = address_of(self._pair.paths[0].partner)
                async with asyncio.timeout(LAST_RETRY_S):
                    reader, writer = await asyncio.open_connection(host, port)
                try:
                    if await self._tell(reader, writer):
                        pause_s = FIRST_RETRY_S
                finally:
                    self.partner_has_copy = False
                    writer.transport.abort()
            except (OSError, TimeoutError):
                pass  # it is away; heartbeats tell of that
            except RecordStreamError as fault:
                self._fault("to", fault)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(2 * pause_s, LAST_RETRY_S)

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Tell the partner until the connection ends; return whether it was welcomed."""
        sender = Sender(self._hello(), self._pair.partner_id, self._pair.key, time.monotonic_ns())
        _write(writer, sender.begin())
        anew, welcomed, told, stalls = self._records.told_anew(), False, 0, 0
        answers = asyncio.ensure_future(reader.read(CHUNK_BYTES))
        news = asyncio.ensure_future(self._news.wait())
        try:
            while not self._again.is_set():
                await asyncio.wait({answers, news}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if news.done():
                    self._news.clear()
                    news = asyncio.ensure_future(self._news.wait())
                if answers.done():
                    if not (data := answers.result()):
                        return welcomed
                    answers = asyncio.ensure_future(reader.read(CHUNK_BYTES))
                    effects = sender.received(data, time.monotonic_ns())
                    if any(isinstance(effect, TellAll) for effect in effects):
                        welcomed = True
                        self.counters.connections += 1
                        self._records.tell_all()
                if self._records.told_anew() != anew:
                    anew = self._records.told_anew()
                    self.counters.overflows += 1
                    sender.told_all_anew()
                _write(writer, sender.pull(self._collect, time.monotonic_ns()))
                self.partner_has_copy = sender.complete
                self.counters.sent_records += sender.sent_records - told
                self.counters.stalls += sender.stalls - stalls
                told, stalls = sender.sent_records, sender.stalls
        except ConnectionError:
            pass
        finally:
            for waiting in (answers, news):
                waiting.cancel()
                with contextlib.suppress(asyncio.CancelledError, OSError):
                    await waiting
        return welcomed

    def _collect(self, at_most_bytes: int) -> Collected:
        return Collected(*self._records.collect(at_most_bytes))

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._visitors) >= MAX_VISITORS:
            writer.transport.abort()
            return
        self._visitors.add(task)
        try:
            await self._listen(reader, writer, task)
        except (OSError, asyncio.CancelledError):
            pass
        except RecordStreamError as fault:
            self._fault("from", fault)
        finally:
            self._visitors.discard(task)
            if self._current is task:
                self._current = None
                self._copy_is(False)
            writer.transport.abort()

    async def _listen(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        receiver = Receiver(self._hello(), self._pair.partner_id, self._pair.key, time.monotonic_ns())
        while True:
            try:
                # Not `wait_for`: until Python 3.12 it forgets a cancellation that comes together with data.
                async with asyncio.timeout(LOOK_FOR_LIFE_S):
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
                self._prefer(task)  # only now has it shown that it is the partner
                await self._keep(effect)
                _write(writer, receiver.kept(effect.sequence))
                self.counters.received_records += len(effect.records) // self._records.record_bytes
                self._copy_is(receiver.complete)
            await writer.drain()

    def _prefer(self, task: asyncio.Task[None]) -> None:
        if self._current is not None and self._current is not task:
            self._current.cancel()
        self._current = task

    async def _keep(self, keep: Keep) -> None:
        """Hand records over, and wait until they are kept: nothing is answered for before."""
        left = keep.records
        while left:
            taken = self._records.keep(left)
            left = left[taken:]
            if left:
                await asyncio.sleep(LOOK_S)
        while not self._records.kept():
            await asyncio.sleep(LOOK_S / 5)

    def _copy_is(self, complete: bool) -> None:
        if complete != self.has_copy:
            self.has_copy = complete
            self._told_copied(complete)

    def _fault(self, direction: str, fault: RecordStreamError) -> None:
        self.counters.faults += 1
        log.warning("copies %s %s: %s", direction, self._pair.partner_id, fault)


def _write(writer: asyncio.StreamWriter, effects: Iterable[object]) -> None:
    for effect in effects:
        if isinstance(effect, Write):
            writer.write(effect.data)
