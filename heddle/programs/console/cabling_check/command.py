"""Read the fabric and what its ports hear, and print the diagnosis."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from heddle.controller.cabling.diagnosis import diagnose
from heddle.controller.cabling.sources.listed import listed
from heddle.controller.cabling.sources.names import Resolved, resolve
from heddle.controller.config.load import load_fabric
from heddle.controller.config.port_map import by_name, port_numbers
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.programs.console.cabling_check.reading import read_lldpd, read_path, read_sonic
from heddle.programs.console.cabling_check.report import as_json as document_of
from heddle.programs.console.cabling_check.report import print_report
from heddle.telemetry.neighbours.advertised import Collected


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of the command line, unchecked."""

    fabric: Path
    source: str
    sockets: Sequence[str] = ()
    redis: Sequence[str] = ()
    lanes: int = 4
    port_map: Path | None = None


def run_check_cabling(request: Request, as_json: bool, out: TextIO) -> int:
    """Print the causes to `out`; return 0 if there are none, else 1. Raises InputError."""
    fabric = load_fabric(request.fabric)
    heard = _heard(request, fabric)
    diagnosis = diagnose(fabric, heard.heard, heard.up)
    notes = tuple(map(one_line, heard.notes))
    if as_json:
        json.dump(document_of(fabric, diagnosis, notes), out, indent=2)
        out.write("\n")
    else:
        print_report(fabric, diagnosis, heard.up is not None)
        for note in notes[:20]:
            print(f"note: {note}", file=sys.stderr)
        if len(notes) > 20:
            print(f"note: (+{len(notes) - 20} more; --json prints all)", file=sys.stderr)
    return int(bool(diagnosis.causes))


def _heard(request: Request, fabric: Fabric) -> Resolved:
    numbers = by_name(request.lanes) if request.port_map is None else port_numbers(request.port_map).get
    if request.source == "lldpd":
        return resolve(fabric, read_lldpd(request.sockets), numbers)
    if request.source == "sonic":
        return resolve(fabric, read_sonic(request.redis), numbers)
    read = read_path(Path(request.source))
    if isinstance(read, Collected):
        return resolve(fabric, read, numbers)
    try:
        heard, down = listed(read, fabric)
    except InputError as error:
        raise InputError(*(one_line(f"{request.source}: {problem}") for problem in error.problems)) from None
    if down is None:
        return Resolved(heard, None, ())
    return Resolved(heard, frozenset({*fabric.cable_by_port, *fabric.nic_by_port, *heard} - down), ())
