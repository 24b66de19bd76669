"""Choose the list of every flow: the template of its job, without the paths that are out of use."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heddle.controller.model.error import InputError
from heddle.controller.model.job import Incast, JobRequest
from heddle.controller.planner.ground.clos import Live
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.path_sets import ALONE, PathSets
from heddle.controller.planner.ground.rotations import Rotations, rotations_of
from heddle.controller.planner.proof.splittable import splittable_bound
from heddle.controller.planner.spread.seats import greedy_paths, spaced_paths
from heddle.controller.planner.spread.sprayed import Sprayed
from heddle.controller.planner.spread.template import template
from heddle.controller.planner.spread.weights import weighed

NEAR = 1.001
"""Planned paths of sets this near to the bound stay."""
FAR = 1.02
"""Planned paths are chosen again, one after the other, where weights leave the fullest link this far from the bound."""


MAX_SEATED = 1_000_000
"""The limit of flows times paths for which planned paths are chosen again."""


def is_sprayed(jobs: Sequence[JobRequest]) -> bool:
    """Return whether any of these jobs has several paths a flow."""
    return any(one.paths_per_flow > 1 for job in jobs for one in job.collectives)


def without_turns(jobs: Sequence[JobRequest]) -> list[JobRequest]:
    """Return the jobs, of which sprayed ones never take turns: their senders share a receiver by rates."""
    return [replace(job, incast=Incast.RATES) if is_sprayed((job,)) else job for job in jobs]


def sprayed(
    live: Live, jobs: Sequence[JobRequest], flows: Flows, hops: Ints, *, weights: bool = True
) -> Sprayed | None:
    """Return the lists of all flows, which follow from their planned paths and from what is in use.

    With `weights`, paths weigh more or less where that lowers the fullest link. None where no job is sprayed. Raises
    InputError where the fabric is irregular, or has fewer paths than a flow shall have.
    """
    if not is_sprayed(jobs):
        return None
    topology = live.topology
    rotations = rotations_of(topology)
    if rotations is None:
        job_id = next(job.job_id for job in jobs if is_sprayed((job,)))
        within = "in equal planes of the fabric" if live.topology.plane.any() else "which this fabric lacks"
        why = f"paths_per_flow needs leaves with equal uplinks to the same switches, {within}: leave it out"
        raise InputError(f"job {job_id}: {why}")
    lists, which = [ALONE], np.zeros(len(flows), dtype=np.int64)
    for number, job in enumerate(jobs):
        for index, one in enumerate(job.collectives):
            if one.paths_per_flow > 1:
                rows = np.flatnonzero((flows.job == number) & (flows.collective == index))
                which[rows] = len(lists)
                lists.append(_template(rotations, job, index, flows.rows(rows), topology.nic_leaf))
    sets = PathSets.of(lists, which)
    found = Sprayed(
        topology=topology, rotations=rotations, flows=flows, hops=hops, sets=sets, split=which > 0, paths=sets.length
    )  # fmt: skip
    found = found if live.whole else replace(found, sets=denied(live, found))
    if not weights:
        return found
    carried = np.asarray(np.append(live.links, True)[hops].all(axis=1))
    return weighed(found, splittable_bound(topology, live, flows.rows(carried), found.split[carried]).value)


def seated(live: Live, jobs: Sequence[JobRequest], flows: Flows, hops: Ints, fresh: Flags) -> Ints:
    """Return planned paths: other ones of `fresh` flows where these are sprayed alike and their sets get evener."""
    new, mine = flows.rows(fresh), hops[fresh]
    numbers = np.unique(new.job).tolist()
    paths = {one.paths_per_flow for number in numbers for one in jobs[number].collectives}
    if len(paths) != 1 or not 1 < max(paths) <= MAX_SEATED // max(1, len(new)) or not live.whole:
        return hops
    before = sprayed(live, jobs, new, mine, weights=False)
    if before is None:
        return hops
    goal = splittable_bound(live.topology, live, new, before.split).value
    if before.worst() <= goal * NEAR:
        return hops
    other = spaced_paths(before)
    if other is None and weighed(before, goal).worst() > goal * FAR:
        other = greedy_paths(before)
    if other is None or replace(before, hops=other).worst() >= before.worst():
        return hops
    found = hops.copy()
    found[fresh] = other
    return found


def _template(rotations: Rotations, job: JobRequest, index: int, flows: Flows, nic_leaf: Ints) -> Ints:
    """Return the list of the flows of one collective."""
    paths = job.collectives[index].paths_per_flow
    if paths > rotations.count:
        raise InputError(
            f"job {job.job_id}: collectives[{index}].paths_per_flow: {paths}, but leaves of this fabric have at most "
            f"{rotations.count} paths between them: ask for at most so many"
        )
    source, target = nic_leaf[flows.src_nic], nic_leaf[flows.dst_nic]
    apart = (source != target) & (flows.phase == flows.phase[0] if len(flows) else True)
    leaving = max((int(np.bincount(leaf[apart]).max(initial=0)) for leaf in (source, target)), default=0)
    return template(rotations, paths, full=leaving >= rotations.columns)


def denied(live: Live, found: Sprayed) -> PathSets:
    """Return the lists without the entries whose paths have failed; a flow without any live one keeps its list."""
    links, sets = np.append(live.links[: live.topology.first_nic_link], True), found.sets
    lists: list[Ints] = []
    which = np.empty(len(sets), dtype=np.int64)
    for entries, rows in sets.rows_by_list():
        numbers, at = np.unique(entries, return_inverse=True)
        planned = found.hops[rows]
        alive = np.column_stack([links[found.rotations.links(int(each))][planned].all(axis=1) for each in numbers])
        alive[~alive.any(axis=1)] = True
        states, state = np.unique(np.packbits(alive, axis=1), axis=0, return_inverse=True)
        first = np.empty(len(states), dtype=np.int64)
        first[state.reshape(-1)] = np.arange(len(rows))
        lists += [entries[alive[row][at]] for row in first.tolist()]
        which[rows] = len(lists) - len(states) + state.reshape(-1)
    return PathSets.of(lists, which)
