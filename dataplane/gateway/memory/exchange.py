"""Records between the data process, which alone touches connections, and the control process, which has the partner.

Two rings of RECORD rows in memory that both have mapped, and words beside them: each position has one writer, is
published by `release` and read by `acquire`. `exchange` is the data process's end, called between two bursts: it does
nothing where nobody listens, never waits, and takes and gives a bounded number of records a call.
"""

from typing import Any, NamedTuple

import numpy as np

from dataplane.engine.rings import LINE
from dataplane.gateway.memory.partner import apply_records, collect, start_journal, stop_journal
from dataplane.gateway.memory.state import (
    JOURNAL_HEAD,
    JOURNAL_LOST,
    JOURNAL_ON,
    JOURNAL_TAIL,
    RECORD,
    RESEND_LEFT,
    State,
)
from dataplane.gateway.tables.schema import Tables
from dataplane.jit import Bytes, Rows, kernel
from dataplane.packet.memory import acquire64, native64, release64

ROWS = 1 << 12
"""Of each ring, a power of two."""
MAX_PER_CALL = 512

WANTED, OUT_READ, IN_WRITTEN = 0, LINE, 2 * LINE
"""Of the control process: how often it has asked to be told all, below 0 where it wants no more; records read; records
handed over."""
BEGUN, OUT_WRITTEN, LEFT, LOST, IN_READ, REFUSED = (3 * LINE + 8 * word for word in range(6))
"""Of the data process: the request that it follows; records written; whether there is more to tell; records lost for
want of room in its journal; records taken in; of those, refused."""
WORDS_BYTES = 4 * LINE


class Exchange(NamedTuple):
    """All zeros at first."""

    words: Bytes
    out: Rows
    """RECORD rows, to the partner."""
    into: Rows
    """RECORD rows, from it."""


def layout() -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each of the arrays, by name in the order of `Exchange`."""
    return {"words": ((WORDS_BYTES,), np.dtype(np.uint8)), "out": ((ROWS,), RECORD), "into": ((ROWS,), RECORD)}


def empty_exchange() -> Exchange:
    """Return an exchange in the process's own memory."""
    return Exchange(**{name: np.zeros(shape, dtype=dtype) for name, (shape, dtype) in layout().items()})


def forget_requests(between: Exchange) -> None:
    """Have the next data process follow a request to tell all as if it were new; none may be running."""
    between.words[BEGUN : BEGUN + 8] = 0


@kernel
def exchange(tables: Tables, state: State, between: Exchange, now_ns: int) -> None:
    """Tell the partner what is new, and take in what it told."""
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
    # Last, so that whoever reads 0 here finds all that was to be told behind OUT_WRITTEN.
    release64(words, LEFT, counts[RESEND_LEFT] + counts[JOURNAL_HEAD] - counts[JOURNAL_TAIL])


@kernel
def _word(words: Bytes, at: int) -> int:
    return acquire64(words, at)


@kernel
def _set_word(words: Bytes, at: int, value: int) -> None:
    release64(words, at, value)


class ControlEnd:
    """The control process's end, in whole records as bytes."""

    record_bytes = RECORD.itemsize

    def __init__(self, between: Exchange) -> None:
        self._between = between
        self._words = between.words
        self._asked = 0

    def request_all(self) -> None:
        """Have all connections told from now on, those as well that only the partner's word is there for."""
        self._asked += 1
        _set_word(self._words, WANTED, self._asked)

    def stop_journal(self) -> None:
        """Have no connections told."""
        _set_word(self._words, WANTED, -self._asked)

    def collect(self, at_most_bytes: int) -> tuple[bytes, bool]:
        """Return records, and whether that was all that there was to be told."""
        begun = _word(self._words, BEGUN) == _word(self._words, WANTED)
        nothing_left = _word(self._words, LEFT) == 0
        read, written = _word(self._words, OUT_READ), _word(self._words, OUT_WRITTEN)
        at = read & (ROWS - 1)
        count = min(written - read, ROWS - at, at_most_bytes // self.record_bytes)
        records = self._between.out[at : at + count].tobytes()
        _set_word(self._words, OUT_READ, read + count)
        return records, begun and nothing_left and read + count == written

    def overflows(self) -> int:
        """Return how many records the data process lost; it begins to tell all again at each."""
        return int(_word(self._words, LOST))

    def refused(self) -> int:
        """Return how many of the partner's records the data process had no room or no use for."""
        return int(_word(self._words, REFUSED))

    def keep(self, records: bytes) -> int:
        """Hand whole records over as far as there is room; return how many bytes that was."""
        read, written = _word(self._words, IN_READ), _word(self._words, IN_WRITTEN)
        at = written & (ROWS - 1)
        count = min(len(records) // self.record_bytes, ROWS - (written - read), ROWS - at)
        self._between.into[at : at + count] = np.frombuffer(records, RECORD, count)
        _set_word(self._words, IN_WRITTEN, written + count)
        return count * self.record_bytes

    def kept(self) -> bool:
        """Whether the data process has taken in all that was handed over."""
        return bool(_word(self._words, IN_READ) == _word(self._words, IN_WRITTEN))
