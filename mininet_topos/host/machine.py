"""Measure what this machine gives to a lab: stolen time, other programs' use of the processors, waits of its processes.

    meter = MachineMeter(entry.tag)
    ...                                   # something that is paced by the clock
    use = meter.since_start()             # MachineUse

All figures are read from /proc at both ends: steal and use in /proc/stat and /proc/PID/stat, pressure in
/proc/pressure/cpu, waits for a processor in /proc/PID/schedstat. What a kernel lacks is None, or 0 where 0 means
that nothing is known against the machine. A virtual machine whose host reports no steal shows it as lateness alone,
which NICs measure themselves (`mininet_topos/nic/lateness.py`).
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from heddle.mininet_topos.host.cleanup import processes
from heddle.mininet_topos.host.priorities import waited_ns
from heddle.mininet_topos.host.registry import ENVIRONMENT_TAG

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineUse:
    """What a machine gave while something ran for `seconds`. Shares are 0 to 1, uses are numbers of processors.

    `stolen_share`: of the processors' time, what the host of a virtual machine gave to others. `others_processors`:
    what programs that are not the lab's used. `waited_share`: of the time, how long the lab's process that waited
    longest was ready and had no processor. `pressure_share`: how long any process of the machine so waited; None
    without PSI. `late_ns` and `max_late_ns`: by how much NICs woke up after the time that they had set, in all for the
    NIC where it is most, and at most.
    """

    seconds: float
    processors: int
    stolen_share: float = 0.0
    others_processors: float = 0.0
    lab_processors: float = 0.0
    waited_share: float = 0.0
    pressure_share: float | None = None
    late_ns: int = 0
    max_late_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSample:
    """Cumulative figures of the machine at one moment, in nanoseconds; `waited_ns` is by process of the lab."""

    monotonic_ns: int
    processors: int
    stolen_ns: int
    used_ns: int
    lab_used_ns: int
    waited_ns: Mapping[int, int]
    pressure_ns: int | None


def use_between(before: MachineSample, after: MachineSample) -> MachineUse:
    """Return what the machine gave between two samples. Pure."""
    elapsed_ns = max(1, after.monotonic_ns - before.monotonic_ns)
    lab_ns = max(0, after.lab_used_ns - before.lab_used_ns)
    others_ns = max(0, after.used_ns - before.used_ns - lab_ns)
    waits = (waited - before.waited_ns[pid] for pid, waited in after.waited_ns.items() if pid in before.waited_ns)
    pressure = None
    if before.pressure_ns is not None and after.pressure_ns is not None:
        pressure = (after.pressure_ns - before.pressure_ns) / elapsed_ns
    return MachineUse(
        seconds=elapsed_ns / 1e9,
        processors=after.processors,
        stolen_share=max(0, after.stolen_ns - before.stolen_ns) / elapsed_ns / after.processors,
        others_processors=others_ns / elapsed_ns,
        lab_processors=lab_ns / elapsed_ns,
        waited_share=max(waits, default=0) / elapsed_ns,
        pressure_share=pressure,
    )


class MachineMeter:
    """Measures from its creation on; `tag` is that of the lab's processes (`LabEntry.tag`)."""

    def __init__(self, tag: str) -> None:
        """Take the first sample."""
        self._tag = tag
        self._first = sample(tag)

    def since_start(self) -> MachineUse:
        """Return what the machine has given since the creation."""
        return use_between(self._first, sample(self._tag))


def sample(tag: str) -> MachineSample:
    """Read the figures of now; takes some ten milliseconds, most of it to find the lab's processes."""
    pids = _processes_of(tag)
    line = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, _, _, stolen = (int(field) * _TICK_NS for field in (*line, *["0"] * 8)[:8])
    return MachineSample(
        monotonic_ns=time.monotonic_ns(),
        processors=len(os.sched_getaffinity(0)),
        stolen_ns=stolen,
        used_ns=user + nice + system,
        lab_used_ns=sum(map(_used_ns, [*pids, os.getpid()])),
        waited_ns={pid: waited for pid in pids if (waited := waited_ns(pid))},
        pressure_ns=_pressure_ns(),
    )


def _processes_of(tag: str) -> list[int]:
    found = processes(f"{ENVIRONMENT_TAG}={tag}")
    for pidfd in found.values():
        os.close(pidfd)
    return list(found)


def _used_ns(pid: int) -> int:
    """Return the processor time of a process and of its children that have ended; 0 if it has ended itself."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) * _TICK_NS
    return 0


def _pressure_ns() -> int | None:
    with suppress(OSError, ValueError):
        some = Path("/proc/pressure/cpu").read_text().split("\n", 1)[0]
        return int(some.rpartition("total=")[2]) * 1000
    return None
