"""Connection records between the data process and the control process, which sends them to the partner.

Two rings of RECORD rows in shared memory, and words beside them: each position has one writer, which publishes it by
`release`; the reader uses `acquire`. `exchange` is the data process's end, called between two bursts: it does nothing
while no partner is attached, never waits, and moves a bounded number of records a call. Only the data process changes
connections.
"""

from typing import Any, NamedTuple

import numpy as np

from heddle.dataplane.engine.rings import LINE
from heddle.dataplane.gateway.memory.partner import apply_records, collect, start_journal, stop_journal
from heddle.dataplane.gateway.memory.state import (
    JOURNAL_HEAD,
    JOURNAL_LOST,
    JOURNAL_ON,
    JOURNAL_TAIL,
    RECORD,
    RESEND_LEFT,
    State,
)
from heddle.dataplane.jit import Bytes, Rows, kernel
from heddle.dataplane.packet.memory import acquire64, native64, release64
from heddle.dataplane.tables.schema import Tables

ROWS = 1 << 12
"""Records in each ring, a power of two."""
MAX_PER_CALL = 512

WANTED, OUT_READ, IN_WRITTEN = 0, LINE, 2 * LINE
"""Words of the control process: the number of the last request for all connections, negative to stop; records read;
records written."""
BEGUN, OUT_WRITTEN, LEFT, LOST, IN_READ, REFUSED = (3 * LINE + 8 * word for word in range(6))
"""Words of the data process: the request that it serves; records written; records left to write; records lost for lack
of
room in its journal; records read; records refused."""
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


@kernel
def exchange(tables: Tables, state: State, between: Exchange, now_ns: int) -> None:
    """Write new records for the partner, and apply the partner's records."""
    words = between.words
    wanted = acquire64(words, WANTED)
    if wanted != native64(words, BEGUN):
        if wanted > 0:
            start_journal(state)
        else:
            stop_journal(state)
        release64(words, BEGUN, wanted)
    if state.counts[JOURNAL_ON] != 0:
        _publish(state, between, now_ns)
    written, read = acquire64(words, IN_WRITTEN), native64(words, IN_READ)
    if written != read:
        size = between.into.shape[0]
        at = read & (size - 1)
        count = min(written - read, size - at, MAX_PER_CALL)
        refused = apply_records(tables, state, between.into[at : at + count], count, now_ns)
        release64(words, REFUSED, native64(words, REFUSED) + refused)
        release64(words, IN_READ, read + count)


@kernel
def _publish(state: State, between: Exchange, now_ns: int) -> None:
    words, size = between.words, between.out.shape[0]
    written = native64(words, OUT_WRITTEN)
    at = written & (size - 1)
    room = min(size - (written - acquire64(words, OUT_READ)), size - at, MAX_PER_CALL)
    if room > 0:
        written += collect(state, between.out[at : at + room], now_ns)
        release64(words, OUT_WRITTEN, written)
    counts = state.counts
    release64(words, LOST, counts[JOURNAL_LOST])
    # Last, so that a reader that finds 0 here also finds all records before OUT_WRITTEN.
    release64(words, LEFT, counts[RESEND_LEFT] + counts[JOURNAL_HEAD] - counts[JOURNAL_TAIL])


@kernel
def _word(words: Bytes, at: int) -> int:
    return acquire64(words, at)


@kernel
def _set_word(words: Bytes, at: int, value: int) -> None:
    release64(words, at, value)


class ControlEnd:
    """The control process's end; records are whole RECORD rows, as bytes."""

    record_bytes = RECORD.itemsize

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
