"""Watch the event loop and the switches' sessions: how late the loop is, and since when a session is as it is."""

import asyncio
from collections import deque

from heddle.controller.runtime.background import Background
from heddle.controller.runtime.loop import Loop

PERIOD_S = 0.1
SAMPLES = 600
"""One minute."""


class Pulse:
    """`lags_ms` are the newest lags of the loop; `since_ms` the time of the last change of each switch's session."""

    def __init__(self, loop: Loop) -> None:
        self.lags_ms: deque[float] = deque(maxlen=SAMPLES)
        self.since_ms: dict[str, int] = {}
        self._loop = loop
        self._switches: object = None
        self._connected: dict[str, bool] = {}
        self._background = Background()

    def start(self) -> None:
        """Begin to watch."""
        self._background.start(self._run())

    async def close(self) -> None:
        """Stop."""
        await self._background.close()

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due_s = clock() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            self.lags_ms.append((clock() - due_s) * 1_000)
            self._note_sessions()

    def _note_sessions(self) -> None:
        switches = self._loop.state.switches
        if switches is self._switches:
            return
        self._switches = switches
        for name, switch in switches.items():
            if self._connected.get(name) != switch.connected:
                self._connected[name], self.since_ms[name] = switch.connected, self._loop.now_unix_ms()
