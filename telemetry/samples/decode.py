"""Decode a PortSampleBatch into arrays; an invalid message gives a value that says why, never an exception.

protobuf's own parser, with an object per queue and an attribute per counter, takes ten times as long as these loops and
holds the GIL meanwhile. The wire format is protobuf's (https://protobuf.dev/programming-guides/encoding):

    message  = field*            field = tag value, tag = varint of (number << 3 | kind)
    kind 0   varint              kind 2   length, then that many bytes
    kind 1   eight bytes         kind 5   four bytes; 3, 4 (groups) and 6, 7 are refused

Stricter than protobuf where that is safe: a known field of another kind, a varint past 64 bits, a name outside the
contract's pattern, a priority past 7 or given twice, a port or what it hears given twice are refused. Unknown fields
are skipped, for later versions of the contract. Time is linear in the number of bytes, which is checked first. Tests
compare the results with protobuf's own parser.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.telemetry.samples.counters import (
    COLUMNS,
    LINK_AT,
    LINK_COUNTERS,
    LINK_GAUGES,
    NIC_AT,
    NIC_COUNTERS,
    PORT_COUNTERS,
    PRIORITIES,
    QUEUE_COUNTERS,
    QUEUE_GAUGES,
    QUEUES_AT,
)
from heddle.telemetry.samples.jit import kernel
from heddle.telemetry.samples.sample import (
    MAX_COUNTER_NAME_BYTES,
    MAX_NIC_COUNTERS,
    MAX_PAYLOAD_BYTES,
    MAX_PORTS,
    Refusal,
    Rejected,
)

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

TIMESTAMP, SEQUENCE, BOOT_ID, CARRIER, SPEED_BPS, LANES = range(6)
_LINK_FIELD = 50
"""The field number of the first of LINK_COUNTERS, which LINK_GAUGES follow."""
_QUEUE_FIELDS = 13
_QUEUE_PRIORITY, _WATCHDOG_DROPPED, _WATCHDOG_ACTIVE = 1, 11, 12
"""Field numbers of a QueueSample."""

_TEXTS = (
    "",
    "ends inside a field",
    "a varint is longer than 64 bits",
    "a field has another type than the contract gives it",
    "a field has a number or a kind that protobuf does not know",
    f"more than {MAX_PORTS} ports",
    "a port has no name of the form ID or SWITCH:NUMBER",
    "a queue has a priority past 7",
    "a priority is given twice",
    "a sample has no timestamp",
    "a NIC counter has no name of 1 to 64 letters, digits, '_', '.' or '-'",
    f"more than {MAX_NIC_COUNTERS} NIC counters in one sample",
    "a port, or what it hears, is given twice",
)
_OK, _TORN, _LONG, _KIND, _TAG, _PORTS, _NAME, _PRIORITY, _TWICE, _TIME, _COUNTER, _COUNTERS, _PORT_TWICE = range(13)


class Rows(NamedTuple):
    """Decoded samples, one row per port. A `BatchDecoder` reuses one instance for each message.

    names, heard (ports, 2): begin and end of a name, and of what the port hears (0: none); heads (ports, 6): timestamp,
    sequence, boot id, carrier (0 unknown, 1 none, 2 up), rate of the link in bit/s, its lanes (0 unknown); values,
    present (ports, COLUMNS): cumulative counters, and whether the sample contains them; gauges (ports, 8, 4).
    """

    names: Ints
    heads: Words
    values: Words
    present: Flags
    gauges: Words
    heard: Ints


class Tables(NamedTuple):
    """The layout of the columns, as an argument: kernels cached on disk would keep old values of constants."""

    nic_names: Bytes
    nic_lengths: Ints
    queues_at: int
    queue_counters: int
    nic_at: int
    port_counters: int
    link_at: int
    link_counters: int
    link_gauges: int
    max_nic_counters: int


class Batch(NamedTuple):
    """A decoded message: port names in order, the first `len(names)` rows, the number of unknown NIC counters.

    The arrays belong to the reader and are valid until its next message. `heard`: what ports hear, as bytes, by row.
    """

    names: tuple[str, ...]
    rows: Rows
    unknown_counters: int
    heard: dict[int, bytes]


@kernel
def _varint(data: Bytes, at: int, end: int) -> tuple[np.uint64, int]:
    """Return a value and the position behind it; position -1 if the bytes end first, -2 for more than 64 bits."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for step in range(10):
        if at >= end:
            return value, -1
        byte = np.uint64(data[at])
        at += 1
        if step == 9 and byte > np.uint64(1):
            return value, -2
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return value, at
        shift += np.uint64(7)
    return value, -2


@kernel
def _field(data: Bytes, at: int, end: int) -> tuple[int, int, np.uint64, int, int]:
    """Return number, kind, value (varints only), begin and end of a field's content; number -code if it is invalid."""
    zero = np.uint64(0)
    began = at
    tag, at = _varint(data, at, end)
    if at < 0:
        return -(_TORN if at == -1 else _LONG), 0, zero, 0, 0
    if at - began > 5:  # protobuf refuses longer encodings of a 32-bit number as well
        return -_TAG, 0, zero, 0, 0
    kind: Any = np.int64(tag & np.uint64(7))
    if tag > np.uint64(0xFFFFFFFF) or tag < np.uint64(8):
        return -_TAG, 0, zero, 0, 0
    number: Any = np.int64(tag >> np.uint64(3))
    if kind == 0:
        value, after = _varint(data, at, end)
        if after < 0:
            return -(_TORN if after == -1 else _LONG), 0, zero, 0, 0
        return number, kind, value, at, after
    if kind == 2:
        began = at
        length, at = _varint(data, at, end)
        if at < 0:
            return -(_TORN if at == -1 else _LONG), 0, zero, 0, 0
        if at - began > 5:
            return -_TAG, 0, zero, 0, 0
        if length > np.uint64(end - at):
            return -_TORN, 0, zero, 0, 0
        return number, kind, zero, at, at + np.int64(length)  # type: ignore[return-value]
    size = 8 if kind == 1 else 4
    if kind != 1 and kind != 5:
        return -_TAG, 0, zero, 0, 0
    if end - at < size:
        return -_TORN, 0, zero, 0, 0
    return number, kind, zero, at, at + size


@kernel
def _is_alphanumeric(byte: int) -> bool:
    return 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122


@kernel
def _is_name(data: Bytes, begin: int, end: int) -> bool:
    """Return whether bytes are an id, or an id, a colon and a number of one to five digits without a leading zero."""
    at = begin
    while at < end and (_is_alphanumeric(data[at]) or (at > begin and data[at] in (45, 46, 95))):
        at += 1
    if at == begin or at - begin > 63:
        return False
    if at == end:
        return True
    digits = end - at - 1
    if data[at] != 58 or digits < 1 or digits > 5 or data[at + 1] == 48:
        return False
    for digit in range(at + 1, end):  # noqa: SIM110 (numba has no generators inside a call)
        if not 48 <= data[digit] <= 57:
            return False
    return True


@kernel
def _nic_counter(data: Bytes, begin: int, end: int, tables: Tables) -> int:
    """Return the number of a NIC counter by its name, -1 for an unknown counter, -2 for an invalid name."""
    length = end - begin
    if length < 1 or length > tables.nic_names.shape[1]:
        return -2
    for at in range(begin, end):
        if not (_is_alphanumeric(data[at]) or data[at] in (45, 46, 95)):
            return -2
    for counter in range(tables.nic_lengths.size):
        if tables.nic_lengths[counter] != length:
            continue
        same = True
        for at in range(length):
            if tables.nic_names[counter, at] != data[begin + at]:
                same = False
                break
        if same:
            return counter
    return -1


@kernel
def _nic_entry(data: Bytes, at: int, end: int, row: int, rows: Rows, tables: Tables) -> int:
    """Decode one entry of nic_counters; return 0, -1 for an unknown counter, or a code."""
    begin = stop = at
    value = np.uint64(0)
    while at < end:
        number, kind, word, start, at = _field(data, at, end)
        if number < 0:
            return -number
        if number == 1:
            if kind != 2:
                return _KIND
            begin, stop = start, at
        elif number == 2:
            if kind != 0:
                return _KIND
            value = word
        else:
            return _TAG  # map entries have no other fields; protobuf refuses them as well
    counter = _nic_counter(data, begin, stop, tables)
    if counter == -2:
        return _COUNTER
    if counter == -1:
        return -1
    column = tables.nic_at + counter
    rows.values[row, column] = value
    rows.present[row, column] = True
    return 0


@kernel
def _queue(data: Bytes, at: int, end: int, row: int, rows: Rows, tables: Tables, found: Words) -> int:
    """Decode one QueueSample into its columns; return a code."""
    found[:] = np.uint64(0)
    while at < end:
        number, kind, word, _, at = _field(data, at, end)
        if number < 0:
            return -number
        if number < found.size:
            if kind != 0:
                return _KIND
            found[number] = word
    if found[_QUEUE_PRIORITY] > np.uint64(7):
        return _PRIORITY
    priority = np.int64(found[_QUEUE_PRIORITY])
    column = tables.queues_at + priority * tables.queue_counters
    if rows.present[row, column]:
        return _TWICE
    for i in range(4):  # marks, pause frames in and out, time paused: fields 2 to 5
        rows.values[row, column + i] = found[2 + i]
    for i in range(3):  # packets, bytes, dropped: fields 8 to 10
        rows.values[row, column + 4 + i] = found[8 + i]
    rows.present[row, column : column + tables.queue_counters] = True
    rows.gauges[row, priority, :2] = found[6:8]
    rows.gauges[row, priority, 2] = found[_WATCHDOG_DROPPED]
    rows.gauges[row, priority, 3] = np.uint64(found[_WATCHDOG_ACTIVE] > np.uint64(0))
    return _OK


@kernel
def _sample(data: Bytes, at: int, end: int, row: int, rows: Rows, tables: Tables, found: Words) -> tuple[int, int]:
    """Decode one PortSample into a row; return a code and the number of unknown NIC counters."""
    rows.names[row, :] = 0
    rows.heads[row, :] = np.uint64(0)
    rows.values[row, :] = np.uint64(0)
    rows.present[row, :] = False
    rows.present[row, : tables.port_counters] = True
    rows.gauges[row, :, :] = np.uint64(0)
    rows.heard[row, :] = 0
    unknown = entries = 0
    while at < end:
        number, kind, word, start, at = _field(data, at, end)
        if number < 0:
            return -number, unknown
        if number == 90:
            if kind != 2 or rows.heard[row, 1] > 0:
                return _KIND if kind != 2 else _PORT_TWICE, unknown
            rows.heard[row, 0], rows.heard[row, 1] = start, at
            continue
        link = number - _LINK_FIELD
        if (number > 13 and not 0 <= link < tables.link_counters + tables.link_gauges) or number == 12:
            continue
        if (kind != 2) if number in (1, 9, 11) else (kind != 0):
            return _KIND, unknown
        code = _OK
        if number == 1:
            rows.names[row, 0], rows.names[row, 1] = start, at
        elif number == 9:
            code = _queue(data, start, at, row, rows, tables, found)
        elif number == 11:
            entries += 1
            code = _nic_entry(data, start, at, row, rows, tables)
            if code == -1:
                unknown += 1
                code = _OK
            if entries > tables.max_nic_counters:
                return _COUNTERS, unknown
        elif number == 2 or number == 3:
            rows.heads[row, number - 2] = word
        elif number == 10:
            rows.heads[row, 2] = word
        elif number == 13:
            rows.heads[row, 3] = np.uint64(2 if word > np.uint64(0) else 1)
        elif link >= tables.link_counters:
            rows.heads[row, 4 + link - tables.link_counters] = word
        elif link >= 0:
            rows.values[row, tables.link_at + link] = word
            rows.present[row, tables.link_at + link] = True
        else:
            rows.values[row, number - 4] = word
        if code != _OK:
            return code, unknown
    if not _is_name(data, rows.names[row, 0], rows.names[row, 1]):
        return _NAME, unknown
    return (_TIME if rows.heads[row, 0] == np.uint64(0) else _OK), unknown


@kernel
def _batch(data: Bytes, rows: Rows, tables: Tables, found: Words) -> tuple[int, int, int, int]:
    """Decode a message; return a code, the number of rows, the position reached, and the unknown NIC counters."""
    at = count = unknown = 0
    while at < data.size:
        number, kind, _, start, after = _field(data, at, data.size)
        if number < 0:
            return -number, count, at, unknown
        if number == 1:
            if kind != 2:
                return _KIND, count, at, unknown
            if count == rows.names.shape[0]:
                return _PORTS, count, at, unknown
            code, more = _sample(data, start, after, count, rows, tables, found)
            unknown += more
            if code != _OK:
                return code, count, at, unknown
            count += 1
        at = after
    return _OK, count, at, unknown


def _tables() -> Tables:
    names = np.zeros((len(NIC_COUNTERS), MAX_COUNTER_NAME_BYTES), dtype=np.uint8)
    for row, name in enumerate(NIC_COUNTERS):
        names[row, : len(name)] = np.frombuffer(name.encode(), dtype=np.uint8)
    lengths = np.array([len(name) for name in NIC_COUNTERS], dtype=np.int64)
    return Tables(
        nic_names=names, nic_lengths=lengths, queues_at=QUEUES_AT, queue_counters=len(QUEUE_COUNTERS), nic_at=NIC_AT,
        port_counters=len(PORT_COUNTERS), link_at=LINK_AT, link_counters=len(LINK_COUNTERS),
        link_gauges=len(LINK_GAUGES), max_nic_counters=MAX_NIC_COUNTERS,
    )  # fmt: skip


class BatchDecoder:
    """Decode one message after another into the same arrays, so that memory does not depend on traffic."""

    def __init__(self) -> None:
        self._tables = _tables()
        self._found = np.zeros(_QUEUE_FIELDS, dtype=np.uint64)
        self._rows = Rows(
            names=np.zeros((MAX_PORTS, 2), dtype=np.int64),
            heads=np.zeros((MAX_PORTS, LANES + 1), dtype=np.uint64),
            values=np.zeros((MAX_PORTS, COLUMNS), dtype=np.uint64),
            present=np.zeros((MAX_PORTS, COLUMNS), dtype=np.bool_),
            gauges=np.zeros((MAX_PORTS, PRIORITIES, len(QUEUE_GAUGES)), dtype=np.uint64),
            heard=np.zeros((MAX_PORTS, 2), dtype=np.int64),
        )

    def read(self, payload: bytes) -> Batch | Rejected:
        """Decode one message; its arrays are valid until the next call."""
        if len(payload) > MAX_PAYLOAD_BYTES:
            return Rejected(Refusal.OVERSIZED, f"{len(payload)} bytes, over the limit of {MAX_PAYLOAD_BYTES}")
        rows = self._rows
        if not payload:
            return Batch((), rows, 0, {})
        data = np.frombuffer(payload, dtype=np.uint8)
        code, count, at, unknown = _batch(data, rows, self._tables, self._found)
        if code != _OK:
            return Rejected(Refusal.MALFORMED, f"sample {count + 1}, in the field at byte {at}: {_TEXTS[code]}")
        names = tuple([payload[begin:end].decode("ascii") for begin, end in rows.names[:count].tolist()])
        if len(set(names)) != count:
            return Rejected(Refusal.MALFORMED, _TEXTS[_PORT_TWICE])
        heard = {row: payload[slice(*span)] for row, span in enumerate(rows.heard[:count].tolist()) if span[1]}
        return Batch(names, rows, unknown, heard)
