"""The compiler of rules in threads; `tests/unit/runtime/test_process_compiler.py` compares it with the process."""

import asyncio

from heddle.controller.brain.steering.openflow.compiling import compile_beside
from heddle.controller.model.effect import Compile
from heddle.controller.model.event import Compiled
from heddle.controller.model.fabric import Fabric


class ThreadCompiler:
    """Compiles as `ProcessCompiler` does, but no process starts."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def start(self) -> None:
        """Nothing has to start."""

    def use(self, fabric: Fabric) -> None:
        """Compile for another fabric."""
        self._fabric = fabric

    async def compile(self, work: Compile) -> Compiled:
        """Compile in a thread."""
        return await asyncio.to_thread(compile_beside, self._fabric, work)

    def close(self) -> None:
        """Nothing has to end."""
