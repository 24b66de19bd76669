"""The program `heddle check sids`: ping every cable from a NIC of each leaf here, and name those that are elsewhere."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from heddle.controller.config.load import load_fabric
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.error import InputError, PrerequisiteError
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


def run_check_sids(path: Path, nics: Sequence[str], next_hop: str | None, as_json: bool, out: TextIO) -> int:
    """Check the cables above the leaves of this machine's NICs; return 0 if all pings returned, else 1."""
    lab = path if path.is_dir() else None
    fabric = load_fabric(lab / FABRIC_FILE if lab else path)
    sids = sids_of(fabric)
    if sids is None:
        raise InputError(f"{one_line(str(path))}: steering: packets name no paths here; pings need `steering: srv6`")
    sources = {source.nic.port.switch: source for source in sources_of(fabric, nics, lab / NODES_FILE if lab else None)}
    checks = [check_leaf(Pings(fabric, source.nic), sids, source, next_hop) for source in sources.values()]
    if as_json:
        json.dump({"leaves": [_as_json(check) for check in checks]}, out, indent=2)
        out.write("\n")
    else:
        out.writelines(f"{line}\n" for check in checks for line in _lines(check))
    return int(any(check.findings for check in checks))


def check_leaf(pings: Pings, sids: Sids, source: Source, next_hop: str | None) -> LeafCheck:
    """Send the pings of one leaf; raises PrerequisiteError without CAP_NET_RAW, InputError without a next hop."""
    with entered(source.pid):
        mac = _mac(next_hop) if next_hop else next_hop_of(source.device)
        if mac is None:
            raise InputError(f"{source.device}: its leaf's MAC address is not known here: give it by --next-hop")
        try:
            pinger = SelfPinger(source.device, sids.source(source.nic), mac)
        except PermissionError:
            raise PrerequisiteError("pings take raw sockets (CAP_NET_RAW): run this as root") from None
    with pinger:
        tested, findings = pings.check(pinger.send)
    return LeafCheck(source.nic.port.switch, tested, pinger.sent, findings, len(pings.parallel), pings.cables - tested)


def _mac(text: str) -> bytes:
    found = text.replace(":", "")
    if len(found) != 12 or not all(letter in "0123456789abcdefABCDEF" for letter in found):
        raise InputError(f"--next-hop {one_line(text)}: must be a MAC address such as 02:00:00:00:00:01")
    return bytes.fromhex(found)


def _lines(check: LeafCheck) -> list[str]:
    wrong = f"{len(check.findings)} WRONG" if check.findings else "all return"
    note = f"; an exchange among {check.parallel} parallel cables is not distinguished" if check.parallel else ""
    note += f"; {check.untested} cables above are not tested" if check.untested else ""
    head = f"{check.leaf}: {check.tested} cables, {wrong}, {check.sent} packets{note}"
    return [head, *(f"  {finding.line}" for finding in check.findings)]


def _as_json(check: LeafCheck) -> dict[str, Any]:
    findings = [
        {"cable": finding.cable.id, "instead": [str(port) for port in finding.instead], "text": finding.line}
        for finding in check.findings
    ]
    return check._asdict() | {"findings": findings}
