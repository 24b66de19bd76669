"""The ways back: which paths acknowledgements and congestion notifications take.

They count as no load, yet a burst of them in one queue delays what the senders learn. So the number of reverse
streams on a link is balanced as if each were an equal flow. The mirror of the way out is the best way back wherever
it is as even as any (one failure then hits one set of flows, and both directions meet the same switches); elsewhere
the streams are routed anew as equal flows. Running jobs' streams stay where they are and count. The streams of one
job's different phases never run at once: as with loads, a job counts on a link by its most crowded phase there.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controller.model.job import JobRequest
from controller.planner.clos import Topology
from controller.planner.expand import Flows
from controller.planner.jit import Flags, Floats, Ints
from controller.planner.placed import Paths
from controller.planner.ports.pins import Streams, pinned_pairs, taken_along, tuple_keys
from controller.planner.proof.loads import heaviest_phases
from controller.planner.route import Router

A_STREAM_BPS = 1_000_000
"""What one stream counts where streams are routed as flows: small enough that millions of them add up exactly."""


def ways_back(
    router: Router, jobs: Sequence[JobRequest], old: Paths, running: Streams, new: Flows, hops: Ints, *, as_routed: bool
) -> Ints:  # fmt: skip
    """Return the ways back of the `new` flows on these `hops`; a pin by addresses takes answers along.

    `old` are the running jobs' flows, `running` their streams; `as_routed` says that the ways out are the router's.
    """
    mirror = router.topology.mirrored(hops)
    if as_routed and _all_alike(jobs, old, new):
        return mirror  # equal flows, routed all together over nothing else: another routing will do no better
    fixed = np.zeros(len(new), dtype=np.bool_)
    if pinned := pinned_pairs(router.topology, running, new, hops):
        pairs = tuple_keys(router.topology, new.dst_nic, new.src_nic, 0)
        fixed = np.isin(pairs, np.fromiter(pinned, dtype=np.int64))
        mirror = taken_along(pairs, mirror, pinned)
    return _evened(router, old, new, mirror, fixed)


def _all_alike(jobs: Sequence[JobRequest], old: Paths, new: Flows) -> bool:
    """Say whether equal flows were routed all together over nothing else."""
    if not len(new):
        return True
    alone = len(old.flows) == 0 and len({job.priority for job in jobs}) == 1 and bool((new.phase == new.phase[0]).all())
    return alone and not new.by_addresses.any() and bool((new.demand_bps == new.demand_bps[0]).all())


def _evened(router: Router, old: Paths, new: Flows, mirror: Ints, fixed: Flags) -> Ints:
    """Return the mirrored ways back, or more even ones for rows that are not `fixed`."""
    topology = router.topology
    taken = stream_counts(topology, old.flows, old.reverse_hops)
    crowd = taken + stream_counts(topology, new, mirror)
    if _fullest(topology, crowd) <= _goal(router, old.flows, new):
        return mirror
    free = ~fixed
    answers = replace(
        new.rows(free),
        src_nic=new.dst_nic[free],
        dst_nic=new.src_nic[free],
        demand_bps=np.full(int(free.sum()), A_STREAM_BPS, dtype=np.int64),
    )
    if not len(answers):
        return mirror
    base = (taken + stream_counts(topology, new.rows(fixed), mirror[fixed])) * A_STREAM_BPS
    none = np.full(len(answers), -1, dtype=np.int64)
    found = router.route(answers, np.zeros(len(answers), dtype=np.int64), [(0, base)], none, {})
    reverse = mirror.copy()
    reverse[free] = found
    lost = ((found[:, 0] < 0) != (mirror[free, 0] < 0)).any()
    better = _fullest(topology, taken + stream_counts(topology, new, reverse)) < _fullest(topology, crowd)
    return reverse if better and not lost else mirror


def only_answers(topology: Topology, hops: Ints, reverse_hops: Ints) -> frozenset[str]:
    """Return the links of the ways back on cables that no way out uses."""
    cables = topology.cables
    used, answered = np.zeros(2 * cables + 1, dtype=np.bool_), np.zeros(2 * cables + 1, dtype=np.bool_)
    used[hops], answered[reverse_hops] = True, True  # what pads the rows, -1, marks the last
    either = used[:cables] | used[cables:-1]
    found = np.flatnonzero(answered[:-1] & ~np.concatenate((either, either)))
    return frozenset(topology.link_ids[link] for link in found.tolist())


def stream_counts(topology: Topology, flows: Flows, reverse: Ints) -> Floats:
    """Return how many reverse streams there are on every switch-to-switch link: a job by its most crowded phase."""
    return heaviest_phases(flows, reverse, topology.first_nic_link, np.ones(len(flows), dtype=np.int64))


def _fullest(topology: Topology, counts: Floats) -> float:
    """Return the most streams on a link, in proportion to what a link of its rate takes."""
    return float((counts / np.maximum(topology.capacity[: len(counts)], 1)).max(initial=0.0))


def _goal(router: Router, old: Flows, new: Flows) -> float:
    """Return what no ways back can beat: each leaf's and pod's streams, out and in, over its live links of one rate.

    On links of mixed rates the same over the fastest of them, which is less sharp.
    """
    topology, size = router.topology, len(router.topology.switch_ids)
    crossing = np.zeros(4 * size)
    for flows in (old, new):
        crossing += heaviest_phases(flows, _cuts(topology, flows), 4 * size, np.ones(len(flows), dtype=np.int64))
    alive = np.flatnonzero(router.live.links[: topology.cables])
    lower, upper = topology.lower[alive], topology.upper[alive]
    rising, leaving = topology.tier[lower] == 0, topology.tier[upper] == 2
    by_leaf = np.bincount(lower[rising], minlength=size)
    by_pod = np.bincount(topology.pod[lower[leaving]], minlength=size)
    links = np.concatenate((by_leaf, by_leaf, by_pod, by_pod))
    open_cuts = links > 0
    most = np.ceil(crossing[open_cuts] / links[open_cuts]).max(initial=0.0)
    return float(most / topology.cable_capacity[alive].max(initial=1))


def _cuts(topology: Topology, flows: Flows) -> Ints:
    """Return which cuts each flow's answers cross (-1: none): the leaf they leave and reach, the pod likewise."""
    size = len(topology.switch_ids)
    source, target = topology.nic_leaf[flows.dst_nic], topology.nic_leaf[flows.src_nic]
    apart = source != target
    crossed = [np.where(apart, source, -1), np.where(apart, target + size, -1)]
    if (topology.tier == 1).any():
        here, there = topology.pod[source], topology.pod[target]
        apart = here != there
        crossed += [np.where(apart, here + 2 * size, -1), np.where(apart, there + 3 * size, -1)]
    return np.column_stack(crossed).astype(np.int64)
