"""`heddle check FILE...`: check fabric and jobs files, and report every problem.

The keys of a file decide whether it is a fabric or a jobs file. A jobs file is checked against the last sound fabric
file before it, else the first one after it. Without one, its ranks are not checked.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from heddle.controller.config.load import check_jobs_shape, fabric_of, jobs_of
from heddle.controller.config.text.complaint import MAX_LINES, one_line
from heddle.controller.config.text.document import Document, read_document
from heddle.controller.model.admission import flow_plans
from heddle.controller.model.connectivity import CutOff, cut_off
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.job import JobRequest
from heddle.controller.views.port_room import room_line

_FABRIC_KEYS = {"generate", "switches", "links", "hosts", "failed", "name"}


@dataclass(slots=True, kw_only=True)
class Finding:
    """The result for one file."""

    file: str
    kind: str = "unknown"
    problems: tuple[str, ...] = ()
    cut_off: tuple[CutOff, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""
    ports: str = ""

    @property
    def exit_status(self) -> int:
        """Return 2 for a malformed file, 3 for a sound one with NICs cut off; those of other planes are not."""
        return 2 if self.problems else 3 if not all(one.other_plane for one in self.cut_off) else 0


def check_files(paths: Iterable[Path]) -> list[Finding]:
    """Check each file; return a finding for each, in the same order."""
    findings: list[Finding] = []
    documents: list[Document | None] = []
    fabrics: dict[int, Fabric] = {}
    for index, path in enumerate(paths):
        finding, document = _opened(path)
        findings.append(finding)
        documents.append(document)
        if document is not None and finding.kind == "fabric":
            fabric = _check_fabric(finding, document)
            if fabric is not None:
                fabrics[index] = fabric
    for index, (finding, document) in enumerate(zip(findings, documents, strict=True)):
        if document is not None and finding.kind == "jobs":
            _check_jobs(finding, document, _fabric_for(index, fabrics))
    return findings


def run_check(paths: Sequence[Path], as_json: bool, out: TextIO) -> int:
    """Check the files, print what was found to `out`, and return the exit status: 0, 2 or 3."""
    findings = check_files(paths)
    statuses = {finding.exit_status for finding in findings}
    status = next((status for status in (2, 3) if status in statuses), 0)
    if as_json:
        json.dump({"files": [_as_json(finding) for finding in findings], "exit_status": status}, out, indent=2)
        out.write("\n")
    else:
        out.writelines(line + "\n" for finding in findings for line in _lines(finding))
    return status


def _opened(path: Path) -> tuple[Finding, Document | None]:
    finding = Finding(file=one_line(str(path)))
    try:
        document = read_document(path)
    except InputError as error:
        finding.problems = error.problems
        return finding, None
    if "jobs" in document.value:
        finding.kind = "jobs"
    elif _FABRIC_KEYS & document.value.keys():
        finding.kind = "fabric"
    else:
        text = "neither a fabric file (generate, switches, links, hosts) nor a jobs file (jobs)"
        finding.problems = (f"{finding.file}: {text}",)
    return finding, document


def _check_fabric(finding: Finding, document: Document) -> Fabric | None:
    try:
        fabric = fabric_of(document)
    except InputError as error:
        finding.problems = error.problems
        return None
    finding.counts = {
        "switches": len(fabric.switches),
        "hosts": len({nic.host for nic in fabric.nics}),
        "nics": len(fabric.ports_of),
        "links": len(fabric.cables),
        **_planes_of(fabric),
        "failed": sum(map(len, (fabric.failed.down_cables, fabric.failed.down_switches, fabric.failed.down_nics))),
    }
    finding.cut_off = cut_off(fabric, fabric.failed)
    finding.ports = room_line(fabric) if fabric.steered_by is SteeredBy.OPENFLOW else ""
    return fabric


def _planes_of(fabric: Fabric) -> dict[str, int]:
    """Return the number of planes that NICs have ports in; none where each has one port."""
    planes = {nic.plane for nic in fabric.nics}
    return {"planes": len(planes)} if len(planes) > 1 else {}


def _check_jobs(finding: Finding, document: Document, fabric: Fabric | None) -> None:
    try:
        if fabric is None:
            finding.counts = {"jobs": check_jobs_shape(document)}
            finding.note = "ranks not checked: name a sound fabric file as well"
            return
        jobs = jobs_of(document, fabric)
    except InputError as error:
        finding.problems = error.problems
        return
    if any(one.paths_per_flow > 1 for job in jobs for one in job.collectives):
        finding.problems = tuple(_refused_sets(finding.file, fabric, jobs))
    finding.problems += tuple(_apart(finding.file, fabric, jobs))
    finding.counts = {"jobs": len(jobs), "flow_plans": sum(flow_plans(job, fabric) for job in jobs)}


def _refused_sets(file: str, fabric: Fabric, jobs: Sequence[JobRequest]) -> Iterator[str]:
    """Yield a line for each collective that asks for more paths than there are; imported late, as the planner is."""
    from heddle.controller.planner.ground.clos import topology_of
    from heddle.controller.planner.spread.lists import refused_sets

    topology = topology_of(fabric)
    for number, job in enumerate(jobs):
        yield from (f"{file}: jobs[{number}].{why}" for why in refused_sets(topology, job))


def _apart(file: str, fabric: Fabric, jobs: Sequence[JobRequest]) -> Iterator[str]:
    """Yield a line for each job of which two ranks that communicate have no port in one plane."""
    ports = fabric.ports_by_rank
    for job in jobs:
        planes = {frozenset(port.plane for port in ports[rank]) for rank in job.ranks}
        if planes and not frozenset.intersection(*planes):
            from heddle.controller.planner.ground.clos import topology_of
            from heddle.controller.planner.ground.expand import expand

            try:
                expand(topology_of(fabric), (job,))
            except InputError as error:
                yield f"{file}: {error}"


def _fabric_for(index: int, fabrics: dict[int, Fabric]) -> Fabric | None:
    before = [at for at in fabrics if at < index]
    nearest = max(before) if before else min(fabrics, default=None)
    return None if nearest is None else fabrics[nearest]


_WORDS = {
    "switches": ("switch", "switches"),
    "hosts": ("host", "hosts"),
    "nics": ("NIC", "NICs"),
    "links": ("link between switches", "links between switches"),
    "planes": ("plane", "planes"),
    "failed": ("failed link or switch", "failed links and switches"),
    "jobs": ("job", "jobs"),
    "flow_plans": ("flow plan", "flow plans"),
}


def _lines(finding: Finding) -> list[str]:
    if finding.problems:
        return list(finding.problems)
    counted = ", ".join(
        f"{count:,} {_WORDS[key][count != 1]}" for key, count in finding.counts.items() if count or key != "failed"
    )
    more = (f" ({finding.note})" if finding.note else "") + (f"; {finding.ports}" if finding.ports else "")
    lines = [f"{finding.file}: sound: {counted}{more}"]
    planes = [one for one in finding.cut_off if one.other_plane]
    if planes:
        what = f"{len(planes):,} NICs are in another plane than the rest, the first is {planes[0].nic}"
        lines.append(f"{finding.file}: the fabric has several planes: {what}; {planes[0].why}")
    others = [one for one in finding.cut_off if not one.other_plane]
    where = " in a plane" if "planes" in finding.counts else ""
    lines += [
        f"{finding.file}: host {one.host} is cut off{where}: NIC {one.nic} does not reach all others, {one.why}"
        for one in others[:MAX_LINES]
    ]
    if len(others) > MAX_LINES:
        lines.append(f"{finding.file}: (+{len(others) - MAX_LINES} more)")
    return lines


def _as_json(finding: Finding) -> dict[str, object]:
    return {
        "file": finding.file,
        "kind": finding.kind,
        "sound": not finding.problems,
        "problems": list(finding.problems),
        "cut_off": [
            {key: value for key, value in one._asdict().items() if key != "other_plane" or value}
            for one in finding.cut_off
        ],
        **finding.counts,
        **({"note": finding.note} if finding.note else {}),
        **({"ports": finding.ports} if finding.ports else {}),
    }
