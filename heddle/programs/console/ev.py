"""`heddle export ev`: path sets as lists of entropy values, SRv6 addresses, or path numbers of htsim."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from heddle.controller.config.load import load_fabric, load_jobs
from heddle.controller.config.text.complaint import one_line
from heddle.controller.model.address import ipv6_text
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.plan import FlowPlan, SetPath
from heddle.controller.model.srv6 import sids_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import LEAST_BPS
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.spread.explicit import path_set
from heddle.controller.simulators.htsim import SprayedFlow, matrix_lines, path_lines
from heddle.library.solving import Kept, solved


class _Entries(NamedTuple):
    """A flow, its bytes per iteration, and the path of each entry; other flows of its collective have `denied` ones.

    A part in a plane with nothing left has denied ones alone.
    """

    flow: FlowPlan
    size_bytes: int
    paths: tuple[SetPath, ...]
    denied: tuple[SetPath, ...]


def export_ev(fabric_path: Path, jobs_path: Path, form: str, folder: Path | None, out: TextIO) -> None:
    """Plan the jobs and write the lists of their flows: to `out`, of htsim into a folder; raises HeddleError."""
    fabric = load_fabric(fabric_path)
    writers: Mapping[str, Callable[[Fabric, list[_Entries]], dict[str, str]]] = {
        "json": _json, "sids": _sids, "htsim": _htsim,
    }  # fmt: skip
    if form == "htsim" and folder is None:
        raise InputError("--format htsim writes two files: name their folder with -o DIR")
    if form != "htsim" and folder is not None:
        raise InputError(f"--format {form} writes to standard output: leave out -o")
    plan = solved(fabric, load_jobs(jobs_path, fabric), Kept((), {}), compare=False).plan
    flows = [each for job in plan.jobs for each in _lists(fabric, job.flows.flows)]
    if not any(each.flow.entries for each in flows):
        raise InputError(
            f"{one_line(str(jobs_path))}: no flow is sprayed: set paths_per_flow of a collective or of NICs"
        )
    files = writers[form](fabric, flows)
    if folder is None:
        out.writelines(files.values())
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    except OSError as error:
        raise InputError(f"{one_line(str(folder))}: {error.strerror}") from None
    out.write(f"{folder}: {', '.join(sorted(files))} of {len(flows)} flows\n")


def _lists(fabric: Fabric, flows: Any) -> Iterator[_Entries]:
    """Yield every flow of a job with its list; the path of one that is not sprayed is an entry."""
    assert isinstance(flows, FlowTable)
    topology = topology_of(fabric)
    known: dict[int, dict[int, None]] = {}  # by collective the entries of all its lists, in order
    for flow in flows:
        known.setdefault(flow.collective, {}).update(dict.fromkeys(flow.entries))
    for row, flow in enumerate(flows):
        size_bytes = round(float(flows.flows.size_bytes[row]))
        nothing_left = topology.ports_of_rank is not None and flows.flows.demand_bps[row] <= LEAST_BPS
        if not flow.entries:
            alone = (SetPath(flow.links, 1, flow.udp_source_port),)
            yield _Entries(flow, size_bytes, () if nothing_left else alone, alone if nothing_left else ())
            continue
        paths, order = path_set(fabric, topology, flow)
        beside = tuple(each for each in known[flow.collective] if each not in flow.entries)
        denied = path_set(fabric, topology, replace(flow, entries=beside)).paths if beside else ()
        if nothing_left:
            yield _Entries(flow, size_bytes, (), (*paths, *denied))
        else:
            yield _Entries(flow, size_bytes, tuple(paths[each] for each in order), denied)


def _json(fabric: Fabric, flows: list[_Entries]) -> dict[str, str]:
    """Return the lists by sending NIC, in the nouns that NICs which spray have for them."""
    sids = sids_of(fabric)

    def entry(flow: FlowPlan, path: SetPath, state: str) -> dict[str, object]:
        value = path.udp_source_port if sids is None else ipv6_text(sids.destination(path.links, flow.dst_nic))
        return {"value": value, "port": fabric.nic_by_id[flow.src_nic].plane, "state": state}

    nics: dict[str, list[dict[str, object]]] = {}
    for flow, _, paths, denied in flows:
        entries = [entry(flow, path, "ACTIVE") for path in paths] + [entry(flow, path, "DENIED") for path in denied]
        profile = {
            "flow_id": flow.flow_id, "destination": flow.dst_nic, "rate_bps": flow.rate_bps, "mode": "explicit",
            "format": "udp_source_port" if sids is None else "ipv6_destination", "entries": entries,
        }  # fmt: skip
        nics.setdefault(fabric.nic_by_id[flow.src_nic].rank, []).append(profile)
    return {"ev.json": json.dumps({"fabric": fabric.name, "nics": nics}, indent=1) + "\n"}


def _sids(fabric: Fabric, flows: list[_Entries]) -> dict[str, str]:
    """Return a line for each entry: the sending NIC, the flow, and the address of the path as a /128."""
    sids = sids_of(fabric)
    if sids is None:
        raise InputError("packets name no paths in this fabric: --format sids needs `steering: srv6`")
    lines = (
        f"{flow.src_nic} {flow.flow_id} {ipv6_text(sids.destination(path.links, flow.dst_nic))}/128\n"
        for flow, _, paths, _ in flows
        for path in paths
    )
    return {"ev.txt": "".join(lines)}


def _htsim(fabric: Fabric, flows: list[_Entries]) -> dict[str, str]:
    sprayed = [
        SprayedFlow(flow.src_nic, flow.dst_nic, size_bytes, [path.links for path in paths])
        for flow, size_bytes, paths, _ in flows
        if paths
    ]
    return {
        "paths.txt": "".join(f"{line}\n" for line in path_lines(fabric, sprayed)),
        "flows.cm": "".join(f"{line}\n" for line in matrix_lines(fabric, sprayed)),
    }
