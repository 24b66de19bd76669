"""Generate fabrics, failures and demands for planners from sizes and a seed.

Every family of `FAMILIES` is a function of an approximate number of flows and a numpy Generator, and returns a `Case`.
NICs can carry their demands, so a plan above its bound is a loss in the fabric.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heddle.controller.config.fabric_file import GenerateShape
from heddle.controller.config.generate import generate
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest

GBPS = 10**9
NIC_BPS = 100 * GBPS


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A planning problem and its target.

    `target` is the allowed ratio of maximum utilisation to its lower bound; `quantum_above` allows the bound plus one
    flow instead. `base_share` is the load of other traffic on each directed
    switch-to-switch link as a share of its capacity (cables upwards, then downwards), None for an idle fabric.
    """

    name: str
    fabric: Fabric
    jobs: tuple[JobRequest, ...]
    health: Health = field(default_factory=Health)
    base_share: NDArray[np.float64] | None = None
    target: float = 1.0
    quantum_above: bool = False


def fabric_of(**sizes: Any) -> Fabric:
    """Return a generated fabric; the keys are those of `generate` in a fabric file."""
    shape = GenerateShape.model_validate({"gbps": NIC_BPS // GBPS, **sizes})
    parts = generate(shape)
    return Fabric(name="case", switches=tuple(parts.switches), cables=tuple(parts.cables), nics=tuple(parts.nics))


def two_tiers(hosts: int, spines: int, *, per_leaf: int = 0, parallel: int = 1) -> Fabric:
    """Return leaves of `per_leaf` hosts (default: as many as uplinks) under `spines`."""
    per_leaf = per_leaf or spines * parallel
    leaves = max(2, hosts // per_leaf)
    return fabric_of(kind="spine_leaf", spines=spines, leaves=leaves, hosts_per_leaf=per_leaf, links_per_spine=parallel)


def three_tiers(k: int, *, pods: int = 0, cores_per_agg: int = 0) -> Fabric:
    """Return a k-ary fat tree; with fewer `cores_per_agg` than k / 2 it is lean above the aggregation switches."""
    half = k // 2
    return fabric_of(
        kind="clos3", pods=pods or k, aggs_per_pod=half, leaves=half, hosts_per_leaf=half,
        spines=half * (cores_per_agg or half),
    )  # fmt: skip


def some_failed(fabric: Fabric, share: float, rng: np.random.Generator) -> Health:
    """Fail a share of the switch-to-switch cables, but leave every switch at least two uplinks."""
    left: dict[str, int] = {}
    for cable in fabric.cables:
        left[cable.lower.switch] = left.get(cable.lower.switch, 0) + 1
    down = []
    for number in rng.permutation(len(fabric.cables))[: round(share * len(fabric.cables))].tolist():
        cable = fabric.cables[number]
        if left[cable.lower.switch] > 2:
            left[cable.lower.switch] -= 1
            down.append(cable.id)
    return Health(down_cables=frozenset(down))


def _permutation(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.permutation(size).astype(np.int64)


def _custom(
    source: NDArray[np.int64], target: NDArray[np.int64], rate_bps: NDArray[np.int64] | int, *,
    qps: int = 1, phase: int = 0,
) -> Collective:  # fmt: skip
    rates = np.broadcast_to(np.asarray(rate_bps), source.shape)
    apart = source != target
    rows = zip(source[apart].tolist(), target[apart].tolist(), rates[apart].tolist(), strict=True)
    flows = tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=rate) for a, b, rate in rows)
    return Collective(kind=CollectiveKind.CUSTOM, size_bytes=10**8, flows=flows, qps_per_flow=qps, phase=phase)


def _job(
    fabric: Fabric, *collectives: Collective, ranks: NDArray[np.int64] | None = None, name: str = "job"
) -> JobRequest:
    nics = fabric.nics if ranks is None else [fabric.nics[rank] for rank in ranks.tolist()]
    return JobRequest(job_id=name, ranks=tuple(nic.id for nic in nics), collectives=collectives)


def permutation(fabric: Fabric, qps: int, rng: np.random.Generator) -> JobRequest:
    """Return a permutation: every NIC sends to one other at its full rate over `qps` queue pairs."""
    count = len(fabric.nics)
    source = np.arange(count, dtype=np.int64)
    return _job(fabric, _custom(source, _permutation(count, rng), NIC_BPS, qps=qps))


def strides(fabric: Fabric, peers: int, rng: np.random.Generator) -> JobRequest:
    """Return one round of an all-to-all: every NIC sends to `peers` others, an equal share of its rate to each."""
    count = len(fabric.nics)
    order, place = _permutation(count, rng), np.arange(count, dtype=np.int64)
    steps = rng.choice(np.arange(1, count), size=min(peers, count - 1), replace=False)
    source = np.concatenate([order[place] for _ in steps])
    target = np.concatenate([order[(place + step) % count] for step in steps.tolist()])
    return _job(fabric, _custom(source, target, NIC_BPS // len(steps)))


def mixed_rates(fabric: Fabric, qps: int, rng: np.random.Generator, *, fill: float = 1.0) -> JobRequest:
    """Return a permutation with uniform random demands between a tenth and all of `fill` times the NIC's rate."""
    count = len(fabric.nics)
    rates = (rng.uniform(0.1, 1.0, count) * fill * NIC_BPS).astype(np.int64)
    return _job(fabric, _custom(np.arange(count, dtype=np.int64), _permutation(count, rng), rates, qps=qps))


def powers(fabric: Fabric, rng: np.random.Generator) -> JobRequest:
    """Return a permutation of single queue pairs with demands of 1, 1/2, 1/4 or 1/8 of the NIC's rate."""
    count = len(fabric.nics)
    rates = NIC_BPS // (1 << rng.integers(0, 4, count))
    return _job(fabric, _custom(np.arange(count, dtype=np.int64), _permutation(count, rng), rates))


def tight(fabric: Fabric, filled: float, splits: str, rng: np.random.Generator) -> tuple[JobRequest, ...]:
    """Return jobs of 64 to 1,024 ranks on a share `filled` of the NICs, each full in both directions.

    "halves": each NIC of a job sends 1, 2, 4 or 8 equal flows; "dirichlet": 2 to 8 flows, split by one draw per job.
    """
    count = len(fabric.nics)
    nics, jobs, begin = _permutation(count, rng)[: int(filled * count)], [], 0
    while begin < len(nics) - 1:
        ranks = nics[begin : begin + int(rng.integers(64, 1025))]
        begin += len(ranks)
        if splits == "halves":
            share = np.full(1 << int(rng.integers(0, 4)), 1.0)
        else:
            share = rng.dirichlet(np.ones(int(rng.integers(2, 9))))
        rates = np.floor(share / share.sum() * NIC_BPS).astype(np.int64)
        rates[0] += NIC_BPS - rates.sum()
        shuffled, place = rng.permutation(len(ranks)).astype(np.int64), np.arange(len(ranks), dtype=np.int64)
        steps = rng.integers(1, max(len(ranks), 2), len(rates))
        source = np.concatenate([shuffled] * len(rates))
        target = np.concatenate([shuffled[(place + step) % len(ranks)] for step in steps.tolist()])
        one = _custom(source, target, np.repeat(rates, len(ranks)))
        jobs.append(_job(fabric, one, ranks=ranks, name=f"job{len(jobs)}"))
    return tuple(jobs)


def residual(fabric: Fabric, mean: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return random loads of other traffic on each directed link: 0 to twice `mean` of its capacity."""
    return rng.uniform(0, 2 * mean, 2 * len(fabric.cables))


def _even_jobs(fabric: Fabric, jobs: int, qps: int, rng: np.random.Generator) -> tuple[JobRequest, ...]:
    parts = np.array_split(_permutation(len(fabric.nics), rng), jobs)
    requests = []
    for number, ranks in enumerate(parts):
        place = np.arange(len(ranks), dtype=np.int64)
        one = _custom(place, _permutation(len(ranks), rng), NIC_BPS, qps=qps)
        requests.append(_job(fabric, one, ranks=ranks, name=f"job{number}"))
    return tuple(requests)


def _phases(fabric: Fabric, phases: int, qps: int, rng: np.random.Generator) -> JobRequest:
    count = len(fabric.nics)
    place = np.arange(count, dtype=np.int64)
    rounds = [_custom(place, _permutation(count, rng), NIC_BPS, qps=qps, phase=phase) for phase in range(phases)]
    return _job(fabric, *rounds)


def _uneven(fabric: Fabric) -> Fabric:
    """Double the rate of the cables of every third spine."""
    names = [switch.id for switch in fabric.switches if switch.role.tier == 2]
    wide = set(names[::3])
    cables = (replace(c, capacity_bps=2 * c.capacity_bps) if c.upper.switch in wide else c for c in fabric.cables)
    return replace(fabric, cables=tuple(cables))


def _spines(hosts: int) -> int:
    """Return a number of spines for a number of hosts; there are two to four times as many leaves."""
    return max(4, min(64, 1 << (max(hosts, 16).bit_length() // 2)))


def _arity(hosts: int, *, even: int = 2) -> int:
    """Return the k of the fat tree of at most about `hosts` hosts."""
    k = 4
    while (k + even) ** 3 // 4 <= hosts * 1.05:
        k += even
    return k


Rng = np.random.Generator


def _equal_q8(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 8, _spines(flows // 8))
    return Case(name="2t permutation q8", fabric=fabric, jobs=(permutation(fabric, 8, rng),))


def _equal_q1(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows, _spines(flows))
    return Case(name="2t permutation q1", fabric=fabric, jobs=(permutation(fabric, 1, rng),))


def _equal_strides(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 8, _spines(flows // 8))
    return Case(name="2t all-to-all strides", fabric=fabric, jobs=(strides(fabric, 8, rng),))


def _equal_odd(flows: int, rng: Rng) -> Case:
    spines = max(3, _spines(flows // 4) - 4)
    fabric = two_tiers(flows // 4, spines)
    return Case(name="2t odd spines q4", fabric=fabric, jobs=(permutation(fabric, 4, rng),))


def _equal_half_full(flows: int, rng: Rng) -> Case:
    spines = _spines(flows // 8)
    fabric = two_tiers(flows // 8, spines, per_leaf=spines * 5 // 8)
    return Case(name="2t spare spines q8", fabric=fabric, jobs=(permutation(fabric, 8, rng),))


def _equal_parallel(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 4, max(2, _spines(flows // 4) // 4), parallel=4)
    return Case(name="2t parallel cables q4", fabric=fabric, jobs=(permutation(fabric, 4, rng),))


def _equal_rails(flows: int, rng: Rng) -> Case:
    hosts = max(4, flows // 8)
    spines = _spines(hosts)
    leaves = max(8, hosts // spines // 8 * 8)
    fabric = fabric_of(kind="rail_optimised", spines=spines, leaves=leaves, hosts_per_leaf=spines, nics_per_host=8)
    return Case(name="2t rails q8", fabric=fabric, jobs=(permutation(fabric, 8, rng),))


def _equal_uneven(flows: int, rng: Rng) -> Case:
    fabric = _uneven(two_tiers(flows // 4, _spines(flows // 4)))
    return Case(name="2t uneven uplinks q4", fabric=fabric, jobs=(permutation(fabric, 4, rng),))


def _equal_jobs(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 4, _spines(flows // 4))
    return Case(name="2t eight jobs q4", fabric=fabric, jobs=_even_jobs(fabric, 8, 4, rng))


def _equal_phases(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 8, _spines(flows // 8))
    return Case(name="2t two phases q4", fabric=fabric, jobs=(_phases(fabric, 2, 4, rng),))


def _equal_three(flows: int, rng: Rng) -> Case:
    fabric = three_tiers(_arity(flows // 8))
    return Case(name="3t permutation q8", fabric=fabric, jobs=(permutation(fabric, 8, rng),))


def _equal_three_q1(flows: int, rng: Rng) -> Case:
    fabric = three_tiers(_arity(flows))
    return Case(name="3t permutation q1", fabric=fabric, jobs=(permutation(fabric, 1, rng),))


def _lean(flows: int, rng: Rng) -> Case:
    k = _arity(flows // 4, even=4)
    fabric = three_tiers(k, cores_per_agg=k // 4)
    return Case(name="3t lean q4", fabric=fabric, jobs=(permutation(fabric, 4, rng),), quantum_above=True)


def _lean_q1(flows: int, rng: Rng) -> Case:
    k = _arity(flows, even=4)
    fabric = three_tiers(k, cores_per_agg=k // 4 + 1)
    return Case(name="3t lean q1", fabric=fabric, jobs=(permutation(fabric, 1, rng),), quantum_above=True)


def _lean_local(flows: int, rng: Rng) -> Case:
    """Half of the flows stay in their pod: the cuts of leaves and of pods are about equally full."""
    k = _arity(flows // 2, even=4)
    fabric = three_tiers(k, cores_per_agg=k // 4)
    count, pod = len(fabric.nics), (k // 2) ** 2
    target = np.arange(count, dtype=np.int64)
    inside = rng.random(count) < 0.5
    for number in range(count // pod):
        rows = np.flatnonzero(inside[number * pod : (number + 1) * pod]) + number * pod
        target[rows] = rng.permutation(rows)
    rows = np.flatnonzero(~inside)
    target[rows] = rng.permutation(rows)
    one = _custom(np.arange(count, dtype=np.int64), target, NIC_BPS, qps=2)
    return Case(name="3t lean, half local q2", fabric=fabric, jobs=(_job(fabric, one),), quantum_above=True)


def _failed(share: float, qps: int) -> Callable[[int, Rng], Case]:
    def case(flows: int, rng: Rng) -> Case:
        fabric = two_tiers(flows // qps, _spines(flows // qps))
        health = some_failed(fabric, share, rng)
        name = f"2t q{qps}, {share:.0%} failed"
        return Case(name=name, fabric=fabric, health=health, jobs=(permutation(fabric, qps, rng),), target=1.02)

    return case


def _failed_three(share: float, qps: int) -> Callable[[int, Rng], Case]:
    def case(flows: int, rng: Rng) -> Case:
        fabric = three_tiers(_arity(flows // qps))
        health = some_failed(fabric, share, rng)
        name = f"3t q{qps}, {share:.0%} failed"
        return Case(name=name, fabric=fabric, health=health, jobs=(permutation(fabric, qps, rng),), target=1.02)

    return case


def _residual(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 4, _spines(flows // 4))
    base = residual(fabric, 0.2, rng)
    return Case(
        name="2t q4, 20% residual", fabric=fabric, jobs=(permutation(fabric, 4, rng),), base_share=base, target=1.02
    )


def _mixed(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 8, _spines(flows // 8))
    return Case(name="2t mixed rates q8", fabric=fabric, jobs=(mixed_rates(fabric, 8, rng),), target=1.02)


def _mixed_failed(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows // 8, _spines(flows // 8))
    health, base = some_failed(fabric, 0.01, rng), residual(fabric, 0.2, rng)
    jobs = (mixed_rates(fabric, 8, rng),)
    name = "2t mixed q8, 1% failed, 20% residual"
    return Case(name=name, fabric=fabric, health=health, jobs=jobs, base_share=base, target=1.02)


def _mixed_three(flows: int, rng: Rng) -> Case:
    fabric = three_tiers(_arity(flows // 4))
    health, base = some_failed(fabric, 0.01, rng), residual(fabric, 0.2, rng)
    jobs = (mixed_rates(fabric, 4, rng),)
    name = "3t mixed q4, 1% failed, 20% residual"
    return Case(name=name, fabric=fabric, health=health, jobs=jobs, base_share=base, target=1.02)


def _powers(flows: int, rng: Rng) -> Case:
    fabric = two_tiers(flows, _spines(flows))
    return Case(name="2t rates 1 to 1/8 q1", fabric=fabric, jobs=(powers(fabric, rng),), target=1.02)


def _tight(filled: float, splits: str) -> Callable[[int, Rng], Case]:
    def case(flows: int, rng: Rng) -> Case:
        fabric = two_tiers(flows // 4, _spines(flows // 4))
        name = f"2t tight {splits}, {filled:.0%} full"
        return Case(name=name, fabric=fabric, jobs=tight(fabric, filled, splits, rng), target=1.125)

    return case


FAMILIES: dict[str, Callable[[int, Rng], Case]] = {
    "equal-q8": _equal_q8,
    "equal-q1": _equal_q1,
    "equal-strides": _equal_strides,
    "equal-odd": _equal_odd,
    "equal-spare": _equal_half_full,
    "equal-parallel": _equal_parallel,
    "equal-rails": _equal_rails,
    "equal-uneven": _equal_uneven,
    "equal-jobs": _equal_jobs,
    "equal-phases": _equal_phases,
    "equal-3t-q8": _equal_three,
    "equal-3t-q1": _equal_three_q1,
    "lean-q4": _lean,
    "lean-q1": _lean_q1,
    "lean-local": _lean_local,
    "failed-q1": _failed(0.02, 1),
    "failed-q4": _failed(0.05, 4),
    "failed-q8": _failed(0.01, 8),
    "failed-3t-q8": _failed_three(0.01, 8),
    "failed-3t-q1": _failed_three(0.02, 1),
    "residual": _residual,
    "mixed": _mixed,
    "mixed-failed": _mixed_failed,
    "mixed-3t-failed": _mixed_three,
    "powers": _powers,
    "tight-halves-90": _tight(0.9, "halves"),
    "tight-halves-100": _tight(1.0, "halves"),
    "tight-dirichlet-90": _tight(0.9, "dirichlet"),
    "tight-dirichlet-100": _tight(1.0, "dirichlet"),
}
"""The functions that make a case of about a number of flows, by family name."""


def cases(flows: int, *, seed: int = 1, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Case]]:
    """Yield the cases one after the other, each from a generator of its own, independent of their order."""
    for number, (name, make) in enumerate(FAMILIES.items()):
        if not names or name in names:
            yield name, make(flows, np.random.default_rng([seed, flows, number]))
