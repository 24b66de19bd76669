"""`heddle export ns3`, `heddle export chakra` and `heddle job import`: files of simulators."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

import numpy as np

from heddle.controller.config.load import check_requests, load_fabric, load_jobs
from heddle.controller.config.text.complaint import one_line
from heddle.controller.config.write import request_document
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import Live, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.refusal import dead_nic, no_path
from heddle.controller.simulators import hpcc
from heddle.controller.simulators.chakra import read_nodes, written
from heddle.controller.simulators.workload import traces_of, workload_of
from heddle.foundation.network import Network

MAX_TRACE_BYTES = 512_000_000
"""Of all ranks' traces together."""


def export_ns3(fabric_path: Path, jobs_path: Path | None, folder: Path, *, delay_ns: int, out: TextIO) -> None:
    """Write topology.txt, names.txt and, with jobs, flow.txt into a folder; raises InputError before any is written."""
    fabric = load_fabric(fabric_path)
    files = {
        "topology.txt": "".join(f"{line}\n" for line in hpcc.topology_lines(fabric, delay_ns)),
        "names.txt": "".join(f"{line}\n" for line in hpcc.name_lines(fabric)),
    }
    if jobs_path is not None:
        flows = _flows(fabric, load_jobs(jobs_path, fabric))
        files["flow.txt"] = "".join(f"{line}\n" for line in hpcc.flow_lines(flows, 0))
    _write(folder, {name: text.encode() for name, text in files.items()})
    out.write(f"{folder}: {', '.join(sorted(files))}\n")


def _flows(fabric: Fabric, jobs: tuple[JobRequest, ...]) -> list[hpcc.SizedFlow]:
    """Return the queue pairs of all jobs' first phases; raises InputError for one without bytes, or without a path."""
    topology = topology_of(fabric)
    live = Live.of(topology, fabric.failed)
    flows = _with_a_path(topology, live, [job.job_id for job in jobs], expand(topology, jobs, live=live))
    first: dict[int, int] = {}
    for job, phase in zip(flows.job.tolist(), flows.phase.tolist(), strict=True):
        first[job] = min(first.get(job, phase), phase)
    columns = (flows.job, flows.phase, flows.src_nic, flows.dst_nic, flows.size_bytes)
    found = []
    for job, phase, src_nic, dst_nic, size_bytes in zip(*(each.tolist() for each in columns), strict=True):
        if phase != first[job]:
            continue
        if not size_bytes:
            raise InputError(f"job {jobs[job].job_id}: a collective has no bytes; a simulator needs the size of a flow")
        found.append(hpcc.SizedFlow(src_nic, dst_nic, max(1, round(size_bytes))))
    return found


def _with_a_path(topology: Topology, live: Live, job_ids: list[str], flows: Flows) -> Flows:
    """Return the flows but for parts in planes where no path is left; raises InputError for a flow without any."""
    port_in_use = live.links[topology.first_nic_link :][: topology.nics]
    pathless = ~(port_in_use[flows.src_nic] & port_in_use[flows.dst_nic])
    if live.reach is not None:
        here, there = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
        pathless |= (here != there) & ~live.reach[here, there]
    why = dead_nic(topology, live, job_ids, flows) or no_path(
        topology, live, job_ids, flows, np.where(pathless, -1, 0)[:, None]
    )
    if why:
        raise InputError(why)
    return flows.rows(~pathless)


def export_chakra(fabric_path: Path, jobs_path: Path, folder: Path, out: TextIO) -> None:
    """Write JOB.RANK.et for every job and rank into a folder; raises InputError before any is written."""
    jobs = load_jobs(jobs_path, load_fabric(fabric_path))
    files: dict[str, bytes] = {}
    for job in jobs:
        try:
            traces = traces_of(job.collectives, len(job.ranks))
        except InputError as error:
            raise InputError(f"{one_line(str(jobs_path))}: job {job.job_id}: {error}") from None
        files |= {f"{job.job_id}.{rank}.et": written(nodes) for rank, nodes in enumerate(traces)}
    _write(folder, files)
    out.write(f"{folder}: {len(files)} traces of {len(jobs)} jobs\n")


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)
    except OSError as error:
        raise InputError(f"{one_line(str(folder))}: {error.strerror}") from None


def import_traces(fabric_path: Path, prefix: Path, job_id: str, out: TextIO, notes: TextIO) -> None:
    """Write a jobs file with one job of what PREFIX.0.et, PREFIX.1.et ... send; raises InputError.

    Rank r has the r-th compute NIC of the fabric. What is left out is counted on `notes`.
    """
    fabric = load_fabric(fabric_path)
    paths = _traces(prefix)
    nics = [name for name, ports in fabric.ports_of.items() if ports[0].network is Network.COMPUTE]
    if len(paths) > len(nics):
        raise InputError(f"{one_line(str(prefix))}: {len(paths)} ranks, the fabric has {len(nics)} compute NICs")
    found = workload_of([read_nodes(path.read_bytes(), path.name) for path in paths], [path.name for path in paths])
    job = JobRequest(job_id=job_id, ranks=tuple(nics[: len(paths)]), collectives=found.collectives)
    check_requests(one_line(str(prefix)), "jobs", (job,), fabric)
    json.dump({"version": 1, "jobs": [request_document(job)]}, out, indent=1)
    out.write("\n")
    for words, count in found.left_out.items():
        print(f"left out: {count:,} x {words}", file=notes)


def _traces(prefix: Path) -> list[Path]:
    """Return the traces of ranks 0, 1, 2 ...; raises InputError where rank 0 is missing, or all are too large."""
    found: list[Path] = []
    while (path := prefix.with_name(f"{prefix.name}.{len(found)}.et")).is_file():
        found.append(path)
    if not found:
        raise InputError(f"{one_line(str(path))}: is no file; traces are called PREFIX.0.et, PREFIX.1.et ...")
    if sum(path.stat().st_size for path in found) > MAX_TRACE_BYTES:
        raise InputError(f"{one_line(str(prefix))}: more than {MAX_TRACE_BYTES // 10**6:,} MB of traces")
    return found
