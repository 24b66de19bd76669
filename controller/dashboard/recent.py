"""Keep what ports counted lately, for a controller without a history file: ten minutes, or as many as fit MAX_BYTES."""

import asyncio
from collections import deque
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.controller.runtime.background import Background
from heddle.controller.runtime.telemetry import PortPast, Telemetry
from heddle.telemetry.detection.window import SECOND_NS, Snapshot
from heddle.telemetry.samples.counters import PORT_COUNTERS, QUEUE_COUNTERS, QUEUES_AT, queue_columns

SECONDS = 600
MAX_BYTES = 32 << 20
QUEUES_IN_ALL = -1
"""The priority of a row that adds up all queues of a port."""

Words = NDArray[np.uint64]


class _Second(NamedTuple):
    """The totals of all ports at the end of a second: (ports, PORT_COUNTERS then QUEUE_COUNTERS), and the depths."""

    start_s: int
    totals: Words
    depth_bytes: Words


class Recent:
    """The newest seconds of telemetry."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._seconds: deque[_Second] = deque()
        self._row: dict[str, int] = {}
        self._background = Background()

    def start(self) -> None:
        """Begin to keep, where there is no history."""
        if self._telemetry.history is None:
            self._background.start(self._run())

    async def close(self) -> None:
        """Stop."""
        await self._background.close()

    def port(self, name: str, since_s: int, until_s: int) -> PortPast:
        """Return what a port counted within a time, its queues added up."""
        row = self._row.get(name)
        seconds = tuple(self._seconds)
        pairs = [
            (before, after)
            for before, after in pairwise(seconds)
            if row is not None and since_s <= after.start_s <= until_s
        ]
        ports, queues = [], []
        for before, after in pairs:
            grown = (after.totals[row] - before.totals[row]).tolist()
            ports.append((after.start_s, *grown[:QUEUES_AT]))
            queues.append((after.start_s, QUEUES_IN_ALL, *grown[QUEUES_AT:], int(after.depth_bytes[row])))
        return PortPast(1, [after.start_s for _, after in pairs], ports, queues)

    async def _run(self) -> None:
        number = 0
        while True:
            number, tick = await self._telemetry.ticks.after(number)
            await asyncio.to_thread(self._add, tick.snapshot)

    def _add(self, snapshot: Snapshot) -> None:
        start_s = snapshot.now_ns // SECOND_NS
        if self._seconds and self._seconds[-1].start_s >= start_s:
            return
        if len(self._row) != len(snapshot.names):
            self._row = {name: row for row, name in enumerate(snapshot.names)}
            self._seconds.clear()
        queues = [snapshot.total[:, queue_columns(name)].sum(axis=1) for name in QUEUE_COUNTERS]
        totals = np.column_stack((snapshot.total[:, : len(PORT_COUNTERS)], *queues))
        self._seconds.append(_Second(start_s, totals, snapshot.depth_bytes.max(axis=1)))
        second_bytes = totals.nbytes + self._seconds[-1].depth_bytes.nbytes
        while len(self._seconds) > min(SECONDS, MAX_BYTES // second_bytes):
            self._seconds.popleft()
