"""Choose the reverse paths, which ACKs and congestion notifications take.

They add no load, but a burst of them in one queue delays the feedback to the senders. So the number of reverse streams
per link is balanced as if each were an equal flow. The mirror of the forward path is kept where it is as even as any:
one failure then affects one set of flows, and both directions pass the same switches. Elsewhere the streams are routed
again as equal flows. The streams of running jobs keep their paths and count. Phases of one job never run at the same
time: as with loads, a job counts on a link with its phase of most streams there.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heddle.controller.model.job import JobRequest
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel
from heddle.controller.planner.ground.loads import heaviest_phases, layers_of
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.streams import Streams, tuple_keys
from heddle.controller.planner.ports.pins import pinned_pairs, taken_along
from heddle.controller.planner.route import Router

A_STREAM_BPS = 1_000_000
"""The demand of a stream that is routed as a flow: small enough that millions add up exactly."""


def reverse_paths(
    router: Router, jobs: Sequence[JobRequest], old: Paths, running: Streams, new: Flows, hops: Ints, *, as_routed: bool
) -> Ints:  # fmt: skip
    """Return the reverse hops of the `new` flows with these `hops`; a pin by addresses applies to ACKs too.

    `old` are the flows of running jobs, `running` their streams. `as_routed` is true if the router chose `hops`.
    """
    mirror = router.topology.mirrored(hops)
    if as_routed and _all_alike(jobs, old, new):
        return mirror  # equal flows routed together on an idle fabric: no other routing is better
    fixed = np.zeros(len(new), dtype=np.bool_)
    if pinned := pinned_pairs(router.topology, running, new, hops):
        pairs = tuple_keys(router.topology, new.dst_nic, new.src_nic, 0)
        fixed = np.isin(pairs, np.fromiter(pinned, dtype=np.int64))
        mirror = taken_along(pairs, mirror, pinned)
    return _evened(router, old, new, mirror, fixed)


def _all_alike(jobs: Sequence[JobRequest], old: Paths, new: Flows) -> bool:
    """Return whether all flows are equal and were routed together on an idle fabric."""
    if not len(new):
        return True
    alone = len(old.flows) == 0 and len({job.priority for job in jobs}) == 1 and bool((new.phase == new.phase[0]).all())
    return alone and not new.by_addresses.any() and bool((new.demand_bps == new.demand_bps[0]).all())


def _evened(router: Router, old: Paths, new: Flows, mirror: Ints, fixed: Flags) -> Ints:
    """Return the mirrored paths, or more even ones for the rows that are not `fixed`."""
    topology = router.topology
    taken = stream_counts(topology, old.flows, old.reverse_hops)
    crowd = taken + stream_counts(topology, new, mirror)
    if _fullest(topology, crowd) <= _goal(router, old.flows, new):
        return mirror
    free = ~fixed
    streams = replace(
        new.rows(free),
        src_nic=new.dst_nic[free],
        dst_nic=new.src_nic[free],
        demand_bps=np.full(int(free.sum()), A_STREAM_BPS, dtype=np.int64),
    )
    if not len(streams):
        return mirror
    base = (taken + stream_counts(topology, new.rows(fixed), mirror[fixed])) * A_STREAM_BPS
    none = np.full(len(streams), -1, dtype=np.int64)
    found = router.route(streams, np.zeros(len(streams), dtype=np.int64), [(0, base)], none, {})
    reverse = mirror.copy()
    reverse[free] = found
    strands = ((found[:, 0] < 0) != (mirror[free, 0] < 0)).any()
    better = _fullest(topology, taken + stream_counts(topology, new, reverse)) < _fullest(topology, crowd)
    return reverse if better and not strands else mirror


def reverse_only_links(topology: Topology, hops: Ints, reverse_hops: Ints) -> frozenset[str]:
    """Return the links of reverse paths on cables that no forward path uses."""
    cables = topology.cables
    used, reverse = np.zeros(2 * cables + 1, dtype=np.bool_), np.zeros(2 * cables + 1, dtype=np.bool_)
    used[hops], reverse[reverse_hops] = True, True  # the padding, -1, marks the last
    either = used[:cables] | used[cables:-1]
    found = np.flatnonzero(reverse[:-1] & ~np.concatenate((either, either)))
    return frozenset(topology.link_ids[link] for link in found.tolist())


def stream_counts(topology: Topology, flows: Flows, reverse: Ints) -> Floats:
    """Return the number of reverse streams on every link between switches: per job, of its phase with the most."""
    return heaviest_phases(flows, reverse, topology.first_nic_link, np.ones(len(flows), dtype=np.int64))


def _fullest(topology: Topology, counts: Floats) -> float:
    """Return the largest number of streams per link, divided by the rate of the link."""
    return float((counts / np.maximum(topology.capacity[: len(counts)], 1)).max(initial=0.0))


def _goal(router: Router, old: Flows, new: Flows) -> float:
    """Return a lower bound for `_fullest`: the streams of each leaf and pod, out and in, over its live links.

    With links of several rates, all count as the fastest, which makes the bound weaker.
    """
    topology, size = router.topology, len(router.topology.switch_ids)
    crossing = np.zeros(4 * size)
    for flows in (old, new):
        if layers_of(flows).one_per_job:
            _count(flows.dst_nic, flows.src_nic, topology.nic_leaf, topology.tier, topology.pod, crossing)
        else:
            crossing += heaviest_phases(flows, _cuts(topology, flows), 4 * size, np.ones(len(flows), dtype=np.int64))
    alive = np.flatnonzero(router.live.links[: topology.cables])
    lower, upper = topology.lower[alive], topology.upper[alive]
    rising, leaving = topology.tier[lower] == 0, topology.tier[upper] == 2
    by_leaf = np.bincount(lower[rising], minlength=size)
    by_pod = np.bincount(topology.pod[lower[leaving]], minlength=size)
    links = np.concatenate((by_leaf, by_leaf, by_pod, by_pod))
    open_cuts = links > 0
    streams = np.ceil(crossing[open_cuts] / links[open_cuts]).max(initial=0.0)
    return float(streams / topology.cable_capacity[alive].max(initial=1))


@bare_kernel
def _count(source: Ints, target: Ints, leaf: Ints, tier: Ints, pod: Ints, crossing: Floats) -> None:
    """Count the streams from `source` to `target` NICs at the cuts of `_cuts`."""
    size, middle = tier.shape[0], False
    for switch in range(size):
        middle = middle or tier[switch] == 1
    for f in range(source.shape[0]):
        here, there = leaf[source[f]], leaf[target[f]]
        if here != there:
            crossing[here] += 1
            crossing[size + there] += 1
        if middle and pod[here] != pod[there]:
            crossing[2 * size + pod[here]] += 1
            crossing[3 * size + pod[there]] += 1


def _cuts(topology: Topology, flows: Flows) -> Ints:
    """Return the cuts that the reverse stream of each flow crosses (-1: none): leaf out, leaf in, pod out, pod in."""
    size = len(topology.switch_ids)
    source, target = topology.nic_leaf[flows.dst_nic], topology.nic_leaf[flows.src_nic]
    apart = source != target
    crossed = [np.where(apart, source, -1), np.where(apart, target + size, -1)]
    if (topology.tier == 1).any():
        here, there = topology.pod[source], topology.pod[target]
        apart = here != there
        crossed += [np.where(apart, here + 2 * size, -1), np.where(apart, there + 3 * size, -1)]
    return np.column_stack(crossed).astype(np.int64)
