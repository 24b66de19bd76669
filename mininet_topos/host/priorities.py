"""Let switches and NICs run before the rest of the machine: a link that is full by design never makes up for a stall.

Each is a session of its own, and where the kernel groups sessions (`sched_autogroup`) a process's own niceness counts
only inside its session; the group's niceness is what tells sessions apart. So both are set. Real-time scheduling does
worse here: it starves the kernel's own threads that carry the packets between the processes.
"""

import os
from contextlib import suppress
from pathlib import Path

NICENESS = -10
TELEMETRY_NICENESS = -15
"""For agents, broker and collector of a lab: they are short of work, and in a fabric have processors of their own."""


def set_niceness(pid: int, niceness: int = NICENESS) -> None:
    """Give a process, and its session's group where there is one, the lab's niceness or another; needs root."""
    os.setpriority(os.PRIO_PROCESS, pid, niceness)
    with suppress(OSError):  # no such file: the kernel does not group sessions
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
