"""Compile every kernel ahead of the first plan: `python -m controller.planner.warm`, run once by set-up.

It plans one small case per engine, so whatever a plan may need is on disk (or, without a cache, in memory).
"""

from controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from controller.model.health import Health
from controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from controller.planner.solve import solve

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


def warm() -> None:
    """Plan equal demands (coloured), then unequal ones over their load and a failure (balanced, shared rates)."""
    fabric = _two_pods()
    ranks = tuple(nic.id for nic in fabric.nics)
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
    first = JobRequest(job_id="equal", ranks=ranks, collectives=(ring,))
    flows = tuple(FlowDemand(src_rank=i, dst_rank=7 - i, rate_bps=GBPS * (i + 3) // 8) for i in range(8))
    mixed = Collective(kind=CollectiveKind.CUSTOM, size_bytes=1000, flows=flows)
    second = JobRequest(job_id="mixed", ranks=ranks, collectives=(mixed, ring))
    solve(fabric, (first,), health=Health())
    solve(fabric, (first, second), health=Health(down_cables=frozenset((fabric.cables[0].id,))))


if __name__ == "__main__":
    warm()
    print("planner: kernels compiled")
