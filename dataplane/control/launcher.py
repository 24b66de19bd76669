"""Starts the data process, hands it tables, and starts it again where it ends unasked.

The tables that were published last are the truth: a data process that begins anew gets them first, and so forwards
as its predecessor did, but for connections, whose state is not taken over from a process that died.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dataplane.config.local import LocalConfig
from dataplane.control import link, segment
from dataplane.control.link import Failed, Offer, Options, Ready, Start
from dataplane.control.liveness import STUCK_LOOKS, Liveness
from dataplane.control.segment import Segment, Shape
from dataplane.control.shared import Shared, Word, make_shared, shared_of
from dataplane.engine.counters import count_lost
from dataplane.engine.rings import withdraw
from dataplane.gateway.memory.exchange import forget_requests
from dataplane.gateway.memory.state import SEED, State, layout, state_of
from dataplane.gateway.tables.schema import Tables

START_PATIENCE_S = 900.0
"""A first start without kernels on disk compiles them all: a minute or two, on a busy machine several times that."""
SLOW_START_S = 20.0
"""After this an operator is told what is being waited for."""
STOP_PATIENCE_S = 3.0
LEAST_PAUSE_S, MAX_PAUSE_S = 0.1, 5.0
WELL_AFTER_S = 10.0
"""A data process that ran for so long begins with the shortest pause again."""
LOOK_S = 0.05
"""How often to look whether the loop of the data process returns (`liveness`)."""
COMMAND = (sys.executable, "-m", "dataplane.control.data_process")


def _done(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


class DataProcessError(Exception):
    """The data process cannot run on this machine as it was told; one line says why."""


class Supervisor:
    """One gateway's data process, over all its lives."""

    def __init__(
        self,
        local: LocalConfig,
        options: Options,
        tell: Callable[[str], None],
        *,
        command: Sequence[str] = COMMAND,
        look_s: float = LOOK_S,
        paired: bool = False,
    ) -> None:
        """Make the shared memory; `tell` gets one line for what an operator should know."""
        self._local, self._options, self._tell = local, options, tell
        self._command, self._look_s, self._paired = command, look_s, paired
        self._segment = make_shared(local.gateway_id, len(local.interfaces))
        self.shared: Shared = shared_of(self._segment)
        self._tables: Segment | None = None
        self._generation = -1
        self._state: Segment | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket | None = None
        self._last_words = ""
        self._closed = False
        self._beginning = asyncio.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.told = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Can be read when the data process has put something into the ring of punted packets."""
        self._stopping = asyncio.Event()
        self.changed = asyncio.Event()
        """Set when a data process has ended, begun to forward, hangs or hangs no more; who waits for that clears it."""
        self.ready: Ready | None = None
        """What the present data process said when it began to forward; None while there is none that does."""
        self.restarts = self.ends = 0
        self.hangs = False
        """Whether the present data process does nothing, though it should have had the time; it may go on by itself."""
        self.hung = 0
        """How often that was so."""

    def publish(self, tables: Tables) -> None:
        """Let packets go by these tables from now on; the data process takes them between two bursts."""
        old = self._tables
        self._generation = int(tables.generation[0])
        self._tables = segment.filled(f"{self._local.gateway_id}-tables", tables._asdict())
        if old is not None:
            old.close()
        self._offer()

    def installed(self) -> Tables | None:
        """Return the tables in the memory that the data process reads; None before the first are published."""
        arrays = self._tables.arrays if self._tables is not None else {}
        return Tables(**arrays) if arrays else None  # none: replaced at this very moment

    def pid(self) -> int:
        """Return the process id of the present data process, 0 while there is none."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else 0

    def forwards(self) -> bool:
        """Return whether there is a data process that forwards."""
        return self.ready is not None and self.pid() != 0

    def state(self) -> State | None:
        """Return the connections of the present data process, to be read; None while there is none."""
        return None if self._state is None else state_of(self._state.arrays)

    def wake(self) -> None:
        """End a sleep of the data process: there is something in a ring for it."""
        if not self._closed:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_write(self._wake, 1)

    async def start(self) -> Ready:
        """Start the data process for the first time; raises DataProcessError. Tables have to be published before."""
        self.ready = await self._begun()
        return self.ready

    async def watch(self) -> None:
        """Keep the data process running until `stop` is called."""
        pause_s = LEAST_PAUSE_S
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            since = loop.time()
            why = await self._end() if self.ready is not None else self._last_words
            self.ends += self.ready is not None
            self.ready = None
            self.changed.set()
            if self._stopping.is_set():
                return
            pause_s = LEAST_PAUSE_S if loop.time() - since > WELL_AFTER_S else min(2 * pause_s, MAX_PAUSE_S)
            self._tell(f"the data process {why}; started again in {pause_s:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
                return
            self.restarts += 1
            try:
                self.ready = await self._begun()
                self.changed.set()
            except DataProcessError as fault:
                self.ready, self._last_words = None, f"cannot start: {fault}"

    async def stop(self) -> None:
        """End the data process and give the shared memory back."""
        self._stopping.set()
        self.shared.words[Word.STOP] = 1
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)  # out of a sleep, at once
            try:
                await asyncio.wait_for(self._process.wait(), STOP_PATIENCE_S)
            except TimeoutError:
                self._kill()
                await self._process.wait()
        async with self._beginning:  # one that was just being started has seen that its process is gone
            self._hang_up()
        for kept in (self._tables, self._state, self._segment):
            if kept is not None:
                kept.close()
        if not self._closed:
            self._closed = True
            for event in (self._wake, self.told):
                os.close(event)

    async def _begun(self) -> Ready:
        """Start a process and wait until it forwards; raises DataProcessError."""
        async with self._beginning:
            if self._stopping.is_set():
                raise DataProcessError("it was stopped")
            if self._tables is None:
                raise DataProcessError("no tables were published")
            try:
                return await self._begin()
            except OSError as fault:
                raise DataProcessError(fault.strerror or str(fault)) from None

    async def _begin(self) -> Ready:
        self.shared.words[:] = 0
        count_lost(self.shared.counters)
        forget_requests(self.shared.exchange)
        withdraw(self.shared.injects)  # made for the one before, it may be true no longer
        if self._state is not None:
            self._state.close()
        shapes = {name: Shape(*one) for name, one in layout(self._local.limits).items()}
        self._state = segment.make(f"{self._local.gateway_id}-state", shapes)
        self._state.arrays["counts"][SEED] = int.from_bytes(os.urandom(8), "little", signed=True)
        end, other = link.pair()
        end.setblocking(False)
        try:
            with other:
                self._process = await self._started(other.fileno())
            if self._stopping.is_set():
                self._kill()
            files = (self._segment.fd, self._state.fd, self._wake, self.told)
            link.send(end, Start(local=self._local, options=self._options, paired=self._paired), files)
        except BaseException:
            end.close()
            raise
        self._socket = end  # only now: tables that are published have to come after the start
        self._offer()
        answering = asyncio.ensure_future(self._answer(end))
        await asyncio.wait({answering}, timeout=SLOW_START_S)
        if not answering.done():
            self._tell(
                "the data process is not ready yet: a first start compiles for minutes; scripts/setup does so before"
            )
        try:
            answer = await asyncio.wait_for(answering, START_PATIENCE_S)
        except TimeoutError:
            answer = Failed(reason=f"it was not ready within {START_PATIENCE_S:g} s")
        if isinstance(answer, Ready):
            return answer
        if answer is None:  # it hung up, and is about to end by itself
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_PATIENCE_S)
        self._kill()
        await self._process.wait()
        reason = answer.reason if isinstance(answer, Failed) else await self._how_it_ended()
        self._hang_up()
        raise DataProcessError(reason)

    async def _started(self, file: int) -> asyncio.subprocess.Process:
        """Start a process that is given its end of the socket."""
        return await asyncio.create_subprocess_exec(
            *self._command,
            str(file),
            pass_fds=(file,),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # an interrupt from the terminal is for us; we end it in order
        )

    async def _answer(self, end: socket.socket) -> Any:
        """Wait for the message that a data process sends once; None where it died before."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        loop.add_reader(end.fileno(), _done, arrived)
        try:
            await arrived
        finally:
            loop.remove_reader(end.fileno())
        try:
            return link.receive(end)[0]
        except OSError:
            return None

    def _offer(self) -> None:
        """Send the present tables to the present data process, if there is one."""
        if self._socket is None or self._tables is None:
            return
        with contextlib.suppress(OSError):  # it died: the next one gets them
            link.send(self._socket, Offer(generation=self._generation), (self._tables.fd,))
            self.shared.words[Word.OFFERED] += 1
        self.wake()

    async def _end(self) -> str:
        """Wait until the data process has ended or hangs; return what happened."""
        if self._process is None:
            return "was never started"
        loop = asyncio.get_running_loop()
        liveness = Liveness(self._look_s, loop.time())
        ended = asyncio.ensure_future(self._process.wait())
        try:
            while True:
                done, _ = await asyncio.wait({ended}, timeout=self._look_s)
                if done:
                    return await self._how_it_ended()
                liveness.look(int(self.shared.words[Word.CALLS]), loop.time())
                self._hangs_is(liveness.hangs)
                if liveness.is_stuck:
                    self._kill()
                    await ended
                    return f"did nothing for {STUCK_LOOKS * self._look_s:g} s and was ended"
        finally:
            self._hangs_is(False)
            ended.cancel()
            self._hang_up()

    def _hangs_is(self, hangs: bool) -> None:
        if hangs != self.hangs:
            self.hangs = hangs
            self.hung += hangs
            self.changed.set()

    async def _how_it_ended(self) -> str:
        """Return how the present process ended, in words, with the last line that it wrote."""
        if self._process is None or self._process.stderr is None:
            return "ended"
        status = await self._process.wait()
        told = (await self._process.stderr.read())[-4096:].decode(errors="replace").strip().splitlines()
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{how}: {told[-1].strip()[:200]}" if told else how

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
