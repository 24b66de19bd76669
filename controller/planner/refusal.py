"""Why there is no plan, in one line: what stands in the way and what would help."""

import numpy as np

from controller.planner.clos import Live, Topology
from controller.planner.expand import Flows
from controller.planner.jit import Ints

MOST_NAMED = 3


def flow_id(job_ids: list[str], flows: Flows, row: int) -> str:
    """Return the contract's id of a flow."""
    ranks = f"{flows.src_rank[row]}-{flows.dst_rank[row]}"
    return f"{job_ids[flows.job[row]]}/{flows.collective[row]}/{ranks}/{flows.queue_pair[row]}"


def dead_nic(topology: Topology, live: Live, job_ids: list[str], flows: Flows) -> str | None:
    """Name the first flow that ends at a NIC which is out of use."""
    if live.whole:
        return None
    alive = live.links[topology.first_nic_link : topology.first_nic_link + topology.nics]
    cut_off = np.flatnonzero(~(alive[flows.src_nic] & alive[flows.dst_nic]))
    if not len(cut_off):
        return None
    row = int(cut_off[0])
    nic = int(flows.dst_nic[row] if alive[flows.src_nic[row]] else flows.src_nic[row])
    leaf = topology.switch_ids[topology.nic_leaf[nic]]
    return (
        f"{len(cut_off)} flow(s), the first {flow_id(job_ids, flows, row)}, have no path: NIC {topology.nic_ids[nic]} "
        f"or its leaf {leaf} is out of use; bring it back or leave that NIC out of the job's ranks"
    )


def no_path(topology: Topology, live: Live, job_ids: list[str], flows: Flows, hops: Ints) -> str | None:
    """Name the first flow whose leaves nothing alive joins, and the cut."""
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    stranded = np.flatnonzero((source != target) & (hops[:, 0] < 0))
    if not len(stranded):
        return None
    row = int(stranded[0])
    leaf, other = int(source[row]), int(target[row])
    return (
        f"{len(stranded)} flow(s), the first {flow_id(job_ids, flows, row)}, have no path: no live way joins "
        f"{topology.switch_ids[leaf]} and {topology.switch_ids[other]}{_cut(topology, live, leaf, other)}"
    )


def _cut(topology: Topology, live: Live, leaf: int, other: int) -> str:
    """List what is out of use at the two leaves, or else anywhere."""
    dead = np.flatnonzero(~live.links[: topology.cables])
    near = dead[np.isin(topology.lower[dead], (leaf, other))]
    named = [topology.cable_ids[cable] for cable in (near if len(near) else dead)]
    if not named:
        return "; the fabric has no cables between them: add some"
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return f"; the cut is {', '.join(named[:MOST_NAMED])}{more} (out of use): bring one back"


def too_full(job_id: str, wanted: float, found: float, link: str, bound: float) -> str:
    """Say that a job's links would be fuller than it accepts."""
    proof = (
        f"no plan can go below {bound:.3f}"
        if bound > wanted
        else "more queue pairs per flow would split its load more evenly"
    )
    return (
        f"job {job_id}: link {link} would be used at {found:.3f} of its rate, require_utilisation is {wanted:g}; "
        f"{proof}: lower the demand, release a job that shares the link, or accept {found:.3f}"
    )
