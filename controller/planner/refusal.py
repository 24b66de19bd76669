"""Explain in one line why there is no plan: the cause and a remedy."""

import numpy as np

from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints

MAX_NAMED = 3
MAX_FLOWS_NAMED = 5


def flow_id(job_ids: list[str], flows: Flows, row: int) -> str:
    """Return the contract's id of a flow."""
    ranks = f"{flows.src_rank[row]}-{flows.dst_rank[row]}"
    return f"{job_ids[flows.job[row]]}/{flows.collective[row]}/{ranks}/{flows.queue_pair[row]}"


def dead_nic(topology: Topology, live: Live, job_ids: list[str], flows: Flows) -> str | None:
    """Return which flows end at NICs that are out of use, and these NICs; None if no flow does."""
    dead = ~live.links[topology.first_nic_link : topology.first_nic_link + topology.nics]
    cut_off = without_other_plane(topology, flows, _at_dead_nic(topology, live, flows))
    if not len(cut_off):
        return None
    ends = np.column_stack((flows.src_nic[cut_off], flows.dst_nic[cut_off])).ravel()
    nics = [
        f"NIC {topology.nic_ids[nic]} or its leaf {topology.switch_ids[topology.nic_leaf[nic]]}"
        for nic in _in_order(ends[dead[ends]])
    ]
    return (
        f"{_stranded(job_ids, flows, cut_off)}: out of use is {_listed(nics)}; bring it back or leave that NIC out "
        "of the job's ranks"
    )


def no_path(topology: Topology, live: Live, job_ids: list[str], flows: Flows, hops: Ints) -> str | None:
    """Return which flows have no live path, the leaves on both sides and the cut between them; None if all have one."""
    source, target = topology.nic_leaf[flows.src_nic], topology.nic_leaf[flows.dst_nic]
    pathless = (source != target) & (hops[:, 0] < 0)
    stranded = without_other_plane(topology, flows, pathless | _at_dead_nic(topology, live, flows))
    stranded = stranded[pathless[stranded]]
    if not len(stranded):
        return None
    pairs = np.column_stack((source[stranded], target[stranded]))
    here, there = _sides(topology, live, pairs)
    whole = len(here) == len(there) == 1
    names = topology.switch_ids
    sides = [_listed([names[leaf] for leaf in side]) for side in (here, there)]
    apart = f"{sides[0]} and {sides[1]}" if whole else f"any of {sides[0]} with any of {sides[1]}"
    return f"{_stranded(job_ids, flows, stranded)}: no live path joins {apart}{_cut(topology, live, here, there)}"


def _at_dead_nic(topology: Topology, live: Live, flows: Flows) -> Flags:
    """Return whether each flow begins or ends at a NIC that is out of use."""
    dead = ~live.links[topology.first_nic_link : topology.first_nic_link + topology.nics]
    return np.asarray(dead[flows.src_nic] | dead[flows.dst_nic])


def without_other_plane(topology: Topology, flows: Flows, without: Flags) -> Ints:
    """Return which of the flows `without` a path have none in another plane either.

    The parts of a flow in several planes join the same ranks.
    """
    rows = np.flatnonzero(without)
    if not len(rows) or topology.ports_of_rank is None:
        return rows
    ends = np.stack((flows.job, flows.collective, flows.phase, flows.src_rank, flows.dst_rank))
    _, flow = np.unique(ends, axis=1, return_inverse=True)
    flow = flow.reshape(-1)
    carried = np.zeros(len(flows), dtype=np.bool_)
    carried[flow[~without]] = True
    return rows[~carried[flow[rows]]]


def _stranded(job_ids: list[str], flows: Flows, rows: Ints) -> str:
    """Return the number of flows without a path and the ids of the first ones."""
    named = [flow_id(job_ids, flows, int(row)) for row in rows[: MAX_FLOWS_NAMED + 1]]
    return f"{len(rows)} flow(s) have no path, {_listed(named, len(rows), MAX_FLOWS_NAMED)}"


def _listed(names: list[str], count: int | None = None, limit: int = MAX_NAMED) -> str:
    """Return the first names, and how many more there are."""
    more = (len(names) if count is None else count) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def _in_order(numbers: Ints) -> list[int]:
    """Return each number once, in the order of first occurrence."""
    return list(dict.fromkeys(numbers.tolist()))


def _sides(topology: Topology, live: Live, pairs: Ints) -> tuple[list[int], list[int]]:
    """Split the leaves of stranded flows into two sides, no pair of which has a live path.

    The second side is what the leaf with the most stranded flows cannot reach. The first is that leaf and those that
    it reaches and that reach none of the second. Reachability is not transitive, so a leaf may be on neither side.
    """
    leaves, counts = np.unique(pairs, return_counts=True)
    alone = int(leaves[np.argmax(counts)])
    partners = np.unique(pairs[(pairs == alone).any(axis=1)])
    there = partners[partners != alone]
    alive = live.links[: topology.cables]
    near = _below(topology, alive, _above(topology, alive, np.array([alone])))
    far = _below(topology, alive, _above(topology, alive, there))
    here = [alone, *(leaf for leaf in leaves.tolist() if leaf != alone and near[leaf] and not far[leaf])]
    return sorted(here), there.tolist()


def _above(topology: Topology, cables: Flags, leaves: Ints) -> Flags:
    """Return which switches are reachable upwards from the leaves, the leaves included."""
    marked = np.zeros(len(topology.switch_ids), dtype=np.bool_)
    marked[leaves] = True
    for tier in (0, 1):
        rising = cables & (topology.tier[topology.lower] == tier) & marked[topology.lower]
        marked[topology.upper[rising]] = True
    return marked


def _below(topology: Topology, cables: Flags, marked: Flags) -> Flags:
    """Return which switches are reachable downwards from the marked ones, the marked ones included."""
    marked = marked.copy()
    for tier in (1, 0):
        falling = cables & (topology.tier[topology.lower] == tier) & marked[topology.upper]
        marked[topology.lower[falling]] = True
    return marked


def _cut(topology: Topology, live: Live, here: list[int], there: list[int]) -> str:
    """Return what is out of use between two sets of leaves: each path of the whole fabric uses some of it.

    No switch above one side over live cables is also above the other. So each path between them leaves the switches
    above one side, upwards or seen from its end, over a cable that is out of use. The cables of one side are enough
    where no path reaches its top before.
    """
    alive, built = live.links[: topology.cables], np.ones(topology.cables, dtype=np.bool_)
    sides = [np.array(side) for side in (here, there)]
    up = [_above(topology, alive, side) for side in sides]
    could = [_above(topology, built, side) for side in sides]
    cuts = [
        np.flatnonzero(
            ~alive & up[a][topology.lower] & ~up[a][topology.upper] & _towards(topology, could[b])[topology.upper]
        )
        for a, b in ((0, 1), (1, 0))
    ]
    meets = [bool((up[a] & could[b]).any()) for a, b in ((0, 1), (1, 0))]
    cut = cuts[0] if not meets[0] else cuts[1] if not meets[1] else np.union1d(cuts[0], cuts[1])
    named = _in_use_again(topology, live, cut)
    if not named:
        return _planes(topology, sides) or "; the fabric has no cables between them: add some"
    return f"; the cut is {_listed(named)} (out of use): bring one back"


def _planes(topology: Topology, sides: list[Ints]) -> str:
    """Return that the two sides are planes, which share hosts and no cables; empty if no host has a NIC on both."""
    here, there = (np.isin(topology.nic_leaf, side) for side in sides)
    shared = set(topology.nic_host[here].tolist()) & set(topology.nic_host[there].tolist())
    if not shared:
        return ""
    nics = [np.flatnonzero((topology.nic_host == min(shared)) & side)[0] for side in (here, there)]
    names = " and ".join(topology.nic_ids[nic] for nic in nics)
    return f"; they are in two planes, in which one host has {names}: give the job ranks of one plane"


def _towards(topology: Topology, could: Flags) -> Flags:
    """Return which switches are, or are below, one of those that could be above the other side."""
    return _below(topology, np.ones(topology.cables, dtype=np.bool_), could)


def _in_use_again(topology: Topology, live: Live, cables: Ints) -> list[str]:
    """Return what to bring back for these cables: the switch above if it is out of use, else the cable."""
    return list(
        dict.fromkeys(
            topology.switch_ids[above]
            if live.switches is not None and not live.switches[above]
            else topology.cable_ids[cable]
            for cable, above in zip(cables.tolist(), topology.upper[cables].tolist(), strict=True)
        )
    )


def too_full(job_id: str, wanted: float, found: float, link: str, bound: float) -> str:
    """Explain that a link of a job would exceed its `require_utilisation`, and what would help."""
    proof = (
        f"no plan can go below {bound:.3f}"
        if bound > wanted
        else "more queue pairs per flow would split its load more evenly"
    )
    return (
        f"job {job_id}: link {link} would be used at {found:.3f} of its rate, require_utilisation is {wanted:g}; "
        f"{proof}: lower the demand, release a job that shares the link, or accept {found:.3f}"
    )
