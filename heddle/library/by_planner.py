"""Let an installed planner choose the paths of a draft."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from heddle.controller.planner.beside import priorities
from heddle.controller.planner.gone import staying
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Topology, topology_of
from heddle.controller.planner.ground.expand import Flows, expand, joined_flows
from heddle.controller.planner.ground.flow_table import path_links
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.paths import Paths
from heddle.controller.planner.ground.placed import Placed, placed_paths, with_guards
from heddle.controller.planner.ports.pins import bundles, given_paths
from heddle.controller.planner.solve import Chosen, Draft
from heddle.planners.installed import LIMIT_S, run
from heddle.planners.problem import Demand, Problem, Running


class Foreign(NamedTuple):
    """An installed planner by name, and how many seconds it may take."""

    name: str
    limit_s: float = LIMIT_S


class ChosenBy(NamedTuple):
    """What a planner has chosen, and the processor time in seconds that it took."""

    chosen: Chosen
    processor_s: float


def chosen_by(
    planner: Foreign, fabric: Fabric, requests: Sequence[JobRequest], kept: Sequence[Placed], ours: Draft, *,
    replan_dead: bool,
) -> ChosenBy:  # fmt: skip
    """Return the hops that a planner chooses for new flows, and for kept ones on failed links if they are replanned.

    `ours` is our own draft of the same: flows without a live path in it, parts in a plane that is gone, are not the
    planner's. Raises InputError for a planner that is not installed, PlannerError where it fails.
    """
    topology = topology_of(fabric)
    jobs, live = [*(request for request, _ in kept), *requests], ours.router.live
    old, new = placed_paths(topology, kept), expand(topology, requests, first_job=len(kept), live=live)
    moved: Flags = np.zeros(len(old.flows), dtype=np.bool_)
    if replan_dead:
        moved = ~staying(topology, live, old)
    chosen = np.append(moved, np.ones(len(new), dtype=np.bool_))
    wanted, there = joined_flows((old.flows, new)).rows(chosen), ours.whole.alive(live)[chosen]
    stay = old.rows(~moved)
    streams = with_guards(stay.streams(topology), topology, kept)
    bundle = bundles(topology, streams, wanted, priorities(jobs)[wanted.job])
    problem = Problem(
        fabric=fabric,
        demands=demands_of(topology, jobs, wanted.rows(there), bundle[there]),
        running=_running(topology, jobs, stay),
    )
    found = run(planner.name, problem, planner.limit_s)
    hops = np.full((len(wanted), MAX_HOPS), NO_LINK, dtype=np.int64)
    hops[there] = hops_of(topology, [found.paths[demand.flow_id] for demand in problem.demands])
    for key, path in given_paths(streams, bundle).items():  # switches cannot distinguish these from a running flow
        hops[bundle == key] = path
    return ChosenBy(Chosen(hops=hops, moved=moved if replan_dead else None, as_given=True), found.processor_s)


def _running(topology: Topology, jobs: Sequence[JobRequest], paths: Paths) -> tuple[Running, ...]:
    flows = paths.flows
    demands = demands_of(topology, jobs, flows, np.full(len(flows), -1, dtype=np.int64))
    ends = zip(flows.src_nic.tolist(), flows.dst_nic.tolist(), strict=True)
    return tuple(
        Running(demand=demand, links=path_links(topology, source, hops, target))
        for demand, hops, (source, target) in zip(demands, paths.hops, ends, strict=True)
    )


def demands_of(
    topology: Topology, jobs: Sequence[JobRequest], flows: Flows, bundle: Ints
) -> tuple[Demand, ...]:  # fmt: skip
    """Return flows as a planner of others gets them, in the same order; `bundle` has -1 for a flow in none."""
    columns = (flows.job, flows.collective, flows.src_rank, flows.dst_rank, flows.queue_pair, flows.phase)
    ends = (flows.src_nic, flows.dst_nic, flows.demand_bps, bundle)
    nics, found = topology.nic_ids, []
    for job, collective, a, b, pair, phase, source, target, demand, key in zip(
        *(column.tolist() for column in (*columns, *ends)), strict=True
    ):
        found.append(
            Demand(
                flow_id=f"{jobs[job].job_id}/{collective}/{a}-{b}/{pair}",
                job_id=jobs[job].job_id,
                src_nic=nics[source],
                dst_nic=nics[target],
                demand_bps=demand,
                phase=phase,
                priority=jobs[job].priority,
                bundle=str(key) if key >= 0 else "",
            )
        )
    return tuple(found)


def hops_of(topology: Topology, paths: Sequence[Sequence[str]]) -> Ints:
    """Return the links between switches of checked paths, a row each."""
    hops = np.full((len(paths), MAX_HOPS), NO_LINK, dtype=np.int64)
    for row, links in enumerate(paths):
        inner = [topology.link_index[link] for link in links[1:-1]]
        hops[row, : len(inner)] = inner
    return hops
