"""Count the planned flows that need a cable or a switch; pure."""

from collections.abc import Mapping

from controller.brain.state import State
from controller.model.admission import quoted
from controller.model.error import NotFoundError
from controller.model.health import Health
from controller.planner.clos import Live, topology_of
from controller.planner.placed import paths_of


def flows_needing(state: State, target: str) -> Mapping[str, int]:
    """Return how many flows of each job lose their path, or that of their ACKs, without a cable or a switch.

    Raises NotFoundError.
    """
    topology, without = topology_of(state.fabric), _without(state, target)
    now, then = (Live.of(topology, health) for health in (state.out_of_use, state.out_of_use.union(without)))
    found = {}
    for job_id, job in state.jobs.items():
        paths = paths_of(topology, 0, (job.request, job.flows))
        if count := int((paths.alive(now) & ~paths.alive(then)).sum()):
            found[job_id] = count
    return found


def _without(state: State, target: str) -> Health:
    cable = state.fabric.cable_by_link.get(target)
    if cable is not None:
        return Health(down_cables=frozenset((cable.id,)))
    if target in state.switches:
        return Health(down_switches=frozenset((target,)))
    raise NotFoundError(f"target: there is no link or switch {quoted(target)}; /api/fabric lists them")
