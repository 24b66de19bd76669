"""Write the turns of the control loop to files of bounded size, in a thread that the loop never waits for.

Each file begins with the state, so the oldest can be deleted at any time, and a turn that was not written ends a file.
"""

import contextlib
import logging
import queue
import threading
from pathlib import Path

from heddle.controller.model.error import PrerequisiteError
from heddle.controller.recording.batch import Turn
from heddle.controller.recording.segment import SUFFIX, SegmentWriter

QUEUE_LIMIT = 1_024
"""The turns that wait to be written; more are refused."""
SEGMENTS = 8
"""The files that the bytes of a recording are divided into, if its states are small."""
MAX_RAW_BYTES = 128 << 20
"""The bytes before compression after which a file ends: its values stay in memory until then."""
RETRY_MS = 10_000
"""After a failure to write, the next file begins so much later."""
CLOSE_S = 5.0
_LOG = logging.getLogger("heddle.controller")


class Recorder:
    """The writer of one directory.

    `written` counts turns; `refused` those for which the queue was full, `failed` those that could not be written.
    """

    def __init__(self, directory: Path, max_bytes: int, queue_limit: int = QUEUE_LIMIT) -> None:
        """Create the directory and start the thread; raises PrerequisiteError where it cannot be created."""
        self.written = self.refused = self.failed = 0
        self._directory, self._max_bytes = directory, max_bytes
        self._waiting: queue.Queue[tuple[Turn, bool] | None] = queue.Queue(queue_limit)
        self._gap = True
        self._segment: SegmentWriter | None = None
        self._files = self._full_bytes = self._full_raw_bytes = 0
        self._retry_unix_ms: int | None = None
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._kept = {path: path.stat().st_size for path in sorted(directory.glob(f"*{SUFFIX}"))}
        except OSError as error:
            raise PrerequisiteError(f"record: {directory}: {error.strerror}") from None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Return how many turns are not in the recording."""
        return self.refused + self.failed

    def record(self, turn: Turn) -> None:
        """Write a turn later; count it as refused where too many wait. Never blocks; called by the loop alone."""
        try:
            self._waiting.put_nowait((turn, self._gap))
            self._gap = False
        except queue.Full:
            self.refused += 1
            self._gap = True

    def close(self) -> None:
        """Write what waits, for a few seconds at most; turns that are left are lost."""
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=CLOSE_S)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            turn, after_gap = item
            if self._retry_unix_ms is not None and turn.unix_ms < self._retry_unix_ms:
                self.failed += 1
                continue
            try:
                self._write(turn, after_gap)
                self.written += 1
            except Exception as fault:  # a full disk, or a value that cannot be written: the controller goes on
                self.failed += 1
                self._end_segment()
                self._retry_unix_ms = turn.unix_ms + RETRY_MS
                _LOG.error("recording stopped for %d s: %s", RETRY_MS // 1_000, fault)
        self._end_segment()

    def _write(self, turn: Turn, after_gap: bool) -> None:
        if after_gap or self._segment is None or self._is_full(self._segment):
            self._end_segment()
            self._segment = self._begin(turn)
            self._retry_unix_ms = None
        self._segment.append(turn)
        self._delete_oldest(self._segment.bytes)

    def _is_full(self, segment: SegmentWriter) -> bool:
        return segment.bytes >= self._full_bytes or segment.raw_bytes >= self._full_raw_bytes

    def _begin(self, turn: Turn) -> SegmentWriter:
        path = self._directory / f"{turn.unix_ms:013d}-{self._files:06d}{SUFFIX}"
        self._files += 1
        segment = SegmentWriter(path, turn.before)
        if segment.bytes > self._max_bytes:
            segment.close()
            path.unlink()
            raise ValueError(f"the state takes {segment.bytes} bytes, record_megabytes allows {self._max_bytes}")
        self._full_bytes = segment.bytes + self._max_bytes // SEGMENTS
        self._full_raw_bytes = segment.raw_bytes + MAX_RAW_BYTES
        return segment

    def _end_segment(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._kept[self._segment.path] = self._segment.bytes
            self._segment = None

    def _delete_oldest(self, newest_bytes: int) -> None:
        """Delete the oldest files until all fit into the limit."""
        while self._kept and sum(self._kept.values()) + newest_bytes > self._max_bytes:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            oldest.unlink(missing_ok=True)
