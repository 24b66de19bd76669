"""The program `heddle check sids`: ping every cable from a NIC of each leaf here, and name those that are elsewhere."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from heddle.controller.config.load import load_fabric
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import InputError, PrerequisiteError
from heddle.controller.model.fabric import Cable, Fabric
from heddle.controller.model.srv6 import Sids, sids_of
from heddle.controller.model.srv6_pings import Finding, Pings
from heddle.probing.self_ping import SelfPinger, next_hop_of
from heddle.programs.console.fabric_check.inputs import FABRIC_FILE, NODES_FILE, Source, entered, sources_of


class LeafCheck(NamedTuple):
    """What the pings from one NIC of a leaf have shown."""

    leaf: str
    tested: int
    sent: int
    findings: tuple[Finding, ...]
    parallel: int
    untested: int = 0
    """Cables above those of the leaf: behind one whose pings are lost, or where an address has no room."""
    nic: str = ""
    returned: tuple[Cable, ...] = ()
    """The cables whose pings have returned."""


def run_check_sids(path: Path, nics: Sequence[str], next_hop: str | None, as_json: bool, out: TextIO) -> int:
    """Check the cables above the leaves of this machine's NICs, each leaf from one NIC or from all that are named.

    Returns 0 if all pings returned, 1 if not, 2 where no NIC of some leaf could ping, if others could.
    """
    _, checks, problems = leaf_checks(path, nics, next_hop)
    if as_json:
        json.dump({"leaves": [_as_json(check) for check in checks], "problems": problems}, out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for check in checks for line in _lines(check, with_nic=bool(nics)))
    for problem in problems:
        print(f"heddle: {problem}", file=sys.stderr)
    return 2 if problems else int(any(check.findings for check in checks))


class LeafChecks(NamedTuple):
    """The fabric, what pings have shown by leaf, and why there are none of some."""

    fabric: Fabric
    checks: tuple[LeafCheck, ...]
    problems: tuple[str, ...]


def leaf_checks(path: Path, nics: Sequence[str], next_hop: str | None) -> LeafChecks:
    """Ping from the NICs of this machine, or of the lab in a directory; raises InputError where none of them can."""
    lab = path if path.is_dir() else None
    fabric = load_fabric(lab / FABRIC_FILE if lab else path)
    sids = sids_of(fabric)
    if sids is None:
        raise InputError(f"{one_line(str(path))}: steering: packets name no paths here; pings need `steering: srv6`")
    starts: dict[str, list[tuple[Pings, Source]]] = {}
    for source in sources_of(fabric, nics, lab / NODES_FILE if lab else None):
        place = source.nic.id if nics else source.nic.port.switch
        starts.setdefault(place, []).append((Pings(fabric, source.nic), source))
    if next_hop and len(starts) > 1:
        raise InputError(f"--next-hop: it is of one leaf, and {len(starts)} NICs would ping: name one by --nic")
    checks, problems = list[LeafCheck](), list[str]()
    for each in starts.values():
        try:
            checks.append(_first_that_can(each, sids, next_hop))
        except InputError as error:
            problems += error.problems
    if not checks:
        raise InputError(*problems)
    return LeafChecks(fabric, tuple(checks), tuple(problems))


def _first_that_can(starts: Sequence[tuple[Pings, Source]], sids: Sids, next_hop: str | None) -> LeafCheck:
    """Check a leaf from the first NIC that has a next hop; raises InputError with the problems of all."""
    problems: list[str] = []
    for pings, source in starts:
        try:
            return check_leaf(pings, sids, source, next_hop)
        except InputError as error:
            problems += error.problems
    raise InputError(*problems)


def check_leaf(pings: Pings, sids: Sids, source: Source, next_hop: str | None) -> LeafCheck:
    """Send the pings of one leaf; raises PrerequisiteError without CAP_NET_RAW, InputError without a next hop."""
    with entered(source.pid):
        mac = _mac(next_hop) if next_hop else next_hop_of(source.device)
        if mac is None:
            raise InputError(
                f"{source.nic.id}: {source.device} has no IPv4 gateway in the ARP table, or several: "
                "give its leaf's MAC address by --next-hop"
            )
        try:
            pinger = SelfPinger(source.device, sids.source(source.nic), mac)
        except PermissionError:
            raise PrerequisiteError("pings take raw sockets (CAP_NET_RAW): run this as root") from None
    with pinger:
        returned, findings = pings.check(pinger.send)
    nic, tested = source.nic, len(returned) + len(findings)
    counts = len(pings.parallel), pings.cables - tested
    return LeafCheck(nic.port.switch, tested, pinger.sent, findings, *counts, nic.id, returned)


def _mac(text: str) -> bytes:
    found = text.replace(":", "")
    if len(found) != 12 or not all(letter in "0123456789abcdefABCDEF" for letter in found):
        raise InputError(f"--next-hop {one_line(text)}: must be a MAC address such as 02:00:00:00:00:01")
    return bytes.fromhex(found)


def _lines(check: LeafCheck, *, with_nic: bool = False) -> list[str]:
    wrong = f"{len(check.findings)} WRONG" if check.findings else "all return"
    note = f"; an exchange among {check.parallel} parallel cables is not distinguished" if check.parallel else ""
    note += f"; {check.untested} cables above are not tested" if check.untested else ""
    place = f"{check.leaf} from {check.nic}" if with_nic else check.leaf
    head = f"{place}: {check.tested} cables, {wrong}, {check.sent} packets{note}"
    return [head, *(f"  {finding.line}" for finding in check.findings)]


def _as_json(check: LeafCheck) -> dict[str, Any]:
    findings = [
        {"cable": finding.cable.id, "instead": [str(port) for port in finding.instead], "text": finding.line}
        for finding in check.findings
    ]
    values = check._asdict() | {"findings": findings}
    del values["returned"]
    return values
