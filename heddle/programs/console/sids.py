"""`heddle export sids` and `heddle export nvue`: what switches hold of static SIDs."""

import json
from pathlib import Path
from typing import TextIO

from heddle.controller.config.load import load_fabric
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.srv6 import Sids, prefix_text, sids_of
from heddle.controller.sids.nvue import nvue_commands


def run_sids(path: Path, out: TextIO) -> None:
    """Write what every switch holds, and what NICs write, as JSON; raises InputError for another steering."""
    fabric, sids = _loaded(path)
    switches = {
        switch.id: [
            {
                "prefix": prefix_text(sids.prefix(entry.usid)),
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
    texts = {
        switch.id: "".join(f"{line}\n" for line in nvue_commands(fabric, sids, switch.id)) for switch in fabric.switches
    }
    if folder is None:
        out.writelines(f"# {switch}\n{text}" for switch, text in texts.items())
        return
    folder.mkdir(parents=True, exist_ok=True)
    for switch, text in texts.items():
        (folder / f"{switch}.sh").write_text(text, encoding="utf-8")
    out.write(f"{folder}: {len(texts)} switches\n")


def _loaded(path: Path) -> tuple[Fabric, Sids]:
    """Read a fabric file whose packets name their paths; raises InputError for another."""
    fabric = load_fabric(path)
    sids = sids_of(fabric)
    if sids is None:
        raise InputError(f"{one_line(str(path))}: steering: packets name no paths here; SIDs need `steering: srv6`")
    return fabric, sids
