"""Give switches and NICs a higher scheduling priority than the rest of the machine.

A link that is full by design cannot catch up after its process was not scheduled. Each process is a session of its own.
With `sched_autogroup` a process's niceness counts only within its session, and the niceness of the group counts between
sessions; so both are set. Real-time scheduling is worse: it starves the kernel threads that carry the packets.
"""

import os
from contextlib import suppress
from pathlib import Path

NICENESS = -10
TELEMETRY_NICENESS = -15
"""For agents, broker and collector of a lab: they use little time, and in a real fabric have their own processors."""


def set_niceness(pid: int, niceness: int = NICENESS) -> None:
    """Set the niceness of a process and, where the kernel groups sessions, of its group; needs root."""
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):  # no such file: the kernel does not group sessions
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
