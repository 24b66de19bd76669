"""Check what a planner returned: a path for each flow, of links that exist, are in use and follow each other."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from heddle.controller.model.fabric import Fabric, PortRef
from heddle.planners.problem import Demand, Problem

MAX_SHOWN = 200


def wrong_with(problem: Problem, paths: object) -> str | None:
    """Return what is wrong with the paths of a planner, the first flow and how many more; None where nothing is."""
    if not isinstance(paths, Mapping):
        return f"returned {type(paths).__name__}, not a mapping of flow ids to links"
    judge = _Judge(problem)
    found = [(demand.flow_id, why) for demand in problem.demands if (why := judge.wrong(demand, paths)) is not None]
    if not found:
        return None
    flow_id, why = found[0]
    more = f" (and {len(found) - 1:,} more flows)" if len(found) > 1 else ""
    return f"flow {flow_id}: {why}"[:MAX_SHOWN] + more


class _Judge:
    """The links of a fabric by id with the switches at their ends, and the path of each bundle so far."""

    def __init__(self, problem: Problem) -> None:
        self._fabric, self._alive = problem.fabric, problem.capacity_bps
        self._bundles: dict[str, tuple[str, ...]] = {}

    def wrong(self, demand: Demand, paths: Mapping[object, object]) -> str | None:
        """Return what is wrong with the path of one flow."""
        links = paths.get(demand.flow_id)
        if links is None:
            return "no path is returned"
        if isinstance(links, str) or not isinstance(links, Sequence) or not all(isinstance(one, str) for one in links):
            return "its path is no list of link ids"
        path = tuple(links)
        return self._broken(demand, path) or self._apart(demand, path)

    def _broken(self, demand: Demand, path: tuple[str, ...]) -> str | None:
        source, target = self._fabric.nic_by_id[demand.src_nic], self._fabric.nic_by_id[demand.dst_nic]
        if path[:1] != (source.up_link,) or path[-1:] != (target.down_link,):
            return f"its path must begin with {source.up_link} and end with {target.down_link}"
        cables = self._fabric.cable_by_link
        for link in path[1:-1]:
            if link not in cables:
                return f"no link {link!r} in this fabric"
        for link in path:
            if link not in self._alive:
                return f"link {link} is out of use"
        ends = [_switches(self._fabric, link) for link in path[1:-1]]
        walked = [source.port.switch, *(end for _, end in ends)]
        if any(begin != at for at, (begin, _) in zip(walked, ends, strict=False)) or walked[-1] != target.port.switch:
            return "its links do not follow each other"
        rises = [cables[link].up_link == link for link in path[1:-1]]
        if any(later and not earlier for earlier, later in pairwise(rises)) or len(set(walked)) < len(walked):
            return "its path goes up again after it went down, or passes a switch twice"
        return None

    def _apart(self, demand: Demand, path: tuple[str, ...]) -> str | None:
        if demand.bundle and self._bundles.setdefault(demand.bundle, path) != path:
            return f"its path differs from that of another flow of bundle {demand.bundle}"
        return None


def _switches(fabric: Fabric, link: str) -> tuple[str, str]:
    """Return the switches at which a link between switches begins and ends."""
    cable = fabric.cable_by_link[link]
    ends: tuple[PortRef, PortRef] = (cable.lower, cable.upper) if link == cable.up_link else (cable.upper, cable.lower)
    return ends[0].switch, ends[1].switch
