"""The connection table: which back end a connection has, in a bounded table that a flood cannot fill.

A row has a word in `words` and its key in `flows`. The word has 31 bits of the hash, the state and the time of the last
packet, so a search reads one cache line of words, and one of `flows` for the row that matches. A key has two buckets of
eight rows: a new row goes to the first while that has fewer than SPILL rows, else to the emptier one.

States and their ends, each by a timeout of its own (`Tables.timeouts`), checked when the row is met and by `sweep`:

    HALF_OPEN    TCP without an acknowledged handshake, also a first packet without SYN
    ESTABLISHED  the client has sent a second packet without SYN (full NAT: and the back end has replied)
    CLOSING      FIN or RST was seen; a SYN opens a new connection (full NAT: both sides' FIN, or RST; `segments`)
    FIRST        one datagram so far
    STREAM       datagrams went on (full NAT: the back end has replied)

Of the eight rows of a bucket MAX_UNPROVEN may be HALF_OPEN or FIRST. A further one takes the place of the oldest of
them, and if a bucket is full, of a CLOSING one. So a flood displaces its own kind only, least recently used first:
established connections are never displaced. If all 16 rows are established, a direct connection is not kept: its
packets follow their hash.

Rows do not move. A connection of full NAT has two rows that name each other, and both are freed together.
"""

from heddle.dataplane.balancer.memory.state import FLOW, Count, State
from heddle.dataplane.elements.memory.buckets import SLOTS, first_slot
from heddle.dataplane.jit import CHECKED, Ints, Row, element, inline, kernel
from heddle.dataplane.packet.intrinsics import first_of_eight, prefetch_to_write
from heddle.dataplane.tables.lookup import place

HALF_OPEN, ESTABLISHED, CLOSING, FIRST, STREAM = range(1, 6)
STATES = 6
SPILL, MAX_UNPROVEN = 6, 4
TICK_SHIFT = 28
"""A tick is 2^28 ns, 0.27 s."""
STATE_SHIFT = 29
TICKS = (1 << STATE_SHIFT) - 1
LOW = 0xFFFF_FFFF
NO_ROW = -1
STATE_COUNTS, EXPIRED, DISPLACED = int(Count.STATES), int(Count.EXPIRED), int(Count.DISPLACED)
SWEPT, SWEPT_NS = int(Count.SWEPT), int(Count.SWEPT_NS)
ROUND_NS, MAX_SWEPT = 4_000_000_000, 4096
assert FLOW.itemsize == 64


@inline
def tick_of(now_ns: int) -> int:
    """Return the time of a word."""
    return now_ns >> TICK_SHIFT & TICKS


@inline
def state_of_word(word: int) -> int:
    """Return the connection state in a word, 0 for a free row."""
    return word >> STATE_SHIFT & 7


@inline
def is_expired(word: int, timeouts: Ints, tick: int) -> bool:
    """Whether a row in use had its last packet too long ago; times wrap round."""
    return (tick - word & TICKS) > timeouts[state_of_word(word)]


@inline
def is_unproven(word: int) -> bool:
    """Whether a flood of packets with invented sources could have made a row."""
    return state_of_word(word) in (HALF_OPEN, FIRST)


@inline
def prefetch_words(state: State, hashed: int) -> None:
    """Prefetch the first bucket of a hash."""
    prefetch_to_write(state.words, first_slot(state.words, hashed, 0), 0)


@inline
def prefetch_flow(state: State, hashed: int) -> int:
    """Prefetch the row that a search for a hash most likely finds; return it, or NO_ROW."""
    row = _likely(state.words, hashed, 0)
    if row != NO_ROW:
        prefetch_to_write(state.flows, row, 0)
    return row


@inline
def prefetch_pair(state: State, row: int, is_tcp: bool) -> None:
    """Prefetch what a row of full NAT has besides: the other direction's word and key, its own TCP numbers."""
    pair = state.flows[place(row)].pair - 1
    if 0 <= pair < state.words.shape[0]:
        if is_tcp:
            prefetch_to_write(state.sides, row, 0)
        prefetch_to_write(state.words, pair, 0)
        prefetch_to_write(state.flows, pair, 0)


@inline
def _likely(words: Ints, hashed: int, bucket: int) -> int:
    """Return the first row of a bucket with the same tag whose state does not matter, or NO_ROW."""
    at = first_slot(words, hashed, bucket)
    if CHECKED and not 0 <= at <= words.shape[0] - SLOTS:
        raise IndexError("a bucket beyond its table")
    place = first_of_eight(words, at, hashed)
    if place == SLOTS or words[at + place] & LOW == 0:
        return NO_ROW
    return at + place


@inline
def is_of(flow: Row, source_hi: int, source_lo: int, target_hi: int, target_lo: int, key: int) -> bool:
    """Whether a row has this key."""
    return (
        flow.key == key
        and flow.source_lo == source_lo
        and flow.target_lo == target_lo
        and flow.source_hi == source_hi
        and flow.target_hi == target_hi
    )


@element
def find(
    state: State, hashed: int, source_hi: int, source_lo: int, target_hi: int, target_lo: int, key: int, timeouts: Ints,
    tick: int,
) -> int:  # fmt: skip
    """Return the row of a key, or NO_ROW; an expired row that is met is freed."""
    for bucket in range(2):
        at = first_slot(state.words, hashed, bucket)
        for row in range(at, at + SLOTS):
            word = state.words[row]
            if word >> 32 == hashed >> 32 and word & LOW != 0:
                if not is_of(state.flows[row], source_hi, source_lo, target_hi, target_lo, key):
                    continue
                if not is_expired(word, timeouts, tick):
                    return row
                state.counters[EXPIRED] += 1
                free(state, row)
                return NO_ROW
    return NO_ROW


@element
def free(state: State, row: int) -> None:
    """Free a row, and with it the row of the other direction."""
    pair = state.flows[row].pair - 1
    _clear(state, row)
    if 0 <= pair < state.words.shape[0] and state.flows[pair].pair == row + 1:
        _clear(state, pair)


@inline
def _clear(state: State, row: int) -> None:
    state.counters[STATE_COUNTS + state_of_word(state.words[row])] -= 1
    state.words[row] = 0
    state.flows[row].pair = 0


@inline
def touch(state: State, row: int, state_after: int, tick: int) -> None:
    """Record a packet of a row, which has `state_after` from now on."""
    word = state.words[row]
    before = state_of_word(word)
    if before != state_after:
        state.counters[STATE_COUNTS + before] -= 1
        state.counters[STATE_COUNTS + state_after] += 1
    state.words[row] = word >> 32 << 32 | state_after << STATE_SHIFT | tick


@element
def _room(state: State, hashed: int, timeouts: Ints, tick: int, kept: int) -> int:
    """Return a row for a new connection, free or taken from another one; NO_ROW if none may be. Not the row `kept`."""
    best, least = 0, SLOTS + 1
    for bucket in range(2):
        at, used = first_slot(state.words, hashed, bucket), 0
        for row in range(at, at + SLOTS):
            word = state.words[row]
            if word != 0 and is_expired(word, timeouts, tick):
                state.counters[EXPIRED] += 1
                free(state, row)
                word = 0
            used += word != 0
        if used < least:
            best, least = bucket, used
        if used < SPILL:
            break
    row = _victim(state, first_slot(state.words, hashed, best), tick, kept)
    if row == NO_ROW:
        row = _victim(state, first_slot(state.words, hashed, 1 - best), tick, kept)
    return row


@inline
def _victim(state: State, at: int, tick: int, kept: int) -> int:
    """Return a free row of a bucket, or one that gives way: the oldest unproven one, else the oldest that closes."""
    open_row, unproven, closing = NO_ROW, NO_ROW, NO_ROW
    count, oldest, oldest_closing = 0, -1, -1
    for row in range(at, at + SLOTS):
        word = state.words[row]
        age = tick - word & TICKS
        if word == 0:
            open_row = row
        elif is_unproven(word):
            count += 1
            if age > oldest and row != kept:
                oldest, unproven = age, row
        elif state_of_word(word) == CLOSING and age > oldest_closing and row != kept:
            oldest_closing, closing = age, row
    if open_row != NO_ROW and count < MAX_UNPROVEN:
        return open_row
    return unproven if unproven != NO_ROW else closing


@element
def create(
    state: State, hashed: int, source_hi: int, source_lo: int, target_hi: int, target_lo: int, key: int, timeouts: Ints,
    tick: int, first_state: int, kept: int,
) -> int:  # fmt: skip
    """Make a row for a key that has none; return it, or NO_ROW without room. The row `kept` is not displaced."""
    row = _room(state, hashed, timeouts, tick, kept)
    if row == NO_ROW:
        return NO_ROW
    if state.words[row] != 0:
        state.counters[DISPLACED] += 1
        free(state, row)
    flow = state.flows[row]
    flow.source_hi = source_hi
    flow.source_lo = source_lo
    flow.target_hi = target_hi
    flow.target_lo = target_lo
    flow.key = key
    flow.back_end = 0
    flow.pair = 0
    flow.flags = 0
    state.words[row] = hashed >> 32 << 32 | first_state << STATE_SHIFT | tick
    state.counters[STATE_COUNTS + first_state] += 1
    return row


@kernel
def sweep(state: State, timeouts: Ints, now_ns: int) -> None:
    """Free expired rows, a few with each call; a round over all rows takes ROUND_NS."""
    counters, rows = state.counters, state.words.shape[0]
    elapsed_ns = min(now_ns - counters[SWEPT_NS], ROUND_NS)
    due = elapsed_ns * rows // ROUND_NS if elapsed_ns > 0 else 0
    if due == 0 and elapsed_ns >= 0:
        return
    counters[SWEPT_NS] = now_ns
    tick = tick_of(now_ns)
    for _ in range(min(due, MAX_SWEPT)):
        row = counters[SWEPT]
        counters[SWEPT] = row + 1 if row + 1 < rows else 0
        word = state.words[row]
        if word != 0 and is_expired(word, timeouts, tick):
            counters[EXPIRED] += 1
            free(state, row)
