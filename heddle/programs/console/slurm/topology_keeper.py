"""Keep Slurm's topology.conf that of the fabric and of Slurm's nodes, while the agent runs."""

from collections.abc import Callable
from pathlib import Path

from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import HeddleError
from heddle.controller.model.fabric import Fabric
from heddle.controller.schedulers.slurm_files import Format
from heddle.programs.console.slurm.export import put_topology

PERIOD_S = 60.0
RETRY_S = 600.0
"""After a failure: a Slurm that does not load the file is not reconfigured every minute."""


class TopologyKeeper:
    """Compares the file from time to time; a line is logged when something was done, and when an error begins."""

    def __init__(self, path: Path, log: Callable[[str], None]) -> None:
        self._path = path
        self._log = log
        self._next_s = float("-inf")
        self._logged: set[str] = set()

    def keep(self, fabric: Fabric, now_s: float) -> None:
        """Write the file, and make Slurm load it, where it is another than the fabric's; nothing within the period."""
        if now_s < self._next_s:
            return
        lines: list[str] = []
        try:
            put = put_topology(fabric, Format.TREE, None, self._path, reconfigure=True, note=lines.append)
            self._next_s = now_s + PERIOD_S
            lines += [put.line] if put.is_new else []
        except (HeddleError, OSError) as error:
            self._next_s = now_s + RETRY_S
            lines.append(f"{self._path}: not kept: {error}")
        for line in lines:
            if line not in self._logged:
                self._log(one_line(line))
        self._logged = {*lines}
