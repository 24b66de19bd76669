"""Give switches and NICs a higher scheduling priority than the rest of the machine.

A link that is full by design cannot catch up after its process was not scheduled. Each process is a session of its own.
With `sched_autogroup` a process's niceness counts only within its session, and the niceness of the group counts between
sessions; so both are set. Real-time scheduling is worse: it starves the kernel threads that carry the packets.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

NICENESS = -10
"""For NICs: one that is late sends less, since it catches up for a few milliseconds only."""
SWITCH_NICENESS = -20
"""For the switches and their queues: where they are late, frames that came in one by one fill a queue at once, and
flows are marked and paused that no real switch would mark or pause. So nothing of the lab is served before them."""
TELEMETRY_NICENESS = -15
"""For agents, broker and collector of a lab: they use little time, and in a real fabric have their own processors."""


def set_niceness(pid: int, niceness: int = NICENESS) -> None:
    """Set the niceness of a process and, where the kernel groups sessions, of its group; needs root."""
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):  # no such file: the kernel does not group sessions
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))


class Waited(NamedTuple):
    """For how many seconds the switches' process, and a NIC's on average, had no processor although they were ready."""

    switches_s: float
    nics_s: float

    def since(self, before: "Waited") -> "Waited":
        """Return the difference to an earlier value."""
        return Waited(self.switches_s - before.switches_s, self.nics_s - before.nics_s)


def waited(switches: Iterable[int], nics: Iterable[int]) -> Waited:
    """Return what the processes with these ids have waited so far."""
    of_nics = [waited_ns(pid) for pid in nics]
    return Waited(sum(map(waited_ns, switches)) / 1e9, sum(of_nics) / max(1, len(of_nics)) / 1e9)


def waited_ns(pid: int) -> int:
    """Return for how long the main thread of a process has been ready and had no processor, in all (schedstat).

    0 where the kernel does not count it, and for a process that has ended. Time that a host takes from its virtual
    machine is not in it.
    """
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    return 0
