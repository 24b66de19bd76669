"""Signal handling for clean shutdown: defer termination during a critical step, and turn it into an exception."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

TERMINATING = (signal.SIGTERM, signal.SIGHUP)
STOPPING = (signal.SIGINT, *TERMINATING)


@contextmanager
def stop_deferred() -> Iterator[None]:
    """Defer termination signals that arrive during the block until its end; only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    old = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        if old[number] is not None:  # None: set outside of Python, and could not be restored
            signal.signal(number, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in old.items():
            if handler is not None:
                signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[0])


class TerminationAsException:
    """Makes SIGTERM and SIGHUP raise SystemExit, so that `finally` blocks and `atexit` run, until `end`."""

    def __init__(self) -> None:
        """Install the handler for those signals that still have their default action."""
        self._old: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in TERMINATING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._old[number] = signal.signal(number, _exit)

    def end(self) -> None:
        """Restore the previous handlers; may be called again."""
        while self._old and threading.current_thread() is threading.main_thread():
            signal.signal(*self._old.popitem())


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
