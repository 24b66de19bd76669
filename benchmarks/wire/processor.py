"""What a device costs: its own processor time, and what the kernel does for it in its thread for soft interrupts.

A frame that is sent on a veth is delivered in a soft interrupt of the sender's core. Under load the kernel moves those
to the thread ksoftirqd of that core, at times all and at times none, so one without the other says little.
"""

import time
from functools import cache
from pathlib import Path


def process_time_ns(pid: int) -> int:
    """Return the processor time of another process so far: all its threads."""
    return time.clock_gettime_ns(~pid << 3 | 2)


@cache
def _soft_interrupts(cpu: int) -> int | None:
    """Return the process that works on a core's soft interrupts, None where it cannot be seen."""
    for named in Path("/proc").glob("[0-9]*/comm"):
        try:
            if named.read_text().strip() == f"ksoftirqd/{cpu}":
                return int(named.parent.name)
        except OSError:
            continue
    return None


def soft_time_ns(cpu: int) -> int:
    """Return the processor time of a core's thread for soft interrupts so far; 0 where it cannot be seen."""
    pid = _soft_interrupts(cpu)
    return process_time_ns(pid) if pid is not None else 0
