r"""The file format of recordings: a header line, then frames: the layout of the classes, the state, and batches.

    heddle recording 3\n
    +--------------+-------------+------------------------------+
    | bytes u32 BE | CRC-32 u32  | a pickle, compressed by zlib |   any number of times
    +--------------+-------------+------------------------------+

A batch is events and decisions. A file that ends within a frame was cut short by the end of its process: all frames
before it are valid. In the place of a layout, files of versions 1 and 2 have a fingerprint of it behind the version.
Those of version 1 differ in the digests of decisions too, which name classes by opcodes of pickle.
"""

import io
import os
import pickle
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from heddle.controller.brain.state import State
from heddle.controller.model.effect import Effect
from heddle.controller.model.error import InputError
from heddle.controller.model.event import Event, RulesRead, SwitchUp
from heddle.controller.model.rule import SwitchRules
from heddle.controller.recording.batch import Batch, Decided, Turn
from heddle.controller.recording.digest import Digester
from heddle.controller.recording.layout import TABLES, is_layout, layout, misfits, shorter, tables_since
from heddle.controller.recording.pickling import Frame, ValuePickler, ValueUnpickler
from heddle.foundation.regular_file import open_regular

SUFFIX = ".heddle"
HEADER = b"heddle recording 3\n"
_TABLES = frozenset({
    "job", "drain", "cabling", "follow", "joining", "port", "bad_cable", "known_bad_cable", "vpc", "peering",
    "border", "load_balancer", "gateway", "network_generation", "network_known_since", "network_ended",
    "next_job_number", "certificate",
})  # fmt: skip
_WITHOUT_FOLLOWED = _TABLES - {"known_bad_cable", "follow", "joining"}
_WITHOUT_CABLES = _WITHOUT_FOLLOWED - {"cabling", "bad_cable"}
FINGERPRINTS: Mapping[str, frozenset[str]] = {
    "577ff877f193e68c": _WITHOUT_CABLES - {"network_known_since", "network_ended"},
    "8d99dd88f4e6a754": _WITHOUT_CABLES,
    "02a5be1ce16ddc62": _WITHOUT_CABLES,
    "f89a8341bc29ede6": _WITHOUT_FOLLOWED,
    "40be571750477855": _TABLES,
}
"""Of versions 1 and 2: the fingerprints that are read, whose classes fit those of today, and the journal's tables."""
MAX_FRAME_BYTES = 1 << 30
"""The size of a record before compression; a larger one is neither written nor read."""
MAX_HEADER_BYTES = 64
_FRAME = struct.Struct(">II")
_LEVEL = 1


class TooLargeError(Exception):
    """A record is larger than MAX_FRAME_BYTES."""


class SegmentWriter:
    """Writes one file, which begins with the state before the first turn; raises OSError, TooLargeError."""

    def __init__(self, path: Path, state: State) -> None:
        self.path = path
        self.raw_bytes = self.bytes = 0
        self._buffer = io.BytesIO()
        self._pickler = ValuePickler(self._buffer, state.fabric)
        self._digester = Digester()
        self._read: dict[str, SwitchRules] = {}
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        try:
            self.bytes += self._file.write(HEADER)
            self._write(layout())
            self._write(state)
        except BaseException:
            self.close()
            raise

    def append(self, turn: Turn) -> None:
        """Write one turn."""
        decided = tuple(decisions(turn.effects, self._digester))
        events = tuple(self._with_written_rules(event, turn.before) for event in turn.events)
        self._write(Batch(turn.unix_ms, events, decided, turn.fault))

    def _with_written_rules(self, event: Event, before: State) -> Event:
        """Return an event with rules that are written already, where it has equal ones: audits read the same again."""
        if not isinstance(event, RulesRead | SwitchUp):
            return event
        known = before.switches.get(event.switch)
        for rules in (self._read.get(event.switch), known.installed if known is not None else None):
            if rules is not None and rules == event.installed:
                return replace(event, installed=rules)
        self._read[event.switch] = event.installed
        return event

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, record: object) -> None:
        self._buffer.seek(0)
        self._buffer.truncate()
        self._pickler.dump(record)
        raw = self._buffer.getvalue()
        if len(raw) > MAX_FRAME_BYTES:
            raise TooLargeError(f"a record of {len(raw)} bytes")
        content = zlib.compress(raw, _LEVEL)
        self._file.write(_FRAME.pack(len(content), zlib.crc32(content)) + content)
        self.raw_bytes += len(raw)
        self.bytes += _FRAME.size + len(content)


def decisions(effects: Sequence[Effect], digester: Digester) -> Iterator[Decided]:
    """Return the kinds and digests of effects."""
    return (Decided(type(effect).__name__, digester.digest(effect)) for effect in effects)


def former_header(version: int, fingerprint: str) -> bytes:
    """Return the first line of a file of version 1 or 2."""
    return f"heddle recording {version} {fingerprint}\n".encode()


class SegmentReader:
    """Reads one file. `cut` is whether it ends within a frame. Raises InputError where it is damaged or foreign.

    `digester` computes the digests that its decisions have.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = False
        self._records = 0
        try:
            self._file = open_regular(path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from None
        self._frame = Frame()
        self._unpickler = ValueUnpickler(self._frame)
        try:
            self.digester = self._begun(self._file.readline(MAX_HEADER_BYTES))
        except InputError:
            self._file.close()
            raise

    def _begun(self, first: bytes) -> Digester:
        """Read what is before the state, and return what digests decisions as it was done then; raises InputError."""
        if not first.startswith(b"heddle recording "):
            raise InputError(f"{self.path}: no recording of heddle")
        for fingerprint, tables in FINGERPRINTS.items():
            if first in (former_header(1, fingerprint), former_header(2, fingerprint)):
                return Digester(former=first == former_header(1, fingerprint), without=tables_since(tables))
        if first != HEADER:
            raise self._foreign("")
        recorded = self._next()
        if recorded is None:  # cut short: there is no state either
            return Digester()
        if not is_layout(recorded):
            raise self._damaged("it begins with no layout of classes")
        if others := misfits(recorded):
            raise self._foreign(f", with another {others[0]!r:.100}")
        return Digester(without=tables_since(recorded[TABLES]), shorter=shorter(recorded))

    def state(self) -> State | None:
        """Return the state that the file begins with; None where it was cut short before the state's end."""
        state = self._next()
        if state is not None and not isinstance(state, State):
            raise self._damaged("it begins with no state")
        return state

    def batches(self) -> Iterator[Batch]:
        """Yield the batches; call once, after `state`."""
        while (batch := self._next()) is not None:
            if not isinstance(batch, Batch):
                raise self._damaged("a record is no batch of events")
            yield batch

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _next(self) -> object:
        """Return the next record, None at the end."""
        self._records += 1
        head = self._file.read(_FRAME.size)
        if not head:
            return None
        length, checksum = _FRAME.unpack(head) if len(head) == _FRAME.size else (1, 0)
        content = self._file.read(length)
        if len(content) < length:
            self.cut = True
            return None
        if zlib.crc32(content) != checksum:
            raise self._damaged(f"wrong checksum of record {self._records}")
        self._frame.hold(self._decompressed(content))
        try:
            return self._unpickler.load()
        except (pickle.UnpicklingError, MemoryError) as error:
            raise self._damaged(str(error)) from None
        except Exception as error:  # whatever the constructor of a class on the list raises
            raise self._damaged(repr(error)) from None

    def _decompressed(self, content: bytes) -> bytes:
        try:
            expanding = zlib.decompressobj()
            raw = expanding.decompress(content, MAX_FRAME_BYTES)
        except zlib.error as error:
            raise self._damaged(str(error)) from None
        if not expanding.eof:
            raise self._damaged("a record is incomplete or too large")
        return raw

    def _foreign(self, how: str) -> InputError:
        return InputError(f"{self.path}: recorded by another version of heddle{how}; replay it with that one")

    def _damaged(self, why: str) -> InputError:
        return InputError(f"{self.path}: damaged: {why}".replace("\n", " "))
