"""The process that probes back ends: `python -m heddle.dataplane.control.probing.process FD`, started by `prober`.

It reads which targets there are, and writes each change of a target's health. It ends when its socket is closed.
"""

import asyncio
import socket
import sys
from typing import Any

from heddle.dataplane.balancer.health import Health, probed
from heddle.dataplane.control.probing.orders import Forget, Turned, Watch, read_messages
from heddle.dataplane.control.probing.probes import Target, probe
from heddle.dataplane.control.process import messages


class Probing:
    """The tasks of the process, one for each target."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._tasks: dict[Any, tuple[Target, asyncio.Task[None]]] = {}

    async def serve(self) -> None:
        """Probe until the other end of the socket is closed."""
        await read_messages(self._end, self._obey)

    def _obey(self, message: Any) -> None:
        if isinstance(message, Watch):
            self._watch(message.targets)
        elif isinstance(message, Forget):
            self._forget(message.keys)

    def _watch(self, targets: dict[Any, Target]) -> None:
        for key, target in targets.items():
            if key in self._tasks and self._tasks[key][0] == target:
                continue
            self._forget((key,))
            self._tasks[key] = (target, asyncio.create_task(self._probe(key, target)))

    def _forget(self, keys: tuple[Any, ...]) -> None:
        for key in keys:
            if key in self._tasks:
                self._tasks.pop(key)[1].cancel()

    async def _probe(self, key: Any, target: Target) -> None:
        """Probe one target at its interval, counted from the beginning of each probe."""
        loop, health = asyncio.get_running_loop(), Health()
        due = loop.time()
        while True:
            health, before = probed(health, target.check, await probe(target)), health
            if health.is_up != before.is_up:
                await loop.run_in_executor(None, messages.send, self._end, Turned(key, health.is_up))
            due = max(due + target.check.interval_ms / 1000, loop.time())
            await asyncio.sleep(due - loop.time())


def main() -> int:
    """Run the process."""
    with socket.socket(fileno=int(sys.argv[1])) as end:
        asyncio.run(Probing(end).serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
