"""Suggest placements for a job: candidates, each planned beside the running jobs, best first.

The planner itself evaluates each candidate, so the prediction is what a submission of the same ranks would get.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from heddle.controller.model.admission import flow_plans, layout_problems, too_many_flow_plans
from heddle.controller.model.collectives import RING
from heddle.controller.model.error import AlreadyExistsError, InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.limit import MAX_FLOW_PLANS
from heddle.controller.model.placement import MAX_SUGGESTIONS, Placement, Shape, placement_problems
from heddle.controller.model.plan import Infeasible
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.placed import Placed
from heddle.controller.planner.placement.blocks import zones_of
from heddle.controller.planner.placement.choose import Candidate, compact, wider
from heddle.controller.planner.placement.forecast import Forecast
from heddle.controller.planner.placement.free import gpus_of
from heddle.controller.planner.placement.rails import on_rails
from heddle.controller.planner.placement.reason import reason_of, too_few
from heddle.foundation.network import Network

MAX_WORK = 1_000_000
"""The limit of ranks and flow plans over all candidates; at least one candidate is always evaluated."""
FULL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A candidate with its predicted utilisation: of the whole fabric, and of the links that it uses."""

    candidate: Candidate
    whole: float
    own: float

    @property
    def rank(self) -> tuple[int, ...]:
        """Return the sort key of a candidate: utilisation to 1 %, compactness, fragmentation, then kept rails."""
        one = self.candidate
        compactness = (one.blocks, one.pods, one.opened, one.hosts, one.leaves)
        return (round(100 * self.own), *compactness, one.spare, one.woken, not one.turned)


def suggest(
    fabric: Fabric, shape: Shape, *, health: Health, kept: Sequence[Placed] = (),
    degraded: Mapping[str, int] | None = None,
) -> tuple[Placement, ...] | Infeasible:  # fmt: skip
    """Return placements for a job on different sets of NICs, best first and at most `shape.limit`.

    `degraded` are the rates in bit/s that bad cables, by id, have left. Raises InputError for a shape that is wrong or
    too large for any place. `Infeasible` where too little is free.
    """
    if problems := placement_problems(shape):
        raise InputError(*(f"{problem.path}: {problem.text}" for problem in problems))
    running = [request for request, _ in kept]
    topology, gpus = topology_of(fabric).lowered(degraded or {}), gpus_of(fabric)
    forecast = Forecast(topology, health=health, kept=kept)
    room_milli = gpus.room_milli(running)
    zones = zones_of(topology, forecast.live, gpus, room_milli, shape.share_milli, forecast.loads_bps)
    if not zones or sum(block.size for block in zones[0]) < shape.ranks:
        return Infeasible(why=too_few(shape, zones, _out_of_use(fabric, forecast.live), running))
    judge = _Judge(fabric, shape, forecast)
    places = compact(zones, shape.ranks, shape.share_milli)
    first = judge.all(_with_rails(shape, places), 2 * shape.limit)
    if min((round(100 * one.own) for one in first), default=101) > 100 * FULL:
        first += judge.all(wider(zones, shape.ranks, shape.share_milli), MAX_SUGGESTIONS)
    if not first:
        return judge.refusal
    return _placements(fabric, sorted(first, key=lambda one: one.rank), shape)


class _Judge:
    """Evaluates candidates by the planner, each set of NICs in order once."""

    def __init__(self, fabric: Fabric, shape: Shape, forecast: Forecast) -> None:
        self._fabric, self._shape, self._forecast = fabric, shape, forecast
        self._known: set[tuple[int, ...]] = set()
        self._work = 0
        self.refusal = Infeasible(why="no place was found")

    def all(self, candidates: Iterator[Candidate], limit: int) -> list[_Judged]:
        """Evaluate the first `limit` new candidates within the limit of work; return those that have a plan."""
        found, tried = [], 0
        for candidate in islice(candidates, 4 * MAX_SUGGESTIONS):
            if not self._is_new(candidate) or not self._has_rails(candidate):
                continue
            work = len(candidate.nics) + self._flow_plans(candidate)
            if tried == min(limit, MAX_SUGGESTIONS) or (self._work and self._work + work > MAX_WORK):
                break
            self._work, tried = self._work + work, tried + 1
            if (judged := self._judged(candidate)) is not None:
                found.append(judged)
        return found

    def _is_new(self, candidate: Candidate) -> bool:
        known = candidate.nics in self._known
        self._known.add(candidate.nics)
        return not known

    def _has_rails(self, candidate: Candidate) -> bool:
        """Return whether the NICs suit the algorithm of every collective."""
        request = self._shape.on(_names(self._fabric, candidate))
        unsuited = next(layout_problems(request, self._fabric), None)
        if unsuited is not None:
            self.refusal = Infeasible(why=f"{unsuited.path}: {unsuited.text}")
        return unsuited is None

    def _flow_plans(self, candidate: Candidate) -> int:
        plans = flow_plans(self._shape.on(_names(self._fabric, candidate)), self._fabric, MAX_FLOW_PLANS)
        if plans > MAX_FLOW_PLANS:
            raise InputError(f"collectives: {too_many_flow_plans('the job asks for')}")
        return plans

    def _judged(self, candidate: Candidate) -> _Judged | None:
        try:
            found = self._forecast.of(self._shape.on(_names(self._fabric, candidate)))
        except AlreadyExistsError as taken:
            found = Infeasible(why=str(taken))
        if isinstance(found, Infeasible):
            self.refusal = found
            return None
        return _Judged(candidate=candidate, whole=found.max_link_utilisation, own=found.own_max_link_utilisation)


def _names(fabric: Fabric, candidate: Candidate) -> tuple[str, ...]:
    """Return the NIC ids of a candidate in rank order."""
    return tuple(fabric.nics[nic].rank for nic in candidate.nics)


def _out_of_use(fabric: Fabric, live: Live) -> list[str]:
    """Return the compute NICs out of use: the NIC or its leaf is down or drained."""
    first = 2 * len(fabric.cables)
    return [
        nic.id
        for nic, up in zip(fabric.nics, live.links[first : first + len(fabric.nics)].tolist(), strict=True)
        if not up and nic.network == Network.COMPUTE
    ]


def _with_rails(shape: Shape, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """Yield each candidate, and the one that keeps its rails where the job has a ring over all ranks.

    A ring of NCCL keeps its rails in any order.
    """
    ring = any(one.kind.pattern is RING and not one.members and not one.on_rails for one in shape.collectives)
    for candidate in candidates:
        yield candidate
        if ring and (other := on_rails(candidate)) is not None:
            yield other


def _placements(fabric: Fabric, judged: Sequence[_Judged], shape: Shape) -> tuple[Placement, ...]:
    """Return the best placement of each set of NICs."""
    found: dict[tuple[str, ...], Placement] = {}
    for one in judged:
        nics = _names(fabric, one.candidate)
        if (key := tuple(sorted(nics))) not in found:
            found[key] = Placement(
                nics=nics,
                max_link_utilisation=one.whole,
                own_max_link_utilisation=one.own,
                leaves_used=one.candidate.leaves,
                reason=reason_of(one.candidate, one.own, shape),
            )
    return tuple(found.values())[: shape.limit]
