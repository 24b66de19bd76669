"""Drain nodes of Slurm without a NIC that is up, and resume those that were drained for this and have one again."""

from collections.abc import Callable
from typing import Protocol

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Fabric
from heddle.controller.schedulers.host_list import host_list
from heddle.controller.schedulers.slurm_drains import REASON, REASONS, down_hosts, drains, reasons_of
from heddle.programs.console.slurm.commands import run_slurm

PERIOD_S = 15.0
"""A node is drained if its NICs are down at two checks in a row: a link that comes back at once drains nothing."""


class Links(Protocol):
    """What is asked of the controller."""

    def fabric(self) -> Fabric:
        """Return the fabric."""

    def down_links(self) -> set[str]:
        """Return the directed links that are down."""


class Drainer:
    """Checks from time to time; a line is logged for each change, and for an error when it begins."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._next_s = float("-inf")
        self._down: set[str] = set()
        self._last = ""

    def check(self, links: Links, now_s: float) -> None:
        """Drain and resume; nothing before the period is over, and nothing where Slurm or the controller fails."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + PERIOD_S
        try:
            line = self._check(links)
        except HeddleError as error:
            line = f"nodes are not checked: {error}"
        if line and line != self._last:
            self._log(one_line(line))
        self._last = line

    def _check(self, links: Links) -> str:
        """Drain and resume, and return why not where there are too many; raises HeddleError."""
        before, self._down = self._down, down_hosts(links.fabric(), links.down_links())
        steps = drains(reasons_of(run_slurm(*REASONS)), self._down & before)
        for nodes, state in ((steps.resume, ("State=RESUME",)), (steps.drain, ("State=DRAIN", f"Reason={REASON}"))):
            if nodes:
                named = host_list(nodes)
                run_slurm("scontrol", "update", f"NodeName={named}", *state)
                self._log(f"{named}: {' '.join(state)}")
        return f"{steps.too_many} nodes have no NIC that is up: too many to drain" if steps.too_many else ""
