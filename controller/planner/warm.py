"""Load kernels and build a fabric's arrays before the first plan is requested.

`python -m heddle.controller.planner.warm [PART ...]`, run once by set-up, compiles kernels: it plans one small case per
engine, so whatever a plan may need is on disk (or, without a cache, in memory). The parts may be compiled side by
side. `prepare` is for a process that is about to plan.
"""

import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, Incast, JobRequest, RankPair
from heddle.controller.model.moves import MAX_MOVES, MoveLimit, Whose
from heddle.controller.model.plan import JobFlows, Replan
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.grid import grid_of
from heddle.controller.planner.ground.segments import segments_of
from heddle.controller.planner.ground.shape import shape_of
from heddle.controller.planner.ports.steering import port_table_of
from heddle.controller.planner.proof.bound import lower_bound
from heddle.controller.planner.proof.ecmp import ecmp_figures
from heddle.controller.planner.search.wander import wander
from heddle.controller.planner.solve import solve

GBPS = 1_000_000_000


def _two_pods() -> Fabric:
    """Return two pods of two leaves, two aggregation switches each, and two cores."""
    pods, pair = (1, 2), (1, 2)
    names = [(f"core{c}", Role.CORE) for c in pair]
    names += [(f"p{p}-agg{a}", Role.AGG) for p in pods for a in pair]
    names += [(f"p{p}-leaf{n}", Role.LEAF) for p in pods for n in pair]
    cables = [_cable(f"p{p}-leaf{n}", a, f"p{p}-agg{a}", n) for p in pods for n in pair for a in pair]
    cables += [_cable(f"p{p}-agg{a}", 3, f"core{a}", p) for p in pods for a in pair]
    leaves = [f"p{p}-leaf{n}" for p in pods for n in pair for _ in pair]
    nics = [
        Nic(id=f"n{i}", host=f"h{i}", ip=i + 1, mac=i + 1, port=PortRef(leaf, 3 + i % 2), capacity_bps=GBPS)
        for i, leaf in enumerate(leaves)
    ]
    switches = tuple(Switch(id=name, role=role, datapath_id=i + 1) for i, (name, role) in enumerate(names))
    return Fabric(name="warm", switches=switches, cables=tuple(cables), nics=tuple(nics))


def _cable(lower: str, lower_port: int, upper: str, upper_port: int) -> Cable:
    return Cable(lower=PortRef(lower, lower_port), upper=PortRef(upper, upper_port), capacity_bps=GBPS)


def prepare(fabric: Fabric) -> None:
    """Make the arrays of a fabric, and load the kernels that every plan on it needs from the cache on disk."""
    port_table_of(fabric, topology_of(fabric))
    three_tiers = any(switch.role is Role.CORE for switch in fabric.switches)
    small = _two_pods() if three_tiers else _one_pod(_two_pods())
    solve(small, (_ring(small),), health=Health())


def _ring(fabric: Fabric) -> JobRequest:
    """Return a ring over all NICs, and as many pairs named one by one."""
    ranks = tuple(nic.id for nic in fabric.nics)
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
    pairs = tuple(RankPair(src_rank=i, dst_rank=(i + 1) % len(ranks)) for i in range(len(ranks)))
    named = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs, qps_per_flow=4)
    return JobRequest(job_id="equal", ranks=ranks, collectives=(ring, named))


def _mixed(fabric: Fabric) -> JobRequest:
    """Return unequal demands over all NICs, and a ring in the same phase."""
    ranks = tuple(nic.id for nic in fabric.nics)
    flows = tuple(FlowDemand(src_rank=i, dst_rank=7 - i, rate_bps=GBPS * (i + 3) // 8) for i in range(8))
    mixed = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1000, flows=flows)
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
    return JobRequest(job_id="mixed", ranks=ranks, collectives=(mixed, ring))


def _warm_equal() -> None:
    """Colour equal demands, in three tiers and in two, and in slots where something failed."""
    fabric, failed = _two_pods(), _one_cable_down()
    first = _ring(fabric)
    for health in (Health(), failed):
        solve(fabric, (first,), health=health)
    pod = _one_pod(fabric)
    several = tuple(replace(one, qps_per_flow=4) for one in first.collectives)
    for health in (Health(), failed):
        solve(pod, (replace(first, ranks=tuple(nic.id for nic in pod.nics), collectives=several[:1]),), health=health)


def _warm_mixed() -> None:
    """Search for unequal demands on what failures left of a regular fabric."""
    fabric = _two_pods()
    solve(fabric, (_ring(fabric), _mixed(fabric)), health=_one_cable_down())
    pod = _one_pod(fabric)
    topology = topology_of(pod)
    live = Live.of(topology, Health())
    shape = shape_of(topology, live, np.flatnonzero(topology.tier == 0))
    if shape is not None:
        grid, zero, one = grid_of(topology, live, shape, np.zeros(len(topology.capacity))), np.zeros(1), np.ones(1)
        ends = (zero.astype(np.int64), one.astype(np.int64))
        wander(grid, *ends, one, ends[0].copy(), -ends[1], 1.0, 1, 1)


def _warm_phases() -> None:
    """Plan two jobs of two phases together where they need more than one link has."""
    fabric = _two_pods()
    ranks, collectives = tuple(nic.id for nic in fabric.nics), []
    for phase in (0, 1):
        pairs = tuple(RankPair(src_rank=i, dst_rank=(i + 4 + phase) % 8) for i in range(8))
        collectives.append(
            Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs, phase=phase, qps_per_flow=2)
        )
    job = JobRequest(job_id="one", ranks=ranks, collectives=tuple(collectives))
    solve(fabric, (job, replace(job, job_id="other")), health=_one_cable_down())


def _warm_drawn() -> None:
    """Plan on a fabric that is no regular Clos."""
    fabric = _two_pods()
    solve(replace(fabric, cables=fabric.cables[1:]), (_ring(fabric), _mixed(fabric)), health=Health())


def _warm_incast() -> None:
    """Confine an incast, beside another flow, and let its senders take turns."""
    fabric = _two_pods()
    gather = Collective(kind=CollectiveKind.GATHER, size_bytes=1000)
    full = FlowDemand(src_rank=2, dst_rank=7, rate_bps=GBPS)
    beside = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1000, flows=(full,))
    ranks = tuple(nic.id for nic in fabric.nics)
    incast = JobRequest(job_id="incast", ranks=ranks, collectives=(gather, beside), incast=Incast.WINDOWS)
    solve(fabric, (incast,), health=Health())


def _warm_proof() -> None:
    """Compute what a certificate holds beside the paths: the lower bound and the figures of ECMP."""
    fabric = _two_pods()
    topology = topology_of(fabric)
    live, flows = Live.of(topology, Health()), expand(topology, (_ring(fabric),))
    ecmp_figures(topology, segments_of(topology, live), flows, (0,))
    lower_bound(topology, live, flows)


def _warm_sprayed() -> None:
    """Spray unequal demands over two paths each, with and without a failure: planned paths for sets, then weights."""
    fabric = _two_pods()
    mixed = _mixed(fabric)
    job = replace(mixed, collectives=tuple(replace(one, paths_per_flow=2) for one in mixed.collectives))
    for health in (Health(), _one_cable_down()):
        solve(fabric, (job,), health=health)


def _warm_session() -> None:
    """Let jobs come and go beside a failure that makes flows step aside, with any number of moves and with few."""
    from heddle.controller.planner.online import OnlinePlanner  # `prepare` needs none of these

    fabric = _two_pods()
    first, second = _ring(fabric), _mixed(fabric)
    mixed, ring = second.collectives
    phased = replace(second, collectives=(mixed, replace(ring, phase=1)))
    equal = replace(first, collectives=first.collectives[:1])
    halves = [
        replace(equal, job_id=job_id, collectives=(replace(equal.collectives[0], members=members),))
        for job_id, members in (("most", (0, 2, 4, 6)), ("few", (1, 5)))
    ]
    # More than the fabric carries, so that every method to make room is tried: for flows of one size, then of several.
    crowd = (*halves, replace(equal, job_id="third"), second)
    # Three phased jobs beside the failure would be a search of a second, and load no kernel that the others do not.
    three, failed = (first, phased, replace(first, job_id="more")), ((_one_cable_down(), ()),)
    for jobs, most, later in ((three, MAX_MOVES, ()), (halves, MAX_MOVES, failed), (crowd, 1, failed)):
        planner, limit = OnlinePlanner(fabric), MoveLimit(whose=Whose.ANY, max_flows=most)
        kept: tuple[tuple[JobRequest, JobFlows], ...] = ()
        for health, new in (*((Health(), (job,)) for job in jobs), *later):
            plan = planner.solve(new, health=health, kept=kept, limit=limit, has_happened=True)
            if isinstance(plan, Replan):
                kept = tuple(zip((*(request for request, _ in kept), *new), plan.jobs, strict=True))
        planner.solve((), health=Health(), kept=kept[1:], limit=limit, has_happened=True)


def _one_cable_down() -> Health:
    return Health(down_cables=frozenset((_two_pods().cables[1].id,)))


def _one_pod(fabric: Fabric) -> Fabric:
    """Return the first pod alone: two tiers."""
    switches = tuple(switch for switch in fabric.switches if switch.id.startswith("p1-"))
    return replace(fabric, switches=switches, cables=fabric.cables[:4], nics=fabric.nics[:4])


PLANNING = ("equal", "mixed", "phases", "drawn", "incast", "sprayed")
"""What a controller may need."""
_PARTS: dict[str, Callable[[], None]] = {
    "equal": _warm_equal,
    "mixed": _warm_mixed,
    "phases": _warm_phases,
    "drawn": _warm_drawn,
    "incast": _warm_incast,
    "sprayed": _warm_sprayed,
    "proof": _warm_proof,
    "session": _warm_session,
}


def warm(parts: Iterable[str] = PLANNING) -> None:
    """Compile the kernels of these parts, or load them from the cache."""
    for part in parts:
        _PARTS[part]()


if __name__ == "__main__":
    gc.disable()  # a twelfth of the time to compile
    wanted = sys.argv[1:] or list(_PARTS)
    if unknown := sorted(set(wanted) - set(_PARTS)):
        sys.exit(f"planner: no part {', '.join(unknown)}; there are {', '.join(_PARTS)}")
    warm(wanted)
    print(f"planner: kernels compiled ({', '.join(wanted)})")
