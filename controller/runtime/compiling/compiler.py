"""The compiler of rules, as the controller sees it: requests to a process, whose replies the event loop decodes.

Invariants: an unchanged switch keeps the very object of its rules, and unchanged rules of a changed switch keep theirs;
the event loop decodes one part per turn. A process that is lost is replaced, and the request sent again.
"""

import asyncio
import contextlib
import logging
import pickle
from collections.abc import Mapping

from heddle.controller.brain.intent import severed_pins
from heddle.controller.brain.steering.openflow.compiling import compile_beside
from heddle.controller.model.effect import Compile
from heddle.controller.model.event import Compiled
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import SeveredPins
from heddle.controller.model.rule import SwitchRules
from heddle.controller.runtime.child_process import LOST, ChildProcess
from heddle.controller.runtime.compiling.wire import Begin, CompileMessage, End, Part, PartReader

MODULE = "heddle.controller.runtime.compiling.child"
ATTEMPTS = 2
LIMIT_S = 120.0
"""A process that takes longer for a reply counts as lost; 200 failed cables of 64 x 128 switches take 5 s."""
_LOG = logging.getLogger("heddle.controller")


class ProcessCompiler:
    """Compiles in a process; pins of severed flows in a thread beside it."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._first = pickle.dumps(Begin(fabric))
        self._process: ChildProcess | None = None
        self._turn = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Return the id of the process, None where none runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process, once, before the first request."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())

    def use(self, fabric: Fabric) -> None:
        """Compile for another fabric from now on. Call it after `start`, and before any request."""
        self.close()
        self._fabric, self._first, self._starting = fabric, pickle.dumps(Begin(fabric)), None
        self.start()

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
        self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    async def _start(self) -> None:
        async with self._turn:
            with contextlib.suppress(OSError):
                await self._running()

    async def _running(self) -> ChildProcess:
        """Return the process, a new one where there is none."""
        if self._process is None:
            self._process = ChildProcess(MODULE)
            await self._process.send(self._first)
        return self._process

    async def _underlay(self, work: Compile) -> Mapping[str, SwitchRules] | None:
        """Return the rules of switches that differ; None where one process after another is lost."""
        message = CompileMessage(base=work.base, health=work.health)
        async with self._turn:
            for _ in range(ATTEMPTS):
                try:
                    process = await self._running()
                    async with asyncio.timeout(LIMIT_S):
                        return await _rules(process, message, work.before)
                except LOST:
                    self._end()
        return None

    async def _pins(self, work: Compile) -> Mapping[str, SeveredPins]:
        if not work.pinned:
            return {}
        return await asyncio.to_thread(severed_pins, self._fabric, work.pinned, work.health)


async def _rules(
    process: ChildProcess, message: CompileMessage, before: Mapping[str, SwitchRules]
) -> Mapping[str, SwitchRules]:
    """Return the rules that differ from those before; raises LOST."""
    reader = PartReader(before)
    await process.send(pickle.dumps(message))
    while isinstance(part := await process.receive(), Part):
        reader.add(part)
        await asyncio.sleep(0)  # reading does not yield while parts are buffered
    assert isinstance(part, End)
    return reader.found
