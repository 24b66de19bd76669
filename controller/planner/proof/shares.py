"""Compute the shares of jobs: of the max-min fair shares of a job's flows, the mean and the worst."""

from typing import NamedTuple

import numpy as np

from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Floats, Ints, bare_kernel
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.proof.fluid import Crossings, fair_shares, planned_rates

FALLS = 1e-9
"""A share that falls by less is the same: shares are quotients of floats."""


class Shares(NamedTuple):
    """The mean and the worst share of each job, in the order of the session."""

    mean: Floats
    worst: Floats

    def falls_below(self, other: "Shares") -> bool:
        """Return whether any job has less than in `other`."""
        return any((mine < (1 - FALLS) * theirs).any() for mine, theirs in zip(self, other, strict=True))

    def rises_above(self, other: "Shares") -> bool:
        """Return whether any job has more than in `other`."""
        return other.falls_below(self)


def shares_of(
    topology: Topology, flows: Flows, hops: Ints, jobs: int, *, loads: Floats | None = None,
    crossings: Crossings | None = None,
) -> Shares:  # fmt: skip
    """Return the shares of `jobs` jobs, numbered from 0; a flow without a path counts with the path that it lacks: 0.

    Those of a job without flows are 0 on average and 1 at worst. Where flows are sprayed, `crossings` are the parts of
    them that cross each link, and `loads` the loads of links in bit/s.
    """
    loads = link_loads(topology, flows, hops) if loads is None else loads
    rates = planned_rates(topology, flows, hops, loads, crossings=crossings)
    shares = fair_shares(topology, flows, hops, loads, rates, crossings)
    leaf, total, worst, count = topology.nic_leaf, np.zeros(jobs), np.ones(jobs), np.zeros(jobs, dtype=np.int64)
    lacks = (hops[:, 0] < 0) & (leaf[flows.src_nic] != leaf[flows.dst_nic])
    _gather(flows.job, lacks, shares, total, worst, count)
    return Shares(total / np.maximum(count, 1), worst)


@bare_kernel
def _gather(job: Ints, lacks: Flags, shares: Floats, total: Floats, worst: Floats, count: Ints) -> None:
    """Add up the shares of each job's flows, count them and take the worst; flows that lack a path have none."""
    for f in range(job.shape[0]):
        share = 0.0 if lacks[f] else shares[f]
        total[job[f]] += share
        worst[job[f]] = min(worst[job[f]], share)
        count[job[f]] += 1
