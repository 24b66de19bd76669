"""The compiler of rules, as the controller sees it: requests to a process, whose replies the event loop decodes.

Invariants: an unchanged switch keeps the very object of its rules, and unchanged rules of a changed switch keep theirs;
the event loop decodes one part per turn. A process that is lost is replaced, and the request sent again.
"""

import asyncio
import contextlib
import logging
import pickle
import struct
from collections.abc import Mapping

from heddle.controller.brain.intent import severed_pins
from heddle.controller.brain.steering.openflow.compiling import compile_beside
from heddle.controller.model.effect import Compile
from heddle.controller.model.event import Compiled
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import SeveredPins
from heddle.controller.model.rule import SwitchRules
from heddle.controller.runtime import child_process
from heddle.controller.runtime.compiling.wire import Begin, CompileMessage, End, Part, PartReader

MODULE = "heddle.controller.runtime.compiling.child"
ATTEMPTS = 2
LIMIT_S = 120.0
"""A process that takes longer for a reply counts as lost; 200 failed cables of 64 x 128 switches take 5 s."""
_LENGTH = struct.Struct("!i")
"""The length of a message, as `multiprocessing.connection` writes it below 2 GiB."""
_LOG = logging.getLogger("heddle.controller")


class CompilerLostError(Exception):
    """The compiler's process ended before it replied."""


class _Worker:
    """One process and its connection."""

    def __init__(self) -> None:
        self._process, self._socket = child_process.begin(MODULE)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    async def connect(self, first: bytes) -> None:
        """Send the first message, which is pickled already."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._socket)
        self._send(first)

    async def rules(self, message: CompileMessage, before: Mapping[str, SwitchRules]) -> PartReader:
        """Return the rules that differ from those before; raises CompilerLostError."""
        reader = PartReader(before)
        self._send(pickle.dumps(message))
        while isinstance(part := await self._received(), Part):
            reader.add(part)
            await asyncio.sleep(0)  # reading does not yield while parts are buffered
        assert isinstance(part, End)
        return reader

    def close(self) -> None:
        """End the process and the connection."""
        child_process.end(self._process)
        if self._writer is not None:
            self._writer.close()
        else:
            self._socket.close()

    def _send(self, content: bytes) -> None:
        assert self._writer is not None
        self._writer.write(_LENGTH.pack(len(content)) + content)

    async def _received(self) -> object:
        assert self._reader is not None
        try:
            (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return pickle.loads(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError) as lost:
            raise CompilerLostError from lost


class ProcessCompiler:
    """Compiles in a process; pins of severed flows in a thread beside it."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._first = pickle.dumps(Begin(fabric))
        self._worker: _Worker | None = None
        self._turn = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Return the id of the process, None where none runs."""
        return self._worker.pid if self._worker is not None else None

    def start(self) -> None:
        """Start the process, before the first request."""
        self._starting = asyncio.get_running_loop().create_task(self._start())

    async def compile(self, work: Compile) -> Compiled:
        """Return the underlay and the pins for a state of the fabric."""
        pins = asyncio.create_task(self._pins(work))
        try:
            underlay = await self._underlay(work)
            if underlay is None:
                _LOG.error("the compiler's process ended %d times; compiling in a thread", ATTEMPTS)
                return await asyncio.to_thread(compile_beside, self._fabric, work)
            return Compiled(
                token=work.token,
                underlay={**work.before, **underlay},
                differing=frozenset(underlay),
                pins=await pins,
            )
        finally:
            pins.cancel()

    def close(self) -> None:
        """End the process; does not wait for a request under way."""
        if self._starting is not None:
            self._starting.cancel()
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    async def _start(self) -> None:
        async with self._turn:
            with contextlib.suppress(OSError):
                await self._running()

    async def _running(self) -> _Worker:
        """Return the process, a new one where there is none."""
        if self._worker is None:
            self._worker = _Worker()
            await self._worker.connect(self._first)
        return self._worker

    async def _underlay(self, work: Compile) -> Mapping[str, SwitchRules] | None:
        """Return the rules of switches that differ; None where one process after another is lost."""
        message = CompileMessage(base=work.base, health=work.health)
        async with self._turn:
            for _ in range(ATTEMPTS):
                try:
                    worker = await self._running()
                    async with asyncio.timeout(LIMIT_S):
                        return (await worker.rules(message, work.before)).found
                except (CompilerLostError, OSError):  # a TimeoutError is an OSError
                    if self._worker is not None:
                        self._worker.close()
                        self._worker = None
        return None

    async def _pins(self, work: Compile) -> Mapping[str, SeveredPins]:
        if not work.pinned:
            return {}
        return await asyncio.to_thread(severed_pins, self._fabric, work.pinned, work.health)
