"""The admission windows of flows, as columns."""

from dataclasses import dataclass

import numpy as np

from heddle.controller.model.plan import AdmissionWindow
from heddle.controller.planner.ground.jit import Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turns:
    """The slot in which each flow may send, a row per flow; `slots` is 0 for a flow that may always send."""

    slot: Ints
    slots: Ints
    slot_ns: Ints

    def rows(self, chosen: slice) -> "Turns | None":
        """Return some of the rows; None where all of these flows may always send."""
        part = Turns(slot=self.slot[chosen], slots=self.slots[chosen], slot_ns=self.slot_ns[chosen])
        return part if part.slots.any() else None

    def window(self, row: int) -> AdmissionWindow:
        """Return the admission window of one flow."""
        return AdmissionWindow(slot=int(self.slot[row]), slots=int(self.slots[row]), slot_ns=int(self.slot_ns[row]))

    def equals(self, other: "Turns | None") -> bool:
        """Return whether these are the same turns."""
        mine = (self.slot, self.slots, self.slot_ns)
        return other is not None and all(map(np.array_equal, mine, (other.slot, other.slots, other.slot_ns)))
