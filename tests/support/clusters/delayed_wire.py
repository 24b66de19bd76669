"""A proxy before a controller's OpenFlow port: each message waits for a random time, and some until the test allows it.

Messages of one connection stay in order, as TCP keeps them; those of different controllers and switches overtake each
other. What a controller has sent before it ended is delivered later nevertheless.
"""

import asyncio
import random
from contextlib import ExitStack, suppress

from heddle.foundation.listener import close_listener

DELAYS_S = (0.0, 0.0, 0.0, 0.002, 0.005, 0.03)
"""The upper ends of delays, of which each message draws one."""


class DelayedWire:
    """The connections of all switches to one controller, whose address may change."""

    def __init__(self, drawn: random.Random) -> None:
        self.target = ("", 0)
        self.address = ""
        self.waiting = 0
        """Messages on their way."""
        self._drawn = drawn
        self._gates: list[asyncio.Event] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = "127.0.0.1:{1}".format(*self._server.sockets[0].getsockname())

    def hold(self, share: float) -> None:
        """Keep back what the controller sends on some of the connections."""
        for gate in self._gates:
            if self._drawn.random() < share:
                gate.clear()

    async def release(self) -> None:
        """Deliver what is kept back, one connection after the other."""
        for gate in self._drawn.sample(self._gates, len(self._gates)):
            await asyncio.sleep(self._drawn.uniform(0, 0.03))
            gate.set()

    async def close(self) -> None:
        assert self._server is not None
        await close_listener(self._server)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection. It closes at the end of its task, also of one that is cancelled before it runs."""
        serving = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(serving)
        serving.add_done_callback(self._tasks.discard)
        serving.add_done_callback(lambda _: writer.close())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry messages both ways until the ends close the connection or `close` cancels this."""
        gate, is_open = asyncio.Event(), asyncio.Event()
        gate.set()
        is_open.set()
        with ExitStack() as ends, suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*self.target)
            ends.callback(far_writer.close)
            self._gates.append(gate)
            ends.callback(self._gates.remove, gate)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(reader, far_writer, is_open))
                both.create_task(self._carry(far_reader, writer, gate))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        try:
            while True:
                header = await reader.readexactly(8)
                whole = header + await reader.readexactly(int.from_bytes(header[2:4]) - 8)
                self.waiting += 1
                try:
                    await asyncio.sleep(self._drawn.uniform(0, self._drawn.choice(DELAYS_S)))
                    await gate.wait()
                    writer.write(whole)
                    await writer.drain()
                finally:
                    self.waiting -= 1
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
