"""Compute the certificate of a plan: its utilisation, the lower bound and the ECMP figures."""

from typing import NamedTuple

import numpy as np

from heddle.controller.model.plan import Certificate
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel
from heddle.controller.planner.ground.segments import Segments
from heddle.controller.planner.proof.bound import Bound, lower_bound
from heddle.controller.planner.proof.deadlock import deadlock_free
from heddle.controller.planner.proof.fluid import ROUNDING
from heddle.controller.planner.proof.lengths import bound_by_lengths
from heddle.controller.planner.proof.splittable import splittable_bound


def certify(
    topology: Topology, live: Live, flows: Flows, paths: tuple[Ints, Ints], used: Floats, shares: Floats,
    hashed: tuple[float, float], split: Flags | None = None, segments: Segments | None = None,
) -> Certificate:  # fmt: skip
    """Return the certificate of a plan with these forward and reverse paths.

    `used` is the utilisation of every directed link, `shares` has the share of every flow, `hashed` are the figures of
    ECMP and E-ECMP, `split` marks flows with several paths, where there are any, over the live `segments`. Of equally
    full links or NICs the certificate names the first in the fabric's order, and none where there is no traffic. Flows
    on failed links do not count for the lower bound: they load no live link, and may have no path.
    """
    switch_links, nic_links = used[: topology.first_nic_link], used[topology.first_nic_link :]
    carried = slice(None) if live.whole else _carried(live, flows, paths[0])
    if split is None:
        bound = lower_bound(topology, live, flows if live.whole else flows.rows(carried))
    else:
        bound = splittable_bound(topology, live, flows.rows(carried), split[carried])
        if segments is not None and switch_links.max(initial=0.0) > bound.value * (1 + ROUNDING):
            by_lengths = bound_by_lengths(topology, segments, flows.rows(carried), switch_links)
            bound = Bound(by_lengths, "lp") if by_lengths > bound.value * (1 + ROUNDING) else bound
    ecmp, e_ecmp = hashed
    worst, worst_nic = float(switch_links.max(initial=0.0)), float(nic_links.max(initial=0.0))
    return Certificate(
        max_link_utilisation=worst,
        lower_bound=bound.value,
        lower_bound_kind=bound.kind,
        ecmp_max_link_utilisation=ecmp,
        e_ecmp_max_link_utilisation=e_ecmp,
        bottleneck_link=topology.link_ids[int(switch_links.argmax())] if worst > 0 else "",
        deadlock_free=deadlock_free(topology, paths),
        max_nic_utilisation=worst_nic,
        bottleneck_nic=topology.nic_ids[int(nic_links.argmax()) % topology.nics] if worst_nic > 0 else "",
        **share_summary(shares)._asdict(),
        links_over_capacity=int((switch_links > 1 + ROUNDING).sum()),
    )


def _carried(live: Live, flows: Flows, hops: Ints) -> Flags:
    """Return which flows have a path of live links, from NIC to NIC."""
    links, first = np.append(live.links, True), live.topology.first_nic_link
    return np.asarray(links[hops].all(axis=1) & links[first + flows.src_nic] & links[first + flows.dst_nic])


class ShareSummary(NamedTuple):
    """The shares of some flows in three figures; 0, 1 and 1 without flows."""

    flows_slowed: int
    mean_share: float
    worst_share: float


def share_summary(shares: Floats) -> ShareSummary:
    """Summarise the shares of some flows, as `fair_shares` returns them."""
    mean = float(shares.mean()) if len(shares) else 1.0
    return ShareSummary(int((shares < 1).sum()), mean, float(shares.min(initial=1.0)))


def own_utilisations(
    job: Ints, hops: Ints, used: Floats, jobs: int, fullest: Floats | None = None
) -> list[float]:  # fmt: skip
    """Return the largest utilisation of the links between switches that each job's paths use; `job` rises.

    `fullest` is that of each flow, where the caller has it.
    """
    found = np.zeros(jobs)
    if len(job):
        if fullest is None:
            fullest = np.empty(len(hops))
            _read_fullest(np.ascontiguousarray(hops), used, fullest)
        begins = np.flatnonzero(np.diff(job, prepend=-1))
        found[job[begins]] = np.maximum.reduceat(fullest, begins)
    return [float(value) for value in found]


@bare_kernel
def _read_fullest(hops: Ints, used: Floats, fullest: Floats) -> None:
    """Write the utilisation of the fullest link of each path; 0 for a path without links."""
    for f in range(hops.shape[0]):
        fullest[f] = 0.0
        for step in range(hops.shape[1]):
            if hops[f, step] >= 0:
                fullest[f] = max(fullest[f], used[hops[f, step]])


def own_utilisation(topology: Topology, hops: Ints, used: Floats) -> tuple[float, str]:
    """Return the largest utilisation of the links between switches that these paths use, and the id of that link."""
    crossed = np.zeros(topology.first_nic_link + 1, dtype=np.bool_)
    crossed[hops] = True
    links = np.flatnonzero(crossed[:-1])  # the padding, -1, marks the last
    if not len(links):
        return 0.0, ""
    fullest = int(links[used[links].argmax()])
    return float(used[fullest]), topology.link_ids[fullest]
