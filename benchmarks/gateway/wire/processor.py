"""What a device costs: the processor time of all its threads, and of the kernel's thread for soft interrupts.

A frame that is sent on a veth is delivered in a soft interrupt of the sender's core, at the sender's expense. Under
load the kernel moves those to the thread ksoftirqd of that core, at times all and at times none, so one without the
other says little.

The clocks are the kernel's counters of tasks (perf_event_open(2), PERF_COUNT_SW_TASK_CLOCK). clock_gettime(2) for
another process that is running knows no more than its last tick, which is milliseconds ago.
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
    """Nanoseconds that one thread has had a processor since this was made; exact also while it runs on another."""

    def __init__(self, thread: int) -> None:
        """Raise OSError where the kernel does not count for us."""
        number = _PERF_EVENT_OPEN.get(os.uname().machine)
        if number is None:
            raise OSError(f"no number of perf_event_open for {os.uname().machine}")
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
    """Processor time of a process with all the threads that it has now, and of a core's soft interrupts."""

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
    """Return the thread that works on a core's soft interrupts, None where it cannot be seen."""
    for named in Path("/proc").glob("[0-9]*/comm"):
        try:
            if named.read_text().strip() == f"ksoftirqd/{cpu}":
                return int(named.parent.name)
        except OSError:
            continue
    return None
