"""Read the counters of the lab's emulated switches and NICs from the files that they write.

Switches: one counter page (`telemetry.counter_page`) for all ports of a lab, named `SWITCH:NUMBER`. NICs: a folder
with a JSON file per NIC, replaced atomically: {"nic", "host", "boot_id", "timestamp_unix_ns", "counters": {…}}.
A new lab under the same path replaces the files; readers reopen them.
"""

import asyncio
import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from heddle.foundation.regular_file import read_regular
from heddle.telemetry.agent.nic_counters import nic_sample
from heddle.telemetry.agent.source import DeviceSamples, SourceError
from heddle.telemetry.counter_page import (
    PORT_FIELDS,
    QUEUE_FIELDS,
    CounterPageError,
    CounterPageReader,
    CounterSnapshot,
    TornReadError,
)
from heddle.telemetry.samples.sample import PortSample, QueueSample
from heddle.telemetry.samples.topic import Source

MAX_NICS = 4_096
MAX_FILE_BYTES = 1 << 20
READ_TRIES, MAX_RETRIES, RETRY_DELAY_S = 5, 20, 0.001
READS_PER_PERIOD = 5
"""Scans of the NICs' folder per period, since each NIC writes at its own times."""


class EmulatedSwitches:
    """The switches of one counter page; `only` limits them to some. The page is updated every few milliseconds."""

    reads_per_period = 1

    def __init__(self, page: Path, only: Collection[str] = ()) -> None:
        self.name = f"counter page {page}"
        self._path = page
        self._only = frozenset(only)
        self._open: tuple[int, CounterPageReader] | None = None

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the counters of the page, with the page's timestamp."""
        try:
            snapshot = await self._snapshot()
        except FileNotFoundError:
            await self.close()
            raise SourceError("there is no such file: is the lab running?") from None
        except (OSError, CounterPageError) as fault:
            raise SourceError(str(fault)) from None
        return [DeviceSamples(Source.SWITCH, switch, samples) for switch, samples in self._samples(snapshot).items()]

    async def _snapshot(self) -> CounterSnapshot:
        """Read the page; retry while its writer is preempted in the middle of a write."""
        for _ in range(MAX_RETRIES):
            with suppress(TornReadError):
                return self._page().read(READ_TRIES)
            await asyncio.sleep(RETRY_DELAY_S)
        return self._page().read(READ_TRIES)

    async def close(self) -> None:
        """Unmap the page."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _page(self) -> CounterPageReader:
        inode = os.stat(self._path).st_ino
        if self._open is not None:
            if self._open[0] == inode:
                return self._open[1]
            self._open[1].close()
            self._open = None
        self._open = inode, CounterPageReader(self._path)
        return self._open[1]

    def _samples(self, snapshot: CounterSnapshot) -> Mapping[str, list[PortSample]]:
        if snapshot.timestamp_unix_ns == 0:
            return {}  # not written yet
        found: dict[str, list[PortSample]] = {}
        ports, queues = snapshot.ports.tolist(), snapshot.queues.tolist()
        for row, port in enumerate(snapshot.names):
            switch = port.partition(":")[0]
            if self._only and switch not in self._only:
                continue
            sample = PortSample(
                port=port,
                timestamp_unix_ns=snapshot.timestamp_unix_ns,
                boot_id=snapshot.boot_id,
                queues=tuple(_queue(priority, values) for priority, values in enumerate(queues[row])),
                **dict(zip(PORT_FIELDS, ports[row], strict=True)),
            )
            found.setdefault(switch, []).append(sample)
        return found


class EmulatedNics:
    """The NICs of a folder; `host_of` gives a NIC's host if its file does not, `only` limits them to some hosts.

    A NIC that writes more often than every `period_ns` is read about once per period.
    """

    reads_per_period = READS_PER_PERIOD

    def __init__(
        self, folder: Path, host_of: Mapping[str, str] | None = None, only: Collection[str] = (), period_ns: int = 0
    ) -> None:
        self.name = f"NICs in {folder}"
        self._min_distance_ns = period_ns * 3 // 4
        self._folder = folder
        self._host_of = dict(host_of or {})
        self._only = frozenset(only)
        self._read: dict[str, tuple[int, int]] = {}

    async def read(self, now_unix_ns: int) -> Sequence[DeviceSamples]:
        """Return the counters of every NIC whose file was replaced; raises SourceError if one cannot be read."""
        found: dict[str, list[PortSample]] = {}
        try:
            paths = sorted(self._folder.glob("*.json"))
        except OSError as fault:
            raise SourceError(str(fault)) from None
        if not paths:
            raise SourceError("no counter files of NICs: is the lab running?")
        last, self._read = self._read, {}
        for path in paths[:MAX_NICS]:
            version, before = _version(path), last.get(path.name)
            if version is not None and before is not None and not self._is_due(version, before):
                self._read[path.name] = before
                continue
            content = _read_json(path)
            if version is None or content is None:
                continue  # the NIC has just been removed
            host = content.get("host") or self._host_of.get(path.stem)
            if not host:
                raise SourceError(f"the host of {path.stem} is unknown: give the fabric file")
            if not self._only or host in self._only:
                found.setdefault(str(host), []).append(_nic(path, content))
            self._read[path.name] = version
        return [DeviceSamples(Source.HOST, host, samples) for host, samples in found.items()]

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    def _is_due(self, version: tuple[int, int], before: tuple[int, int]) -> bool:
        """Return whether a file was replaced, and is older than the last one or newer by the minimum distance."""
        return version != before and not 0 <= version[1] - before[1] < self._min_distance_ns


def _queue(priority: int, values: Sequence[int]) -> QueueSample:
    counters = dict(zip(QUEUE_FIELDS, values, strict=True))
    trips, restores = counters.pop("watchdog_trips"), counters.pop("watchdog_restores")
    return QueueSample(priority=priority, watchdog_active=trips > restores, **counters)


def _version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(read_regular(path, MAX_FILE_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as fault:
        raise SourceError(f"{path.name}: {fault}") from None
    if not isinstance(content, dict):
        raise SourceError(f"{path.name}: not a JSON object")
    return content


def _nic(path: Path, content: Mapping[str, Any]) -> PortSample:
    try:
        counters = {str(name): int(value) for name, value in content["counters"].items()}
        return nic_sample(
            str(content["nic"]),
            counters,
            timestamp_unix_ns=int(content["timestamp_unix_ns"]),
            boot_id=int(content["boot_id"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as fault:
        raise SourceError(f"{path.name}: not the counters of a NIC: {fault!r}") from None
