"""`heddle export sids` and `heddle export nvue`: what switches hold of static SIDs, and hosts of planned paths."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TextIO

from heddle.controller.config.load import load_fabric
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.srv6 import Sids, prefix_text, sids_of
from heddle.controller.sids.host_routes import HostRoutes
from heddle.controller.sids.nvue import nvue_commands
from heddle.programs.console.kept_plan import kept_jobs


def run_sids(path: Path, unused: Path | None, out: TextIO) -> None:
    """Write what every switch holds, and what NICs write, as JSON.

    Raises InputError for another steering, and where an option was given that this form does not read.
    """
    if unused is not None:
        raise InputError("--plan and --out need --format iproute2; JSON is of the fabric alone, on standard output")
    fabric, sids = _loaded(path)
    switches = {
        switch.id: [
            {
                "prefix": prefix_text(sids.prefix(entry.usid, switch.id)),
                "action": entry.action.name.lower(),
                "port": entry.port.number if entry.port else None,
            }
            for entry in sids.entries(switch.id)
        ]
        for switch in fabric.switches
    }
    nics = {nic.id: {"source": ipv6_text(sids.source(nic))} for nic in fabric.nics}
    json.dump({"switches": switches, "nics": nics}, out, indent=2)
    out.write("\n")


def run_nvue(path: Path, folder: Path | None, out: TextIO) -> None:
    """Write the NVUE commands of every switch: `folder`/SWITCH.sh, or all to `out`, each after a comment.

    Raises InputError for another steering, and for what Cumulus Linux does not hold; then nothing is written.
    """
    fabric, sids = _loaded(path)
    commands = {switch.id: nvue_commands(fabric, sids, switch.id) for switch in fabric.switches}
    _write(commands, "switches", folder, out)


def run_host_routes(path: Path, plan: Path | None, folder: Path | None, out: TextIO) -> None:
    """Write the routes of every NIC of a plan: `folder`/NIC.sh, or all to `out`, each after a comment.

    Raises InputError for another steering, and for a plan that is missing, malformed or of another fabric.
    """
    if plan is None:
        raise InputError("--format iproute2 needs --plan PLAN, a plan that `heddle plan FABRIC JOBS --json` wrote")
    fabric, sids = _loaded(path)
    routes = HostRoutes(fabric, sids, chain.from_iterable(job.flows.flows for job in kept_jobs(plan, fabric)))
    what = "ports of NICs" if any(fabric.nic_by_id[nic].of for nic in routes.nics) else "NICs"
    _write({nic: routes.lines(nic) for nic in routes.nics}, what, folder, out)


def _write(lines_of: Mapping[str, Iterable[str]], what: str, folder: Path | None, out: TextIO) -> None:
    """Write the lines of each name: to `folder`/NAME.sh, else to `out` after a comment."""
    texts = {name: "".join(f"{line}\n" for line in lines) for name, lines in lines_of.items()}
    if folder is None:
        out.writelines(f"# {name}\n{text}" for name, text in texts.items())
        return
    for name, text in texts.items():
        file = folder / f"{name}.sh"  # a port of a NIC in several planes has a slash in its name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    out.write(f"{folder}: {len(texts)} {what}\n")


def _loaded(path: Path) -> tuple[Fabric, Sids]:
    """Read a fabric file whose packets name their paths; raises InputError for another."""
    fabric = load_fabric(path)
    sids = sids_of(fabric)
    if sids is None:
        raise InputError(f"{one_line(str(path))}: steering: packets name no paths here; SIDs need `steering: srv6`")
    return fabric, sids
