"""Measure what the machine gives to a lab while flows run: the processors, and how late the lab's NICs wake up."""

from collections.abc import Iterable
from dataclasses import replace

from heddle.mininet_topos.host.machine import MachineMeter, MachineUse
from heddle.mininet_topos.host.registry import entry_of
from heddle.mininet_topos.measure.flow_run import NicCounters


class MachineWatch:
    """Measures from its creation on; create it before a run, and read it after that."""

    def __init__(self, lab_id: str) -> None:
        """Start to measure for a running lab."""
        self._meter = MachineMeter(entry_of(lab_id).tag)

    def use(self, nics: Iterable[NicCounters]) -> MachineUse:
        """Return what the machine gave since the creation; `nics` are the counters of the run."""
        return with_lateness(self._meter.since_start(), nics)


def with_lateness(use: MachineUse, nics: Iterable[NicCounters]) -> MachineUse:
    """Return a machine's use with the lateness of NICs: the most of all, in sum and of one delay. Pure."""
    nics = list(nics)
    return replace(
        use,
        late_ns=max((nic.late_ns for nic in nics), default=0),
        max_late_ns=max((nic.max_late_ns for nic in nics), default=0),
    )
