"""A plan's admission windows: the time slots in which a flow may send. Pure; unix time is an argument."""

from typing import NamedTuple


class AdmissionWindow(NamedTuple):
    """A flow may send while floor(unix time in ns / slot_ns) mod slots = slot, as the contract defines it."""

    slot: int
    slots: int
    slot_ns: int

    def open_interval(self, unix_ns: int) -> tuple[int, int]:
        """Return start and end of the open slot, or of the next one if the window is closed now, in unix time."""
        cycle_ns = self.slots * self.slot_ns
        opened_ns = unix_ns - (unix_ns - self.slot * self.slot_ns) % cycle_ns
        opens_ns = opened_ns if unix_ns < opened_ns + self.slot_ns else opened_ns + cycle_ns
        return opens_ns, opens_ns + self.slot_ns
