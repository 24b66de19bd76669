"""A plan's admission windows: in whose turn it is now, and when the next turn comes. Unix time is an argument."""

from typing import NamedTuple


class AdmissionWindow(NamedTuple):
    """A flow sends while (unix time in ns / slot_ns) mod slots = slot, as the contract says; see `turn`."""

    slot: int
    slots: int
    slot_ns: int

    def turn(self, unix_ns: int) -> tuple[int, int]:
        """Return when the turn that runs now, or else the next one, opens and closes, in unix time."""
        cycle_ns = self.slots * self.slot_ns
        opened_ns = unix_ns - (unix_ns - self.slot * self.slot_ns) % cycle_ns
        opens_ns = opened_ns if unix_ns < opened_ns + self.slot_ns else opened_ns + cycle_ns
        return opens_ns, opens_ns + self.slot_ns
