"""Choose the list of every flow: the template of its job, without the paths that are out of use."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from heddle.controller.model.error import InputError
from heddle.controller.model.job import Incast, JobRequest
from heddle.controller.planner.ground.clos import Live, Topology
from heddle.controller.planner.ground.expand import Flows
from heddle.controller.planner.ground.jit import Flags, Ints
from heddle.controller.planner.ground.path_sets import ALONE, PathSets, asked_paths, nic_paths
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


def may_spray(topology: Topology, jobs: Sequence[JobRequest]) -> bool:
    """Return whether flows of these jobs may have several paths: a collective asks for them, or NICs do."""
    by_nic = bool((nic_paths(topology) > 1).any())
    return any(one.paths_per_flow > 1 or (by_nic and not one.paths_per_flow) for job in jobs for one in job.collectives)


def without_turns(jobs: Sequence[JobRequest], found: Sprayed) -> list[JobRequest]:
    """Return the jobs, of which sprayed ones never take turns: their senders share a receiver by rates."""
    mine = frozenset(np.unique(found.flows.job[found.split]).tolist())
    return [replace(job, incast=Incast.RATES) if number in mine else job for number, job in enumerate(jobs)]


def sprayed(
    live: Live, jobs: Sequence[JobRequest], flows: Flows, hops: Ints, *, weights: bool = True
) -> Sprayed | None:
    """Return the lists of all flows, which follow from their planned paths and from what is in use.

    With `weights`, paths weigh more or less where that lowers the fullest link. None where no job is sprayed. Raises
    InputError where the fabric is irregular, or has fewer paths than a flow shall have.
    """
    topology = live.topology
    if not may_spray(topology, jobs):
        return None
    asked = asked_paths(topology, jobs, flows)
    several = np.flatnonzero(asked > 1)
    if not len(several):
        return None
    for number in np.unique(flows.job[several]).tolist():
        if (why := next(refused_sets(topology, jobs[number]), None)) is not None:
            raise InputError(f"job {jobs[number].job_id}: {why}")
    rotations = rotations_of(topology)
    assert rotations is not None
    lists, which = [ALONE], np.zeros(len(flows), dtype=np.int64)
    for rows in _alike(flows, asked, several):
        which[rows] = len(lists)
        paths = int(asked[rows[0]])
        lists.append(_template(rotations, paths, flows.rows(rows), topology.nic_leaf))
    sets = PathSets.of(lists, which)
    found = Sprayed(
        topology=topology, rotations=rotations, flows=flows, hops=hops, sets=sets, split=which > 0, paths=asked
    )  # fmt: skip
    found = found if live.whole else replace(found, sets=denied(live, found))
    if not weights:
        return found
    carried = np.asarray(np.append(live.links, True)[hops].all(axis=1))
    return weighed(found, splittable_bound(topology, live, flows.rows(carried), found.split[carried]).value)


def seated(live: Live, jobs: Sequence[JobRequest], flows: Flows, hops: Ints, fresh: Flags) -> Ints:
    """Return planned paths: other ones of `fresh` flows where these are sprayed alike and their sets get evener."""
    new, mine = flows.rows(fresh), hops[fresh]
    paths = frozenset(asked_paths(live.topology, jobs, new).tolist())
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


def refused_sets(topology: Topology, job: JobRequest) -> Iterator[str]:
    """Yield the place of each collective of a job that no list can be made for, and why."""
    rotations = rotations_of(topology)
    for index, one in enumerate(job.collectives):
        place, paths = f"collectives[{index}].paths_per_flow", one.paths_per_flow
        if paths > 1 and rotations is None:
            within = "in equal planes of the fabric" if topology.plane.any() else "which this fabric lacks"
            yield f"{place}: needs leaves with equal uplinks to the same switches, {within}: leave it out"
        elif rotations is not None and paths > rotations.count:
            most = f"leaves of this fabric have at most {rotations.count} paths between them"
            yield f"{place}: {paths}, but {most}: ask for at most so many"


def _alike(flows: Flows, asked: Ints, rows: Ints) -> Iterator[Ints]:
    """Yield the flows of each job and collective that are sprayed over as many paths, in order."""
    kind = flows.job[rows] * (1 + flows.collective.max(initial=0)) + flows.collective[rows]
    kind = kind * (1 + asked.max(initial=0)) + asked[rows]
    order = np.argsort(kind, kind="stable")
    yield from np.split(rows[order], np.flatnonzero(np.diff(kind[order])) + 1)


def _template(rotations: Rotations, paths: int, flows: Flows, nic_leaf: Ints) -> Ints:
    """Return the list of flows that are sprayed over so many paths."""
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
