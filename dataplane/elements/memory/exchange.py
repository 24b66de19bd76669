"""Connection records between the data process and the control process, which sends them to the partner.

Two rings of RECORD rows in shared memory, and words beside them: each position has one writer, which publishes it by
`release`; the reader uses `acquire`. The data process's end is a kernel of each program (`memory.exchange` of gateway
and balancer), called between two bursts: it does nothing while no partner is attached, never waits, and moves a bounded
number of records a call. Only the data process changes connections.
"""

from typing import Any, NamedTuple

import numpy as np

from heddle.dataplane.elements.memory.state import (
    FIRST_RECORD_BYTES,
    JOURNAL_HEAD,
    JOURNAL_LOST,
    JOURNAL_TAIL,
    RECORD,
    RESEND_LEFT,
)
from heddle.dataplane.engine.rings import LINE
from heddle.dataplane.jit import Bytes, Ints, Row, Rows, inline, kernel
from heddle.dataplane.packet.memory import acquire64, native64, release64

ROWS = 1 << 12
"""Records in each ring, a power of two."""
MAX_PER_CALL = 512

WANTED, OUT_READ, IN_WRITTEN = 0, LINE, 2 * LINE
"""Words of the control process: the number of the last request for all connections, negative to stop; records read;
records written."""
BEGUN, OUT_WRITTEN, LEFT, LOST, IN_READ, REFUSED = (3 * LINE + 8 * word for word in range(6))
"""Words of the data process: the request that it serves; records written; records left to write; records lost for lack
of room in its journal; records read; records refused."""
WORDS_BYTES = 4 * LINE


class Exchange(NamedTuple):
    """The words and rings; all zeros initially."""

    words: Bytes
    out: Rows
    """RECORD rows, to the partner."""
    into: Rows
    """RECORD rows, from the partner."""


def layout() -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each array, by name, in the order of `Exchange`."""
    return {"words": ((WORDS_BYTES,), np.dtype(np.uint8)), "out": ((ROWS,), RECORD), "into": ((ROWS,), RECORD)}


def empty_exchange() -> Exchange:
    """Return an exchange in the process's own memory."""
    return Exchange(**{name: np.zeros(shape, dtype=dtype) for name, (shape, dtype) in layout().items()})


def forget_requests(between: Exchange) -> None:
    """Let the next data process serve the current request from its start; no data process may be running."""
    between.words[BEGUN : BEGUN + 8] = 0


@inline
def describe(record: Row, what: int, forward: Row, mapped: Any, idle_ns: int) -> None:
    """Write the state of a connection, given by its opener's row or another record, into a record."""
    record.what = what
    record.source_hi = forward.source_hi
    record.source_lo = forward.source_lo
    record.target_hi = forward.target_hi
    record.target_lo = forward.target_lo
    record.key = forward.key
    record.new_source_hi = forward.new_source_hi
    record.new_source_lo = forward.new_source_lo
    record.new_target_hi = forward.new_target_hi
    record.new_target_lo = forward.new_target_lo
    record.new_ports = forward.new_ports
    record.out_vni = forward.out_vni
    record.flags = forward.flags
    record.mapped = mapped
    record.idle_ns = idle_ns


@inline
def belong(record: Row, source: int, target: int, decided_at: int) -> None:
    """Write what the sides of a connection belong to into its record."""
    record.source_incarnation = source
    record.target_incarnation = target
    record.decided_at = decided_at


@inline
def free_rows(between: Exchange) -> tuple[int, int]:
    """Return the first row of `out` that the data process can write, and the row behind the last one."""
    size, written = between.out.shape[0], native64(between.words, OUT_WRITTEN)
    at = written & (size - 1)
    room = min(size - (written - acquire64(between.words, OUT_READ)), size - at, MAX_PER_CALL)
    return at, at + max(room, 0)


@inline
def publish(between: Exchange, count: int, counts: Ints) -> None:
    """Hand over `count` records, written to `free_rows`, and what `counts` of the state says of the rest."""
    words = between.words
    release64(words, OUT_WRITTEN, native64(words, OUT_WRITTEN) + count)
    release64(words, LOST, counts[JOURNAL_LOST])
    # Last, so that a reader that finds 0 here also finds all records before OUT_WRITTEN.
    release64(words, LEFT, counts[RESEND_LEFT] + counts[JOURNAL_HEAD] - counts[JOURNAL_TAIL])


@inline
def unread_rows(between: Exchange) -> tuple[int, int]:
    """Return the first row of `into` that the data process has not read, and the row behind the last one."""
    size, read = between.into.shape[0], native64(between.words, IN_READ)
    at = read & (size - 1)
    return at, at + min(acquire64(between.words, IN_WRITTEN) - read, size - at, MAX_PER_CALL)


@inline
def mark_read(between: Exchange, count: int, refused: int) -> None:
    """Give back the first `count` of `unread_rows`, of which `refused` were refused."""
    words = between.words
    release64(words, REFUSED, native64(words, REFUSED) + refused)
    release64(words, IN_READ, native64(words, IN_READ) + count)


@kernel
def _word(words: Bytes, at: int) -> int:
    return acquire64(words, at)


@kernel
def _set_word(words: Bytes, at: int, value: int) -> None:
    release64(words, at, value)


class ControlEnd:
    """The control process's end; records are whole RECORD rows, as bytes."""

    record_bytes = RECORD.itemsize
    first_record_bytes = FIRST_RECORD_BYTES

    def __init__(self, between: Exchange) -> None:
        self._between = between
        self._words = between.words
        self._requests = 0

    def request_all(self) -> None:
        """Request records of all connections, including those received from the partner, and of all later changes."""
        self._requests += 1
        _set_word(self._words, WANTED, self._requests)

    def stop_journal(self) -> None:
        """Stop the records to the partner."""
        _set_word(self._words, WANTED, -self._requests)

    def collect(self, max_bytes: int) -> tuple[bytes, bool]:
        """Return records, and whether no more are left for now."""
        begun = _word(self._words, BEGUN) == _word(self._words, WANTED)
        nothing_left = _word(self._words, LEFT) == 0
        read, written = _word(self._words, OUT_READ), _word(self._words, OUT_WRITTEN)
        at = read & (ROWS - 1)
        count = min(written - read, ROWS - at, max_bytes // self.record_bytes)
        records = self._between.out[at : at + count].tobytes()
        _set_word(self._words, OUT_READ, read + count)
        return records, begun and nothing_left and read + count == written

    def overflows(self) -> int:
        """Return how many records the data process lost; after each loss it sends all connections again."""
        return int(_word(self._words, LOST))

    def refused(self) -> int:
        """Return how many of the partner's records the data process refused for lack of room or for a conflict."""
        return int(_word(self._words, REFUSED))

    def keep(self, records: bytes) -> int:
        """Write whole records as far as there is room; return how many bytes were written."""
        read, written = _word(self._words, IN_READ), _word(self._words, IN_WRITTEN)
        at = written & (ROWS - 1)
        count = min(len(records) // self.record_bytes, ROWS - (written - read), ROWS - at)
        self._between.into[at : at + count] = np.frombuffer(records, RECORD, count)
        _set_word(self._words, IN_WRITTEN, written + count)
        return count * self.record_bytes

    def kept(self) -> bool:
        """Return whether the data process has read all records."""
        return bool(_word(self._words, IN_READ) == _word(self._words, IN_WRITTEN))
