"""Read the fabric and what its ports hear, or what pings show, and print the diagnosis."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

from heddle.controller.cabling.diagnosis import Diagnosis, diagnose
from heddle.controller.cabling.sources.listed import listed
from heddle.controller.cabling.sources.names import Resolved, resolve
from heddle.controller.cabling.sources.pinged import PingedFrom, diagnose_pings
from heddle.controller.config.load import load_fabric
from heddle.controller.config.port_map import by_name, port_numbers
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.programs.console.cabling_check.reading import read_lldpd, read_path, read_sonic
from heddle.programs.console.cabling_check.report import as_json as document_of
from heddle.programs.console.cabling_check.report import print_report
from heddle.programs.console.sid_check import leaf_checks
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
    nics: Sequence[str] = ()
    next_hop: str | None = None


class _Found(NamedTuple):
    """A fabric, what is wrong with its cabling, and what else to say; whether it is known which ports have carrier."""

    fabric: Fabric
    diagnosis: Diagnosis
    notes: tuple[str, ...]
    knows_carrier: bool


def run_check_cabling(request: Request, as_json: bool, out: TextIO) -> int:
    """Print the causes to `out`; return 0 if there are none, else 1. Raises InputError."""
    fabric, diagnosis, notes, knows_carrier = _pinged(request) if request.source == "pings" else _diagnosed(request)
    if as_json:
        json.dump(document_of(fabric, diagnosis, notes), out, indent=2)
        out.write("\n")
    else:
        print_report(fabric, diagnosis, knows_carrier)
        for note in notes[:20]:
            print(f"note: {note}", file=sys.stderr)
        if len(notes) > 20:
            print(f"note: (+{len(notes) - 20} more; --json prints all)", file=sys.stderr)
    return int(bool(diagnosis.causes))


def _diagnosed(request: Request) -> _Found:
    """Return what LLDP shows, or a list."""
    fabric = load_fabric(request.fabric)
    heard = _heard(request, fabric)
    notes = tuple(map(one_line, heard.notes))
    return _Found(fabric, diagnose(fabric, heard.heard, heard.up), notes, heard.up is not None)


def _pinged(request: Request) -> _Found:
    """Return what pings from this machine's NICs show, or from those of a lab."""
    fabric, checks, problems = leaf_checks(request.fabric, request.nics, request.next_hop)
    diagnosis = diagnose_pings(fabric, (PingedFrom(each.nic, each.returned, each.findings) for each in checks))
    notes = list(map(one_line, problems))
    if parallel := sum(each.parallel for each in checks):
        notes.append(
            f"an exchange among {parallel} parallel cables is not distinguishable by pings: compare them by LLDP"
        )
    return _Found(fabric, diagnosis, tuple(notes), knows_carrier=True)


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
