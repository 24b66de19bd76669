"""The counter page: a memory-mapped file with a switch's counters that other processes read at any rate.

The emulated fabric's queue daemon writes it every few milliseconds; agents and tests map and read it. Little-endian:

    0   magic "HEDDLECP"        8   version u32      12  first array at u32
    16  boot id u64             24  ports u32        28  priorities u32 (8)
    32  sequence u64            40  timestamp_unix_ns u64
    48  length of names u32, then the port names in UTF-8, each ended by a zero byte
    ..  (from a multiple of 64) u64 [ports][PORT_FIELDS], then u64 [ports][8][QUEUE_FIELDS]

The sequence is a seqlock: odd while the writer writes. A reader copies the arrays, and retries a bounded number of
times if the sequence was odd or has changed. There is one writer. Counters never decrease under the same boot id;
`depth_bytes` and `max_depth_bytes` are gauges. A queue that the PFC watchdog discards has one more trip than restores;
`dropped_packets` includes what it discarded.
"""

import mmap
import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heddle.foundation.regular_file import open_regular

MAGIC, VERSION, PRIORITIES = b"HEDDLECP", 2, 8
PORT_FIELDS = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets", "drops")
QUEUE_FIELDS = (
    "packets", "bytes", "ecn_marked_packets", "dropped_packets", "pfc_rx_frames", "pfc_tx_frames", "paused_ns",
    "depth_bytes", "max_depth_bytes", "watchdog_trips", "watchdog_restores", "watchdog_dropped_packets",
)  # fmt: skip
GAUGE_FIELDS = ("depth_bytes", "max_depth_bytes")
MAX_PAGE_PORTS = 8192
MAX_NAME_BYTES = 255
READ_TRIES, RETRY_S = 1_000, 0.0001
"""A reader tries so often, with this pause: a writer that was preempted in the middle of a write needs milliseconds."""
_HEADER = struct.Struct("<8sIIQIIQQI")
_SEQUENCE_WORD, _TIMESTAMP_WORD = 4, 5
_ALIGNMENT = 64

Counters = npt.NDArray[np.uint64]


class CounterPageError(ValueError):
    """The file is not a counter page, is damaged, or has another version."""


class TornReadError(CounterPageError):
    """The page was being written at every attempt, or its writer died in the middle of a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSnapshot:
    """All counters at one time. `ports[i, field]` and `queues[i, priority, field]` belong to `names[i]`."""

    names: tuple[str, ...]
    boot_id: int
    sequence: int
    timestamp_unix_ns: int
    ports: Counters
    queues: Counters

    def port(self, name: str) -> dict[str, int]:
        """Return a port's own counters by field; raises KeyError for an unknown port."""
        return dict(zip(PORT_FIELDS, map(int, self.ports[self._row(name)]), strict=True))

    def queue(self, name: str, priority: int) -> dict[str, int]:
        """Return the counters of one priority of a port by field; raises KeyError for an unknown port."""
        return dict(zip(QUEUE_FIELDS, map(int, self.queues[self._row(name), priority]), strict=True))

    def since(self, earlier: "CounterSnapshot") -> "CounterSnapshot":
        """Return the growth since an earlier snapshot of the same page; gauges (depths) keep their current values.

        Raises CounterPageError if the counters restarted in between.
        """
        if (self.boot_id, self.names) != (earlier.boot_id, earlier.names):
            raise CounterPageError("the counters restarted between two snapshots")
        queues = self.queues - earlier.queues
        for field in GAUGE_FIELDS:
            queues[:, :, QUEUE_FIELDS.index(field)] = self.queues[:, :, QUEUE_FIELDS.index(field)]
        return replace(self, ports=self.ports - earlier.ports, queues=queues)

    def _row(self, name: str) -> int:
        try:
            return self.names.index(name)
        except ValueError:
            raise KeyError(name) from None


def page_bytes(names: Sequence[str]) -> int:
    """Return the size in bytes of a page with these ports."""
    ports = len(names)
    return _arrays_at(_name_blob(names)) + 8 * ports * (len(PORT_FIELDS) + PRIORITIES * len(QUEUE_FIELDS))


class CounterPageWriter:
    """Create a page and write it; the file appears atomically."""

    def __init__(self, path: Path, names: Sequence[str], boot_id: int) -> None:
        """Create the file with all counters zero; raises CounterPageError for names that it cannot hold."""
        _check_names(names)
        blob = _name_blob(names)
        self._names = tuple(names)
        draft = path.with_name(f"{path.name}.new")
        with draft.open("w+b") as file:
            file.truncate(page_bytes(names))
            self._memory = mmap.mmap(file.fileno(), page_bytes(names))
        start = _arrays_at(blob)
        header = _HEADER.pack(MAGIC, VERSION, start, boot_id, len(names), PRIORITIES, 0, 0, len(blob))
        self._memory[: len(header) + len(blob)] = header + blob
        self._words, self._ports, self._queues = _views(self._memory, start, len(names))
        draft.replace(path)

    def write(self, ports: Counters, queues: Counters, timestamp_unix_ns: int) -> None:
        """Write all counters, in the shapes of `CounterSnapshot`."""
        words = self._words
        words[_SEQUENCE_WORD] += np.uint64(1)
        self._ports[:] = ports
        self._queues[:] = queues
        words[_TIMESTAMP_WORD] = timestamp_unix_ns
        words[_SEQUENCE_WORD] += np.uint64(1)

    def close(self) -> None:
        """Unmap the page; the file remains."""
        del self._words, self._ports, self._queues
        self._memory.close()


class CounterPageReader:
    """Read a page that another process writes."""

    def __init__(self, path: Path) -> None:
        """Map the file; raises FileNotFoundError, or CounterPageError if it is not a valid page."""
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < _HEADER.size:
                raise CounterPageError(f"{path}: too short for a counter page")
            self._memory = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        try:
            self.boot_id, self.names, start = _read_header(self._memory, size)
        except CounterPageError as fault:
            self._memory.close()
            raise CounterPageError(f"{path}: {fault}") from None
        self._words, self._ports, self._queues = _views(self._memory, start, len(self.names))

    def read(self, tries: int = READ_TRIES) -> CounterSnapshot:
        """Return a consistent copy of all counters; raises TornReadError after `tries` attempts."""
        words = self._words
        for _ in range(tries):
            sequence = int(words[_SEQUENCE_WORD])
            if sequence % 2 == 0:
                ports, queues, stamp = self._ports.copy(), self._queues.copy(), int(words[_TIMESTAMP_WORD])
                if int(words[_SEQUENCE_WORD]) == sequence:
                    return CounterSnapshot(
                        names=self.names, boot_id=self.boot_id, sequence=sequence // 2, timestamp_unix_ns=stamp,
                        ports=ports, queues=queues,
                    )  # fmt: skip
            time.sleep(RETRY_S)
        raise TornReadError(f"the counter page was being written at each of {tries} attempts")

    def close(self) -> None:
        """Unmap the page."""
        del self._words, self._ports, self._queues
        self._memory.close()


def _check_names(names: Sequence[str]) -> None:
    if not 0 < len(names) <= MAX_PAGE_PORTS:
        raise CounterPageError(f"a counter page holds 1 to {MAX_PAGE_PORTS} ports, not {len(names)}")
    if len(set(names)) < len(names):
        raise CounterPageError("two ports of a counter page have the same name")
    for name in names:
        if not name or "\0" in name or len(name.encode()) > MAX_NAME_BYTES:
            raise CounterPageError(f"{name[:40]!r} is not a port name: 1 to {MAX_NAME_BYTES} bytes without a zero")


def _name_blob(names: Sequence[str]) -> bytes:
    return b"".join(name.encode() + b"\0" for name in names)


def _arrays_at(blob: bytes) -> int:
    return -(-(_HEADER.size + len(blob)) // _ALIGNMENT) * _ALIGNMENT


def _views(memory: mmap.mmap, start: int, ports: int) -> tuple[Any, Counters, Counters]:
    """Return views of the mapped page: the header as words, and both arrays."""
    words = np.frombuffer(memory, "<u8", count=_TIMESTAMP_WORD + 1)
    port_counters = np.frombuffer(memory, "<u8", count=ports * len(PORT_FIELDS), offset=start)
    rest = start + port_counters.nbytes
    queues = np.frombuffer(memory, "<u8", count=ports * PRIORITIES * len(QUEUE_FIELDS), offset=rest)
    return words, port_counters.reshape(ports, -1), queues.reshape(ports, PRIORITIES, -1)


def _read_header(memory: mmap.mmap, size: int) -> tuple[int, tuple[str, ...], int]:
    magic, version, start, boot_id, ports, priorities, _, _, blob_bytes = _HEADER.unpack_from(memory)
    if magic != MAGIC:
        raise CounterPageError("not a counter page")
    if version != VERSION or priorities != PRIORITIES:
        raise CounterPageError(f"counter page version {version} is not supported, only {VERSION}")
    if not 0 < ports <= MAX_PAGE_PORTS or blob_bytes > size - _HEADER.size:
        raise CounterPageError("a damaged counter page: its sizes do not fit the file")
    blob = memory[_HEADER.size : _HEADER.size + blob_bytes]
    try:
        names = tuple(blob.decode().split("\0")[:-1])
    except UnicodeDecodeError:
        raise CounterPageError("a damaged counter page: a name is not UTF-8") from None
    if len(names) != ports or start != _arrays_at(blob) or page_bytes(names) != size:
        raise CounterPageError("a damaged counter page: its sizes do not fit the file")
    return boot_id, names, start
