"""Start the data process, publish tables to it, and restart it if it ends unexpectedly or is stuck.

A restarted data process first gets the tables published last, so it forwards as its predecessor did. Connection state
is not taken over from a process that died.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.control.process import messages, segment
from heddle.dataplane.control.process.liveness import STUCK_SAMPLES, Liveness
from heddle.dataplane.control.process.messages import Failed, Offer, Options, Ready, Start
from heddle.dataplane.control.process.programs import GATEWAY, program_named
from heddle.dataplane.control.process.segment import Segment, Shape
from heddle.dataplane.control.process.shared import Shared, Word, make_shared, shared_of
from heddle.dataplane.elements.memory.exchange import forget_requests
from heddle.dataplane.elements.memory.state import SEED
from heddle.dataplane.engine.counters import count_lost
from heddle.dataplane.engine.rings import withdraw
from heddle.foundation.backoff import Backoff

START_TIMEOUT_S = 900.0
"""A first start without cached kernels compiles them: a minute or two, several times that on a busy machine."""
SLOW_START_S = 20.0
"""After this the operator is notified that kernels are being compiled."""
STOP_TIMEOUT_S = 3.0
RESTART = Backoff(first_s=0.1, max_s=5.0, steady_s=10.0)
SAMPLE_S = 0.05
"""Interval at which the turns of the data process's loop are sampled (`liveness`)."""
_MAIN = "heddle.dataplane.control.process.data_process"
COMMAND = (sys.executable, "-c", f"import gc; gc.disable(); from {_MAIN} import main; raise SystemExit(main())")
"""Without garbage collection from the start: what is imported stays, and to walk it took a fifth of the time."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""Capabilities are a thread's: NumPy starts none that would keep them."""


def _done(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


class DataProcessError(Exception):
    """The data process cannot run on this host with this configuration; the message is one line with the reason."""


class Supervisor:
    """Supervises one gateway's data process across restarts."""

    def __init__(
        self,
        local: LocalConfig,
        options: Options,
        notify: Callable[[str], None],
        *,
        command: Sequence[str] = COMMAND,
        sample_s: float = SAMPLE_S,
        paired: bool = False,
        program: str = GATEWAY,
        kept: Mapping[str, Shape] | None = None,
    ) -> None:
        """Create the shared memory.

        Args:
            local: the gateway or balancer.
            options: of the data process.
            notify: called with one line for each event that the operator should know.
            command: starts a data process.
            sample_s: interval at which its loop is sampled.
            paired: whether connections are replicated with a partner.
            program: what the data process runs (`programs`).
            kept: arrays that belong to all generations of tables and are changed in place.
        """
        self._local, self._options, self._notify = local, options, notify
        self._command, self._sample_s, self._paired = command, sample_s, paired
        self._program = program_named(program)
        self.kept = segment.make(f"{local.gateway_id}-kept", kept or {})
        """The arrays that tables are changed in; they outlive a data process."""
        self._segment = make_shared(local.gateway_id, len(local.interfaces))
        self.shared: Shared = shared_of(self._segment)
        self._tables: Segment | None = None
        self._generation = -1
        self._state: Segment | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket | None = None
        self._start_failure = ""
        self._closed = False
        self._starting = asyncio.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.punt_event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when the data process has punted packets or written connection records."""
        self._stopping = asyncio.Event()
        self.changed = asyncio.Event()
        """Set when the data process has ended, started to forward, hangs or resumed; the waiting task clears it."""
        self.ready: Ready | None = None
        """Message of the present data process when it started to forward; None while none forwards."""
        self.restarts = self.ends = 0
        self.hangs = False
        """Whether the present data process makes no progress; it may resume by itself."""
        self.hung = 0
        """Number of hangs so far."""

    def publish(self, tables: Any) -> None:
        """Publish tables; the data process switches to them between two bursts."""
        old = self._tables
        self._generation = int(tables.generation[0])
        self._tables = segment.filled(f"{self._local.gateway_id}-tables", tables._asdict())
        if old is not None:
            old.close()
        self._offer()

    def installed(self) -> Any:
        """Return the tables in the memory that the data process reads; None before the first are published."""
        arrays = self._tables.arrays if self._tables is not None else {}
        return (
            self._program.tables_of(arrays, self.kept.arrays) if arrays else None
        )  # empty: being replaced at this moment

    def pid(self) -> int:
        """Return the process id of the data process; 0 while none runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else 0

    def forwards(self) -> bool:
        """Return whether a data process forwards."""
        return self.ready is not None and self.pid() != 0

    def state(self) -> Any:
        """Return the connection state of the present data process, read-only; None while none runs."""
        return None if self._state is None else self._program.state_of(self._state.arrays)

    def wake(self) -> None:
        """Wake the data process: a ring holds something for it."""
        if not self._closed:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_write(self._wake, 1)

    async def start(self) -> Ready:
        """Start the data process for the first time, after tables were published; raises DataProcessError."""
        self.ready = await self._start()
        return self.ready

    async def watch(self) -> None:
        """Keep the data process running until `stop` is called."""
        attempt = 1
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            since = loop.time()
            why = await self._wait_until_ended() if self.ready is not None else self._start_failure
            self.ends += self.ready is not None
            self.ready = None
            self.changed.set()
            if self._stopping.is_set():
                return
            attempt = RESTART.next_attempt(attempt, loop.time() - since)
            pause_s = RESTART.delay_s(attempt, jitter=1.0)
            self._notify(f"the data process {why}; restarting in {pause_s:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
                return
            self.restarts += 1
            try:
                self.ready = await self._start()
                self.changed.set()
            except DataProcessError as error:
                self.ready, self._start_failure = None, f"cannot start: {error}"

    async def stop(self) -> None:
        """End the data process and release the shared memory."""
        self._stopping.set()
        self.shared.words[Word.STOP] = 1
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)  # out of a sleep, at once
            try:
                await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
            except TimeoutError:
                self._kill()
                await self._process.wait()
        async with self._starting:  # a start in progress has noticed that its process ended
            self._close_socket()
        for kept in (self._tables, self._state, self._segment, self.kept):
            if kept is not None:
                kept.close()
        if not self._closed:
            self._closed = True
            for event in (self._wake, self.punt_event):
                os.close(event)

    async def _start(self) -> Ready:
        """Start a data process and wait until it forwards; raises DataProcessError."""
        async with self._starting:
            if self._stopping.is_set():
                raise DataProcessError("it was stopped")
            if self._tables is None:
                raise DataProcessError("no tables were published")
            try:
                return await self._start_locked()
            except OSError as error:
                raise DataProcessError(error.strerror or str(error)) from None

    async def _start_locked(self) -> Ready:
        self.shared.words[:] = 0
        count_lost(self.shared.counters)
        forget_requests(self.shared.exchange)
        withdraw(self.shared.injects)  # queued for the previous process; may be outdated
        if self._state is not None:
            self._state.close()
        shapes = {name: Shape(*one) for name, one in self._program.layout(self._local.limits).items()}
        self._state = segment.make(f"{self._local.gateway_id}-state", shapes)
        self._state.arrays["counts"][SEED] = int.from_bytes(os.urandom(8), "little", signed=True)
        end, other = messages.pair()
        end.setblocking(False)
        try:
            with other:
                self._process = await self._spawn(other.fileno())
            if self._stopping.is_set():
                self._kill()
            files = (self._segment.fd, self._state.fd, self._wake, self.punt_event, self.kept.fd)
            start = Start(local=self._local, options=self._options, paired=self._paired, program=self._program.name)
            messages.send(end, start, files)
        except BaseException:
            end.close()
            raise
        self._socket = end  # only now: Start has to be the first message, before any tables
        self._offer()
        return await self._wait_until_ready(end, self._process)

    async def _wait_until_ready(self, end: socket.socket, process: asyncio.subprocess.Process) -> Ready:
        """Wait for the reply to Start; end the process and raise DataProcessError if it cannot run."""
        receiving = asyncio.ensure_future(self._receive(end))
        await asyncio.wait({receiving}, timeout=SLOW_START_S)
        if not receiving.done():
            self._notify(
                "the data process is not ready yet: compiling kernels takes minutes; scripts/setup does it before"
            )
        try:
            reply = await asyncio.wait_for(receiving, START_TIMEOUT_S)
        except TimeoutError:
            reply = Failed(reason=f"it was not ready within {START_TIMEOUT_S:g} s")
        if isinstance(reply, Ready):
            return reply
        if reply is None:  # it closed the socket and is about to end by itself
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        self._kill()
        await process.wait()
        reason = reply.reason if isinstance(reply, Failed) else await self._exit_text()
        self._close_socket()
        raise DataProcessError(reason)

    async def _spawn(self, file: int) -> asyncio.subprocess.Process:
        """Start the process with its end of the socket."""
        return await asyncio.create_subprocess_exec(
            *self._command,
            str(file),
            pass_fds=(file,),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # the terminal's SIGINT goes to this process only, which ends the other in order
        )

    async def _receive(self, end: socket.socket) -> Any:
        """Return the data process's only message; None if the process died before it sent one."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()
        loop.add_reader(end.fileno(), _done, arrived)
        try:
            await arrived
        finally:
            loop.remove_reader(end.fileno())
        try:
            return messages.receive(end)[0]
        except OSError:
            return None

    def _offer(self) -> None:
        """Send the present tables to the data process, if one runs."""
        if self._socket is None or self._tables is None:
            return
        with contextlib.suppress(OSError):  # the process died: the next one gets them
            messages.send(self._socket, Offer(generation=self._generation), (self._tables.fd,))
            self.shared.words[Word.OFFERED] += 1
        self.wake()

    async def _wait_until_ended(self) -> str:
        """Wait until the data process has ended, or is stuck and was killed; return the reason."""
        if self._process is None:
            return "was never started"
        loop = asyncio.get_running_loop()
        liveness = Liveness(self._sample_s, loop.time())
        ended = asyncio.ensure_future(self._process.wait())
        try:
            while True:
                done, _ = await asyncio.wait({ended}, timeout=self._sample_s)
                if done:
                    return await self._exit_text()
                liveness.sample(int(self.shared.words[Word.CALLS]), loop.time())
                self._set_hangs(liveness.hangs)
                if liveness.is_stuck:
                    self._kill()
                    await ended
                    return f"made no progress for {STUCK_SAMPLES * self._sample_s:g} s and was killed"
        finally:
            self._set_hangs(False)
            ended.cancel()
            self._close_socket()

    def _set_hangs(self, hangs: bool) -> None:
        if hangs != self.hangs:
            self.hangs = hangs
            self.hung += hangs
            self.changed.set()

    async def _exit_text(self) -> str:
        """Return the exit status or signal of the process, with the last line of its standard error."""
        if self._process is None or self._process.stderr is None:
            return "ended"
        status = await self._process.wait()
        lines = (await self._process.stderr.read())[-4096:].decode(errors="replace").strip().splitlines()
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return f"{how}: {lines[-1].strip()[:200]}" if lines else how

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
