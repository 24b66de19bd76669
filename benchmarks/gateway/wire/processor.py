"""Processor time of a device: all its threads, and ksoftirqd of its core.

A frame sent on a veth is delivered in a soft interrupt on the sender's core, as part of the sender's time. Under load
the kernel moves some or all of these to the thread ksoftirqd of that core, so both must be counted.

The clocks are the kernel's task counters (perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK). clock_gettime(2) of another
running process only has the time of its last tick, milliseconds ago.
"""

import ctypes
import os
import struct
from contextlib import ExitStack
from functools import cache
from pathlib import Path

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_SOFTWARE, _TASK_CLOCK, _FIRST_SIZE, _CLOSE_ON_EXEC = 1, 1, 64, 8


class TaskClock:
    """CPU time of one thread in nanoseconds since creation; exact also while the thread runs."""

    def __init__(self, thread: int) -> None:
        """Open the counter; raises OSError if the kernel refuses."""
        number = _PERF_EVENT_OPEN.get(os.uname().machine)
        if number is None:
            raise OSError(f"unknown system call number of perf_event_open for {os.uname().machine}")
        wanted = struct.pack("=IIQ", _SOFTWARE, _FIRST_SIZE, _TASK_CLOCK).ljust(_FIRST_SIZE, b"\0")
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.syscall(number, wanted, thread, -1, -1, _CLOSE_ON_EXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), f"perf_event_open: {os.strerror(ctypes.get_errno())}")

    def __call__(self) -> int:
        return int.from_bytes(os.read(self._file, 8), "little")

    def close(self) -> None:
        os.close(self._file)


class DeviceClock:
    """CPU time of a process with all its current threads, and of a core's ksoftirqd."""

    def __init__(self, pid: int, cpu: int) -> None:
        self._stack = ExitStack()
        self._own = [self._opened(int(name)) for name in sorted(os.listdir(f"/proc/{pid}/task"))]
        soft = soft_interrupts(cpu)
        self._soft = self._opened(soft) if soft is not None else None

    def _opened(self, thread: int) -> TaskClock:
        made = TaskClock(thread)
        self._stack.callback(made.close)
        return made

    def own_ns(self) -> int:
        return sum(clock() for clock in self._own)

    def soft_ns(self) -> int:
        return self._soft() if self._soft is not None else 0

    def __call__(self) -> int:
        return self.own_ns() + self.soft_ns()

    def close(self) -> None:
        self._stack.close()


@cache
def soft_interrupts(cpu: int) -> int | None:
    """Return the thread id of a core's ksoftirqd, None if it is not visible."""
    for named in Path("/proc").glob("[0-9]*/comm"):
        try:
            if named.read_text().strip() == f"ksoftirqd/{cpu}":
                return int(named.parent.name)
        except OSError:
            continue
    return None
