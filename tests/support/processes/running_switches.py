"""Every switch of a fabric as a fake that decodes the controller's bytes, in a thread with an event loop of its own."""

import asyncio
import contextlib
import math
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TypeVar

from heddle.controller.model.fabric import Cable, Fabric, PortRef
from heddle.controller.model.rule import Cookie, CookieKind
from heddle.testing.switches.openflow_switch import BARRIER_REQUEST, FLOW_MOD, GROUP_MOD, FakeSwitch

TIMEOUT_S = 60.0
RECONNECT_S = 0.2
Result = TypeVar("Result")


class TimedSwitch(FakeSwitch):
    """A fake switch that records the times of the rules it gets: monotonic seconds, by whether they are pins."""

    def __init__(self, datapath_id: int, ports: int) -> None:
        super().__init__(datapath_id, ports)
        self.rules_at: dict[bool, list[float]] = {False: [], True: []}
        self.barriers_at: list[float] = []
        self.hello_at = self.change_at = 0.0

    async def connect(self, host: str, port: int) -> None:
        await super().connect(host, port)
        self.hello_at = time.monotonic()

    def _replies(self, kind: int, whole: bytes) -> list[tuple[int, bytes]]:
        if kind in (FLOW_MOD, GROUP_MOD):
            self.change_at = time.monotonic()
        if kind == FLOW_MOD:
            cookie = Cookie.unpack(struct.unpack_from("!Q", whole, 8)[0])
            self.rules_at[cookie is not None and cookie.kind is CookieKind.PIN].append(time.monotonic())
        elif kind == BARRIER_REQUEST:
            self.barriers_at.append(time.monotonic())
        return super()._replies(kind, whole)

    def forget(self) -> None:
        """Forget the times."""
        self.rules_at, self.barriers_at = {False: [], True: []}, []


class Switches:
    """The switches of one fabric; methods may be called from any thread."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="switches", daemon=True)
        ports = [port for cable in fabric.cables for port in (cable.lower, cable.upper)]
        ports += [nic.port for nic in fabric.nics]
        numbers = {switch.id: 0 for switch in fabric.switches}
        for port in ports:
            numbers[port.switch] = max(numbers[port.switch], port.number)
        self.by_id = {switch.id: TimedSwitch(switch.datapath_id, numbers[switch.id]) for switch in fabric.switches}
        self._thread.start()

    def connect(self, address: str) -> None:
        """Connect every switch to the controller; one whose session ends connects again, as Open vSwitch does."""
        host, _, port = address.rpartition(":")

        async def stay_connected(switch: TimedSwitch) -> None:
            while True:
                with contextlib.suppress(OSError):
                    await switch.connect(host, int(port))
                    await switch.closed(math.inf)
                await asyncio.sleep(RECONNECT_S)

        async def connect() -> None:
            self._tasks = [asyncio.create_task(stay_connected(switch)) for switch in self.by_id.values()]

        asyncio.run_coroutine_threadsafe(connect(), self._loop).result(TIMEOUT_S)

    def hang_up(self, switch: str) -> None:
        """Let a switch close its connection; it connects again."""
        self.run(self.by_id[switch].hang_up)

    def close(self) -> None:
        """Disconnect and end the thread."""

        async def disconnect() -> None:
            for task in self._tasks:
                task.cancel()
            for switch in self.by_id.values():
                await switch.disconnect()

        asyncio.run_coroutine_threadsafe(disconnect(), self._loop).result(TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)
        self._loop.close()

    def run(self, act: Callable[[], Result]) -> Result:
        """Run a function in the switches' thread and return its result."""

        async def call() -> Result:
            return act()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(TIMEOUT_S)

    def set_cable(self, cable: Cable, *, up: bool) -> float:
        """Let both ends of a cable notify the controller; return the time, monotonic seconds."""

        def send() -> float:
            for switch in self.by_id.values():
                switch.forget()
            now = time.monotonic()
            for port in (cable.lower, cable.upper):
                self._set_port(port, up=up)
            return now

        return self.run(send)

    def post_port(self, port: PortRef, *, up: bool) -> None:
        """Let one port notify the controller; does not wait for it."""
        self._loop.call_soon_threadsafe(lambda: self._set_port(port, up=up))

    def _set_port(self, port: PortRef, *, up: bool) -> None:
        self.by_id[port.switch].set_port(port.number, up=up)

    def changes(self) -> int:
        """Return how many messages that change rules or groups have arrived."""
        kinds = (FLOW_MOD, GROUP_MOD)
        return self.run(lambda: sum(switch.received[kind] for switch in self.by_id.values() for kind in kinds))

    def last_hello(self) -> float:
        """Return when the last switch to connect sent its Hello."""
        return self.run(lambda: max(switch.hello_at for switch in self.by_id.values()))

    def last_change(self) -> float:
        """Return when the last message that changes rules or groups has arrived."""
        return self.run(lambda: max(switch.change_at for switch in self.by_id.values()))

    def last_rule(self, *, pins: bool) -> float | None:
        """Return when the last pin, or the last other rule, arrived since `set_cable`; None where none did."""
        return self.run(
            lambda: max((at for switch in self.by_id.values() for at in switch.rules_at[pins]), default=None)
        )

    def last_barrier(self) -> float | None:
        """Return when the last barrier request arrived since `set_cable`; None where none did."""
        return self.run(lambda: max((at for switch in self.by_id.values() for at in switch.barriers_at), default=None))


@contextmanager
def switches(
    fabric: Fabric, address: str, tls: Mapping[str, ssl.SSLContext] = MappingProxyType({})
) -> Iterator[Switches]:
    """Connect every switch of a fabric while the context lasts; `tls` has contexts by switch id."""
    found = Switches(fabric)
    for name, context in tls.items():
        found.by_id[name].tls = context
    try:
        found.connect(address)
        yield found
    finally:
        found.close()
