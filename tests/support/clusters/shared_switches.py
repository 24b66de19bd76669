"""Every switch of a fabric, each with a session to every controller, in a thread with an event loop of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from heddle.controller.model.fabric import Fabric
from heddle.testing.switches.shared_switch import SharedSwitch

TIMEOUT_S = 60.0
PORTS = 64
Result = TypeVar("Result")


class SharedSwitches:
    """Methods may be called from any thread."""

    ports = PORTS

    def __init__(self, fabric: Fabric, addresses: Sequence[str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="switches", daemon=True)
        self._thread.start()
        self.all = [self.made(switch.id, switch.datapath_id) for switch in fabric.switches]

        def connect() -> None:
            for switch in self.all:
                switch.connect(list(addresses))

        self.read(connect)

    def made(self, name: str, datapath_id: int) -> SharedSwitch:
        """Return a switch, not connected."""
        return SharedSwitch(datapath_id, self.ports)

    def read(self, act: Callable[[], Result]) -> Result:
        """Call a function in the switches' thread."""

        async def call() -> Result:
            return act()

        return self.run(call())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)

    def close(self) -> None:
        async def close() -> None:
            await asyncio.gather(*(switch.close() for switch in self.all))

        self.run(close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()


@contextmanager
def shared_switches(fabric: Fabric, addresses: Sequence[str]) -> Iterator[SharedSwitches]:
    """Connect every switch of a fabric to all controllers while the context lasts."""
    found = SharedSwitches(fabric, addresses)
    try:
        yield found
    finally:
        found.close()
