"""Signals that end a program, made to wait for a step that must not be cut in two, and to reach its clean-up."""

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
    """Let the signals that come during the block take effect after it (in the main thread; others never see them)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    old = {number: signal.getsignal(number) for number in STOPPING}
    for number in STOPPING:
        if old[number] is not None:  # else it was set outside of Python and could not be put back
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
    """While in force, SIGTERM and SIGHUP raise SystemExit instead of ending the process without any clean-up."""

    def __init__(self) -> None:
        """Take over the signals that have their default effect."""
        self._old: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in TERMINATING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    self._old[number] = signal.signal(number, _exit)

    def end(self) -> None:
        """Give the signals back; may be called again."""
        while self._old and threading.current_thread() is threading.main_thread():
            signal.signal(*self._old.popitem())


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
